"""Estimators that compute low-dimensional coordinates: manifold learning, and supervised dimension reduction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._learners import Classifier, Regressor, Supervised, Transformer
from ._parameters import estimator

_WITHOUT_KERNEL = ("kernel", "gamma", "coef0", "degree", "kernel_params", "map")


@estimator("mds", first=("n_components",), without=("map",), kernel="linear", landmarks="uniform")
class MDS(Transformer):
    """Multidimensional scaling on landmarks: coordinates that preserve the distances between rows; also transforms new rows.

    Notes
    -----
    The landmarks are random rows; their number may exceed the number of linearly independent columns. If every row is a landmark, the
    coordinates are those of ``sklearn.manifold.ClassicalMDS``, up to signs. With a kernel other than linear, the distances are those in
    its feature space.

    References
    ----------
    de Silva, Tenenbaum, "Sparse multidimensional scaling using landmark points", 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import MDS
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Z = MDS(n_components=3, rank=50).fit_transform(X)
    >>> bool(abs(np.linalg.norm(Z[0] - Z[1]) - np.linalg.norm(X[0] - X[1])) < 1e-4)
    True
    """


class _Neighbours(Transformer):
    """Coordinates from a graph of nearest neighbours; there is no kernel."""

    kernel = None
    n_neighbors: Any

    def _solver_options(self, rows: float | None) -> dict[str, str]:
        engine = super()._solver_options(rows)
        # n rows have at most n - 1 neighbours each; a rank above n is reduced in the same way
        if rows is not None and isinstance(self.n_neighbors, int) and self.n_neighbors >= rows > 1:
            engine["neighbours"] = str(int(rows) - 1)
        return engine


@estimator("isomap", first=("n_components",), without=_WITHOUT_KERNEL)
class Isomap(_Neighbours):
    """Isomap on landmarks: coordinates that preserve geodesic distances along the manifold of the rows; also transforms new rows.

    References
    ----------
    Tenenbaum, de Silva, Langford, "A global geometric framework for nonlinear dimensionality reduction", 2000.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from kmill import Isomap
    >>> X, position = make_swiss_roll(1000, random_state=0)
    >>> Isomap(n_neighbors=8, rank=100).fit_transform(X).shape
    (1000, 2)
    """


@estimator("lle", first=("n_components",), without=_WITHOUT_KERNEL, rank=None)
class LocallyLinearEmbedding(_Neighbours):
    """Locally linear embedding: coordinates that preserve the weights by which each row is a combination of its neighbours.

    References
    ----------
    Roweis, Saul, "Nonlinear dimensionality reduction by locally linear embedding", 2000.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from kmill import LocallyLinearEmbedding
    >>> X, position = make_swiss_roll(1000, random_state=0)
    >>> LocallyLinearEmbedding(n_neighbors=10, nodes=500).fit_transform(X).shape
    (1000, 2)
    """


@estimator("mvu", first=("n_components",), without=_WITHOUT_KERNEL, rank=None)
class MaximumVarianceUnfolding(_Neighbours):
    """Maximum variance unfolding: coordinates of largest variance that preserve the distances between neighbours.

    ``rank`` is at most 100. ``edges="equal"`` with ``nodes`` equal to ``rank`` preserves these distances exactly; by default they may
    shrink.

    References
    ----------
    Weinberger, Saul, "Unsupervised learning of image manifolds by semidefinite programming", 2006.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from kmill import MaximumVarianceUnfolding
    >>> X, position = make_swiss_roll(400, random_state=0)
    >>> MaximumVarianceUnfolding(n_neighbors=6, nodes=200, rank=20).fit_transform(X).shape
    (400, 2)
    """


@estimator("laplacian", first=("n_components",))
class LaplacianEigenmaps(Transformer):
    """Laplacian eigenmaps: coordinates in which rows with a large kernel value are close; also transforms new rows.

    Notes
    -----
    A counterpart of ``sklearn.manifold.SpectralEmbedding(affinity="rbf")``.

    References
    ----------
    Belkin, Niyogi, "Laplacian eigenmaps for dimensionality reduction and data representation", 2003.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kmill import LaplacianEigenmaps
    >>> X, y = make_moons(400, noise=0.03, random_state=0)
    >>> Z = LaplacianEigenmaps(n_components=1, gamma=30.0, rank=100).fit_transform(X)
    >>> bool(abs(((Z[:, 0] > 0) == y).mean() - 0.5) > 0.45)
    True
    """


@estimator("kpca-l1", first=("n_components",))
class KernelPCAL1(Transformer):
    """Kernel principal components in the L1 norm, which is less sensitive to outliers.

    References
    ----------
    Xiao, Wang, Xu, Zhou, "L1 norm based KPCA for novelty detection", 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelPCAL1
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> KernelPCAL1(n_components=2, gamma=0.1, rank=60).fit_transform(X).shape
    (500, 2)
    """


class _SupervisedTransformer(Supervised, Transformer):
    """Coordinates that depend on a target."""

    _target = "either"
    _multi_output = False
    task: Any

    def _targets(self, y: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> list[str]:
        """Adds the target columns; text and booleans are classes, as any target with ``task="classification"``."""
        self._is_classification = self.task == "classification" or (not isinstance(y, str) and np.asarray(y).dtype.kind in "bOUS")
        kind: Any = Classifier if self._is_classification else Regressor
        return kind._targets(self, y, count, names, more)

    def _solver_options(self, rows: float | None) -> dict[str, str]:
        return {**super()._solver_options(rows), **({"task": "classification"} if getattr(self, "_is_classification", False) else {})}

    def _reset_fit(self) -> None:
        super()._reset_fit()
        self.__dict__.pop("_is_classification", None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@estimator("spca", first=("n_components",))
class SupervisedPCA(_SupervisedTransformer):
    """Supervised principal components: the directions in feature space of largest dependence on a target.

    References
    ----------
    Barshan, Ghodsi, Azimifar, Jahromi, "Supervised principal component analysis", 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import SupervisedPCA
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> SupervisedPCA(n_components=1, gamma=0.1, rank=100).fit(X, np.sin(X[:, 0])).transform(X).shape
    (500, 1)
    """


@estimator("kdr", first=("n_components",), without=("metric",))
class KernelDimensionReduction(_SupervisedTransformer):
    """Kernel dimension reduction: the linear combinations of the columns on which a target depends.

    ``model_.importance()`` returns the importance of each column.

    References
    ----------
    Fukumizu, Leng, "Gradient-based kernel dimension reduction for regression", 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelDimensionReduction
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> Z = KernelDimensionReduction(n_components=1, gamma=0.1, rank=200).fit(X, np.sin(X[:, 2])).transform(X)
    >>> bool(abs(np.corrcoef(Z[:, 0], X[:, 2])[0, 1]) > 0.98)
    True
    """
