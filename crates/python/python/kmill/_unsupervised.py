"""Estimators without a target: feature maps, components, outlier detection, clustering."""

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

_COMPONENTS = Parameter("n_components", 100, "int", "Number of output features.")


@estimator("oneclass", without=("weights",), gamma="scale", coef0=0.0, nu=0.5)
class OneClassSVM(SupportVectors, WeightedRows, Novelty):
    """One-class support vector machine, which detects outliers.

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
    """Outlier detection by the distance in feature space from the mean of all rows; the most distant rows have negative scores.

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
    """Kernel k-means: clusters of rows around their means in feature space.

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
        """Compute the distances between rows and cluster centres, in feature space.

        Returns
        -------
        array of shape (n_samples, n_clusters)
            The distances; :meth:`predict` returns the cluster of least distance.
        """
        # score_c = <phi(x), m_c> - |m_c|^2 / 2, so |phi(x) - m_c|^2 = |phi(x)|^2 - 2 score_c
        scores, squares = self._extra(X, "squares")
        squared_distances = squares - 2.0 * scores
        # differences within the rounding error are 0
        return np.sqrt(np.where(squared_distances > 16.0 * np.finfo(float).eps * squares, squared_distances, 0.0))

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.outputs)


@estimator("spectral", n_clusters=8)
class SpectralClustering(Clusters):
    """Spectral clustering: clusters of rows with large kernel values; also predicts the clusters of new rows.

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
    """A feature map, as input of other estimators."""

    _rank_name = "n_components"


@estimator("features", first=("kernel",), own=(_COMPONENTS,), without=("rank",), coef0=None, degree=None)
class Nystroem(_Map):
    """Nystroem feature map: the inner products of its features approximate the kernel; ``trace_error_`` is the error.

    It replaces ``sklearn.kernel_approximation.Nystroem``; with the same landmarks, the features are equal up to a rotation.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The landmarks after scaling.
    component_indices_ : array of shape (n_components,)
        The row indices of the landmarks.

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
        """The landmarks after scaling."""
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            return self._coordinates.points
        return landmarks_of(self.model_)[0]

    @property
    def component_indices_(self) -> Any:
        """The row indices of the landmarks."""
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            return self._coordinates.pivots
        return landmarks_of(self.model_)[1]


@estimator("features", own=(_COMPONENTS,), gamma=1.0,
           without=("kernel", "rank", "map", "coef0", "degree", "landmarks", "candidates"))
class RandomFourier(_Map):
    """Random Fourier features of the Gaussian kernel, which do not depend on the rows.

    It replaces ``sklearn.kernel_approximation.RBFSampler``.

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
    Parameter("fit_inverse_transform", False, "bool", "Whether to fit the regression of ``inverse_transform``: kernel ridge regression "
              "from the components to the rows, with the same kernel."),
    Parameter("alpha", 1.0, "float", "The regularisation parameter of the regression of ``inverse_transform``."),
    Parameter("remove_zero_eig", True, "bool", "Whether to omit components without variance; if False, their coordinates are 0."),
    Parameter("eigen_solver", "auto", "str", "Ignored; present for compatibility with scikit-learn. The eigenvectors are always "
              "computed from a dense rank x rank matrix."),
)


@estimator("kpca", first=("n_components",), own=_INVERSE, without=("weights",))
class KernelPCA(WeightedRows, Transformer):
    """Kernel principal component analysis on landmarks: the directions of largest variance in feature space.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues of the centred kernel matrix, in descending order. Its eigenvectors, which have an entry for each row, are
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
            kind = "a precomputed kernel or distances" if isinstance(self.kernel, str) else "a callable kernel"
            source = kind if needs_coordinates(self.kernel) else "sparse rows or a stream"
            raise ValueError(f"Cannot fit_inverse_transform with {source}: it needs dense rows in memory.")
        return super()._fit_rows(X, None, sample_weight)

    def _after_rows(self, X: Any) -> None:
        if self.fit_inverse_transform:
            rows = self._check_rows(X)
            shared = {parameter.name for parameter in self._parameters} & set(KernelRidge().get_params())
            values = {name: getattr(self, name) for name in shared - {"alpha", "metric", "map", "landmarks", "tolerance", "scale"}}
            self._inverse = KernelRidge(alpha=self.alpha, intercept="none", scale="none", **values)
            self._inverse.fit(self._outputs(rows), rows)

    def inverse_transform(self, X: Any) -> Any:
        """Compute rows from their coordinates; requires ``fit_inverse_transform=True``.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)
            Coordinates along the components.

        Returns
        -------
        array of shape (n_samples, n_features)
            The rows. :meth:`preimage` computes rows without a regression.
        """
        if getattr(self, "_inverse", None) is None:
            raise NotFittedError("the regression of inverse_transform was not fitted; set fit_inverse_transform=True before the fit")
        return self._inverse.predict(X)

    def _reset_fit(self) -> None:
        super()._reset_fit()
        self.__dict__.pop("_inverse", None)

    def _set_model(self, model: Any, outcome: dict[str, Any]) -> None:
        super()._set_model(model, outcome)
        report = outcome["report"]
        values = np.array(figures_of(report)["variance"]) * report.get("weight", report["rows"])
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
        coordinates = self._scores(X)
        return np.pad(coordinates, ((0, 0), (0, self._n_features_out - coordinates.shape[1])))

    @property
    def _n_features_out(self) -> int:
        return max(self.model_.outputs, len(getattr(self, "eigenvalues_", ())))

    @document
    def distance(self, X: Any) -> Any:
        """Compute the squared distances in feature space between rows and the span of the components; requires ``novelty=True``.

        Returns
        -------
        array of shape (n_samples,)
            The squared distances.
        """
        return self._extra(X, "novelty")[1].ravel()

    @document
    def preimage(self, X: Any) -> Any:
        """Compute pre-images: the rows whose images are closest to the projections on the components; requires ``novelty=True``.

        Returns
        -------
        array of shape (n_samples, n_features)
            The pre-images.
        """
        return self._extra(X, "preimage")[1]
