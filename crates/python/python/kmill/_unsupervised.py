"""Estimators without a target: features, components, novelty, groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._learners import Clusters, Novelty, Transformer
from ._parameters import Parameter, estimator

_COMPONENTS = Parameter("n_components", 100, "int", "Number of features that are made.")


@estimator("oneclass", gamma="scale", coef0=0.0)
class OneClassSVM(Novelty):
    """One-class support vector machine: rows unlike those of the fit.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    offset_ : float
        0: ``score_samples`` and ``decision_function`` are the same.
    report_ : dict
        The report of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> OneClassSVM(nu=0.1, gamma=0.5, rank=50).fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """


@estimator("mean")
class KernelNovelty(Novelty):
    """Distance in feature space from the mean of all rows: a score that is negative for the farthest.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    offset_ : float
        0: ``score_samples`` and ``decision_function`` are the same.
    report_ : dict
        The report of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelNovelty
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> KernelNovelty(nu=0.1, gamma=0.5, rank=50).fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """


@estimator("kmeans", n_clusters=8)
class KernelKMeans(Clusters):
    """Kernel k-means: groups of rows around their means in feature space.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        The group of each row of the fit, where it was in memory.
    report_ : dict
        The report of the fit.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from kmill import KernelKMeans
    >>> X, y = make_blobs(300, centers=3, random_state=0, cluster_std=0.5)
    >>> int(KernelKMeans(n_clusters=3, gamma=0.1, rank=50).fit(X).labels_.max())
    2
    """


@estimator("spectral", n_clusters=8)
class SpectralClustering(Clusters):
    """Spectral clustering: groups of rows that the kernel connects; new rows have groups too.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        The group of each row of the fit, where it was in memory.
    report_ : dict
        The report of the fit.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kmill import SpectralClustering
    >>> X, y = make_moons(400, noise=0.03, random_state=0)
    >>> labels = SpectralClustering(n_clusters=2, gamma=30.0, rank=100).fit(X).labels_
    >>> bool(abs((labels == y).mean() - 0.5) > 0.45)
    True
    """


class _Map(Transformer):
    """A map from rows to features, for other learners."""

    _rank_name = "n_components"


@estimator("features", first=("kernel",), own=(_COMPONENTS,), without=("rank",), coef0=None, degree=None)
class Nystroem(_Map):
    """Features of the Nystroem approximation: their inner products are kernel values, up to the certificate.

    In the place of ``sklearn.kernel_approximation.Nystroem``; the features are those up to a rotation.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The landmarks, scaled as the kernel sees them.
    component_indices_ : array of shape (n_components,)
        Their rows.
    trace_error_ : float or None
        The certificate: the relative trace error of the kernel matrix over all rows, exact.
    report_ : dict
        The report of the fit.

    References
    ----------
    Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import Nystroem
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> features = Nystroem(gamma=0.2, n_components=60).fit(X)
    >>> features.trace_error_ < 0.01
    True
    >>> features.transform(X).shape
    (500, 60)
    """

    @property
    def components_(self) -> Any:
        """The landmarks."""
        check_is_fitted(self, "model_")
        return self.model_.landmarks()[0]

    @property
    def component_indices_(self) -> Any:
        """The rows of the landmarks."""
        check_is_fitted(self, "model_")
        return self.model_.landmarks()[1].astype(np.int64)


@estimator("features", own=(_COMPONENTS,), gamma=1.0,
           without=("kernel", "rank", "map", "coef0", "degree", "landmarks", "candidates"))
class RandomFourier(_Map):
    """Random Fourier features of the Gaussian kernel; no row is looked at.

    In the place of ``sklearn.kernel_approximation.RBFSampler``.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    report_ : dict
        The report of the fit.

    References
    ----------
    Rahimi, Recht, "Random features for large-scale kernel machines", NeurIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> RandomFourier(gamma=0.5, n_components=64).fit_transform(X).shape
    (500, 64)
    """

    kernel = "rbf"

    def _map(self) -> dict[str, str]:
        return {"map": "fourier"}


@estimator("kpca", first=("n_components",))
class KernelPCA(Transformer):
    """Kernel principal components, on landmarks: the directions of largest variance in feature space.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues of the centred kernel matrix, the largest first.
    trace_error_ : float or None
        The certificate: the relative trace error of the kernel matrix over all rows, exact.
    report_ : dict
        The report of the fit.

    References
    ----------
    Schoelkopf, Smola, Mueller, "Nonlinear component analysis as a kernel eigenvalue problem", 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelPCA
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> KernelPCA(n_components=2, gamma=0.1, rank=60).fit_transform(X).shape
    (500, 2)
    """

    def _take(self, model: Any, found: dict[str, Any]) -> None:
        super()._take(model, found)
        figures = {figure["name"]: figure["values"] for figure in found["report"].get("figures", [])}
        self.eigenvalues_ = np.array(figures["variance"]) * found["report"]["rows"]

    def distance(self, X: Any) -> Any:
        """Squared distance of rows from the components, where the estimator has ``novelty=True``."""
        return self._extra(X, "novelty")[1].ravel()

    def preimage(self, X: Any) -> Any:
        """The nearest rows to what the components keep, where the estimator has ``novelty=True``."""
        return self._extra(X, "preimage")[1]
