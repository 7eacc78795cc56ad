"""Coordinates: of rows for pictures, and of rows that have a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._learners import Classifier, Regressor, Supervised, Transformer
from ._parameters import estimator

_WITHOUT_KERNEL = ("kernel", "gamma", "coef0", "degree", "kernel_params", "map")


@estimator("mds", first=("n_components",), without=("map",), kernel="linear", landmarks="uniform")
class MDS(Transformer):
    """Multidimensional scaling on landmarks: coordinates whose distances are those between rows; new rows have them too.

    Notes
    -----
    Landmarks are random rows, of which there may be more than independent columns. The classical one of ``sklearn.manifold.ClassicalMDS``, up to signs where every row is a landmark. With another kernel distances
    are those in its feature space.

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
    """Coordinates from distances between rows; no kernel is read."""

    kernel = None
    n_neighbors: Any

    def _solver_options(self, rows: float | None) -> dict[str, str]:
        engine = super()._solver_options(rows)
        # as for ranks: a few rows have no more neighbours than there are others
        if rows is not None and isinstance(self.n_neighbors, int) and self.n_neighbors >= rows > 1:
            engine["neighbours"] = str(int(rows) - 1)
        return engine


@estimator("isomap", first=("n_components",), without=_WITHOUT_KERNEL)
class Isomap(_Neighbours):
    """Isomap on landmarks: coordinates whose distances are those along the sheet that the rows lie on; new rows have them too.

    References
    ----------
    Tenenbaum, de Silva, Langford, "A global geometric framework for nonlinear dimensionality reduction", 2000.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from kmill import Isomap
    >>> X, place = make_swiss_roll(1000, random_state=0)
    >>> Isomap(n_neighbors=8, rank=100).fit_transform(X).shape
    (1000, 2)
    """


@estimator("lle", first=("n_components",), without=_WITHOUT_KERNEL, rank=None)
class LocallyLinearEmbedding(_Neighbours):
    """Locally linear embedding: coordinates in which every row is made of its neighbours as among the features.

    References
    ----------
    Roweis, Saul, "Nonlinear dimensionality reduction by locally linear embedding", 2000.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from kmill import LocallyLinearEmbedding
    >>> X, place = make_swiss_roll(1000, random_state=0)
    >>> LocallyLinearEmbedding(n_neighbors=10, nodes=500).fit_transform(X).shape
    (1000, 2)
    """


@estimator("mvu", first=("n_components",), without=_WITHOUT_KERNEL, rank=None)
class MaximumVarianceUnfolding(_Neighbours):
    """Maximum variance unfolding: coordinates as far apart as neighbours allow. ``rank`` is at most 100.

    References
    ----------
    Weinberger, Saul, "Unsupervised learning of image manifolds by semidefinite programming", 2006.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from kmill import MaximumVarianceUnfolding
    >>> X, place = make_swiss_roll(400, random_state=0)
    >>> MaximumVarianceUnfolding(n_neighbors=6, nodes=200, rank=20).fit_transform(X).shape
    (400, 2)
    """


@estimator("laplacian", first=("n_components",))
class LaplacianEigenmaps(Transformer):
    """Laplacian eigenmaps: coordinates in which rows that the kernel connects are near each other; new rows have them too.

    Notes
    -----
    In the place of ``sklearn.manifold.SpectralEmbedding(affinity="rbf")``.

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
    """Kernel principal components in the L1 norm, which outliers move less.

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


class _Directed(Supervised, Transformer):
    """Coordinates that depend on a target."""

    _target = "either"
    _multi_output = False
    task: Any

    def _targets(self, y: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> list[str]:
        """The target; text and truth values are classes, as those of ``task="classification"``."""
        self._labelled = self.task == "classification" or (not isinstance(y, str) and np.asarray(y).dtype.kind in "bOUS")
        kind: Any = Classifier if self._labelled else Regressor
        return kind._targets(self, y, count, names, more)

    def _solver_options(self, rows: float | None) -> dict[str, str]:
        return {**super()._solver_options(rows), **({"task": "classification"} if getattr(self, "_labelled", False) else {})}

    def _reset_fit(self) -> None:
        super()._reset_fit()
        self.__dict__.pop("_labelled", None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@estimator("spca", first=("n_components",))
class SupervisedPCA(_Directed):
    """Supervised principal components: the directions in feature space that depend most on a target.

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
class KernelDimensionReduction(_Directed):
    """Kernel dimension reduction: the directions of the columns that a target depends on.

    ``model_.importance()`` tells what each column counts.

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
