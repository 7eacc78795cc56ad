"""Estimators without a target: features, components, novelty, groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ._base import figures_of
from ._docs import document
from ._learners import Clusters, Novelty, SupportVectors, Transformer, WeightedRows, landmarks_of
from ._matrix import needs_coordinates
from ._parameters import Parameter, estimator
from ._rows import is_stream
from ._supervised import KernelRidge

_COMPONENTS = Parameter("n_components", 100, "int", "Number of features that are made.")


@estimator("oneclass", without=("weights",), gamma="scale", coef0=0.0, nu=0.5)
class OneClassSVM(SupportVectors, WeightedRows, Novelty):
    """One-class support vector machine: rows unlike those of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> OneClassSVM(nu=0.1, gamma=0.5, rank=50).fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _kernel_of_arrays = True


@estimator("mean")
class KernelNovelty(Novelty):
    """Distance in feature space from the mean of all rows: a score that is negative for the farthest.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelNovelty
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> KernelNovelty(nu=0.1, gamma=0.5, rank=50).fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """


@estimator("kmeans", without=("weights",), n_clusters=8)
class KernelKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, WeightedRows, Clusters):
    """Kernel k-means: groups of rows around their means in feature space.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from kmill import KernelKMeans
    >>> X, y = make_blobs(300, centers=3, random_state=0, cluster_std=0.5)
    >>> int(KernelKMeans(n_clusters=3, gamma=0.1, rank=50).fit(X).labels_.max())
    2
    """

    @document
    def transform(self, X: Any) -> Any:
        """Compute the distances of rows from the centres of the clusters, in feature space.

        Returns
        -------
        array of shape (n_samples, n_clusters)
            The distances; the least is that of the cluster that :meth:`predict` gives.
        """
        # a score is the inner product with a centre less half of the centre's square
        scores, squares = self._extra(X, "squares")
        left = squares - 2.0 * scores
        # what is left by rounding is no distance
        return np.sqrt(np.where(left > 16.0 * np.finfo(float).eps * squares, left, 0.0))

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.outputs)


@estimator("spectral", n_clusters=8)
class SpectralClustering(Clusters):
    """Spectral clustering: groups of rows that the kernel connects; new rows have groups too.

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

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The landmarks, scaled as the kernel sees them.
    component_indices_ : array of shape (n_components,)
        Their rows.

    References
    ----------
    Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import Nystroem
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> features = Nystroem(gamma=0.2, n_components=40).fit(X)
    >>> features.trace_error_ < 0.01
    True
    >>> features.transform(X).shape
    (500, 40)
    """

    @property
    def components_(self) -> Any:
        """The landmarks."""
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            return self._coordinates.points
        return landmarks_of(self.model_)[0]

    @property
    def component_indices_(self) -> Any:
        """The rows of the landmarks."""
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            return self._coordinates.pivots
        return landmarks_of(self.model_)[1]


@estimator("features", own=(_COMPONENTS,), gamma=1.0,
           without=("kernel", "rank", "map", "coef0", "degree", "landmarks", "candidates"))
class RandomFourier(_Map):
    """Random Fourier features of the Gaussian kernel; no row is looked at.

    In the place of ``sklearn.kernel_approximation.RBFSampler``.

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


_INVERSE = (
    Parameter("fit_inverse_transform", False, "bool", "Learn the way back from components to rows, by ridge regression with the same "
              "kernel on the components: inverse_transform takes it."),
    Parameter("alpha", 1.0, "float", "The penalty of that regression."),
    Parameter("remove_zero_eig", True, "bool", "Leave out components without variance; where False, their coordinates are 0."),
    Parameter("eigen_solver", "auto", "str", "Read for scikit-learn's sake: the eigenvectors are always those of a dense matrix "
              "rank x rank."),
)


@estimator("kpca", first=("n_components",), own=_INVERSE, without=("weights",))
class KernelPCA(WeightedRows, Transformer):
    """Kernel principal components, on landmarks: the directions of largest variance in feature space.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues of the centred kernel matrix, the largest first. Its eigenvectors, which have a number for each row, are
        ``transform(X) / sqrt(eigenvalues_)``.

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

    n_components: Any
    alpha: Any
    fit_inverse_transform: Any
    remove_zero_eig: Any

    def _solver_options(self, rows: float | None) -> dict[str, str]:
        engine = super()._solver_options(rows)
        if self.n_components is None:
            engine["components"] = str(self._rank() or 1000)
        return engine

    def _fit_rows(self, X: Any, y: Any = None, sample_weight: Any = None, group: Any = None) -> Any:
        if self.fit_inverse_transform and (is_stream(X) or needs_coordinates(self.kernel) or issparse(X)):
            told = "a precomputed kernel or distances" if isinstance(self.kernel, str) else "a kernel that is a function"
            raise ValueError(f"Cannot fit_inverse_transform with {told if needs_coordinates(self.kernel) else 'sparse rows or a stream'}.")
        return super()._fit_rows(X, None, sample_weight)

    def _after_rows(self, X: Any) -> None:
        if self.fit_inverse_transform:
            rows = self._check_rows(X)
            shared = {parameter.name for parameter in self._parameters} & set(KernelRidge().get_params())
            values = {name: getattr(self, name) for name in shared - {"alpha", "metric", "map", "landmarks", "tolerance", "scale"}}
            self._inverse = KernelRidge(alpha=self.alpha, intercept="none", scale="none", **values)
            self._inverse.fit(self._outputs(rows), rows)

    def inverse_transform(self, X: Any) -> Any:
        """Rows with these coordinates, where the estimator has ``fit_inverse_transform=True``.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)
            Coordinates along the components.

        Returns
        -------
        array of shape (n_samples, n_features)
            The rows. :meth:`preimage` finds rows without a regression.
        """
        if getattr(self, "_inverse", None) is None:
            raise NotFittedError("the way back was not learned: set fit_inverse_transform=True before the fit")
        return self._inverse.predict(X)

    def _reset_fit(self) -> None:
        super()._reset_fit()
        self.__dict__.pop("_inverse", None)

    def _set_model(self, model: Any, found: dict[str, Any]) -> None:
        super()._set_model(model, found)
        values = np.array(figures_of(found["report"])["variance"]) * found["report"].get("weight", found["report"]["rows"])
        missing = 0 if self.remove_zero_eig or self.n_components is None else self.n_components - len(values)
        self.eigenvalues_ = np.pad(values, (0, max(missing, 0)))

    @document
    def transform(self, X: Any) -> Any:
        """Compute the coordinates of rows along the components.

        Returns
        -------
        array of shape (n_samples, n_components)
            The coordinates.
        """
        found = self._scores(X)
        return np.pad(found, ((0, 0), (0, self._n_features_out - found.shape[1])))

    @property
    def _n_features_out(self) -> int:
        return max(self.model_.outputs, len(getattr(self, "eigenvalues_", ())))

    @document
    def distance(self, X: Any) -> Any:
        """Compute the squared distances of rows from the components; needs ``novelty=True``.

        Returns
        -------
        array of shape (n_samples,)
            The squared distances.
        """
        return self._extra(X, "novelty")[1].ravel()

    @document
    def preimage(self, X: Any) -> Any:
        """Compute the nearest rows to what the components keep; needs ``novelty=True``.

        Returns
        -------
        array of shape (n_samples, n_features)
            The rows.
        """
        return self._extra(X, "preimage")[1]
