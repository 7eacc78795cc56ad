"""Kernels that are no expression: matrices that are given, and functions of Python. Their rows become coordinates.

A few columns of the kernel matrix K (randomly pivoted Cholesky) give F with ``F F^T`` near K; the engine learns on the rows of F with
a linear kernel, which is learning with K up to the trace error, whatever the solver. New rows need the kernel at the pivots only.

Of distances D, K is that of points which have them, with the first row as the origin (Gower, "Some distance properties of latent root
and vector methods used in multivariate analysis", 1966): k(i, j) = (D(i, 0)^2 + D(j, 0)^2 - D(i, j)^2) / 2.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from . import _kmill
from ._kernel import is_precomputed
from ._progress import Progress


def needs_coordinates(kernel: Any) -> bool:
    """Whether a kernel is a matrix that is given, or a function."""
    return callable(kernel) or is_precomputed(kernel)


# what rounding may do to distances, as a share of the largest: as in `kmill coordinates`
_ROUNDING = 1e-6
_NO_POINTS = ("no points have these distances, as none have those of a cycle, or they are rounded too much, as in float32; the square roots of "
              "distances often have points")


def _check_distances(X: Any) -> None:
    """Refuses a square matrix whose values cannot be distances, in blocks so that no second matrix is held."""
    own = np.flatnonzero(np.diagonal(X))
    if own.size:
        raise ValueError(f"distances of rows from themselves must be 0: row {own[0]}, column {own[0]} has {X[own[0], own[0]]}")
    slack = _ROUNDING * X.max()
    for start in range(0, len(X), 256):
        there, back = X[start : start + 256], X[:, start : start + 256].T
        wrong = np.argwhere((np.abs(there - back) > slack) | (there < 0.0))
        if wrong.size:
            i, j = wrong[0] + [start, 0]
            raise ValueError(f"distances must be the same both ways, and at least 0: row {i}, column {j} has {X[i, j]}, and row {j}, "
                             f"column {i} has {X[j, i]}")


class Coordinates:
    """The coordinates of rows under a kernel that Python tells."""

    _squares: Any = None  # of distances, the squared ones from the first row

    def __init__(self, estimator: Any, X: Any, seed: int, rank: int) -> None:
        self._kernel = None if is_precomputed(estimator.kernel) else estimator.kernel
        self._parameters = estimator.kernel_params or {}
        self._in_blocks = estimator._kernel_of_arrays
        n = len(X)
        if self._kernel is None and X.shape[1] != n:
            raise ValueError(f"Precomputed matrix must be a square matrix. Input is a {n}x{X.shape[1]} matrix.")
        if estimator.kernel == "distances":
            _check_distances(X)
            self._squares = diagonal = np.square(X[:, 0], dtype=np.float64)
        else:
            diagonal = np.diagonal(X) if self._kernel is None else [self._kernel_values(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(n)]

        def block(first: int, last: int, columns: Any) -> Any:
            part = X[first:last]
            found = self._precomputed_values(part, columns) if self._kernel is None else self._kernel_values(part, X[columns])
            return np.asarray(found, dtype=np.float64)

        tolerance = getattr(estimator, "tolerance", None)
        rounding = float(np.finfo(X.dtype if self._kernel is None else np.float64).eps)
        try:
            with Progress(estimator.verbose) as show:
                self.pivots, self.rows, self._lower, self.trace_error = _kmill.factor(
                    np.ascontiguousarray(diagonal, dtype=np.float64), block, rounding, rank,
                    0.0 if tolerance is None else float(tolerance), seed, json.dumps(estimator._run()), show
                )
        except ValueError as error:
            if self._squares is None or "semi-definite" not in str(error):
                raise
            raise ValueError(_NO_POINTS) from error
        if len(self.pivots) == 0:
            raise ValueError("no landmark is left: the kernel is zero on every row; choose another kernel or scale the features")
        self.points = None if self._kernel is None else X[self.pivots].copy()

    @property
    def landmarks(self) -> Any:
        """The coordinates of the pivots."""
        return self._lower

    def _kernel_values(self, A: Any, B: Any) -> Any:
        if self._in_blocks:
            return np.asarray(self._kernel(A, B, **self._parameters), dtype=np.float64)
        return pairwise_kernels(A, B, metric=self._kernel, **self._parameters)

    def _precomputed_values(self, X: Any, columns: Any) -> Any:
        """Kernel values of rows of the matrix, at some of its columns."""
        if self._squares is None:
            return X[:, columns]
        return 0.5 * (np.square(X[:, :1], dtype=np.float64) + self._squares[columns] - np.square(X[:, columns], dtype=np.float64))

    def of(self, X: Any) -> Any:
        """The coordinates of new rows: of a given matrix, rows of its values at the rows of the fit."""
        from scipy.linalg import solve_triangular

        if self._squares is not None and np.any(X < 0.0):
            row, column = np.argwhere(X < 0.0)[0]
            raise ValueError(f"distances must be at least 0: row {row}, column {column} has {X[row, column]}")
        values = self._precomputed_values(X, self.pivots) if self.points is None else self._kernel_values(X, self.points)
        return np.ascontiguousarray(solve_triangular(self._lower, values.T, lower=True).T, dtype=np.float64)


def reject_feature_parameters(estimator: Any) -> None:
    """Refuses parameters that need features, or numbers that such a kernel does not read."""
    usual = {parameter.name: parameter.default for parameter in estimator._parameters}
    name = type(estimator).__name__
    if any(getattr(estimator, number, None) != usual.get(number) for number in ("gamma", "coef0", "degree")):
        raise ValueError(f"Don't pass gamma, coef0 or degree to {name} if using a callable, a precomputed kernel or distances")
    if getattr(estimator, "scale", None) not in (None, "none") or getattr(estimator, "metric", None) is not None:
        raise ValueError(f"Don't pass scale or metric to {name} if using a callable, a precomputed kernel or distances: it has no features")
    if getattr(estimator, "landmarks", None) != usual.get("landmarks") or getattr(estimator, "map", None) not in (None, "nystrom"):
        raise ValueError(f"Don't pass landmarks or map to {name} if using a callable, a precomputed kernel or distances: its pivots are the landmarks")
