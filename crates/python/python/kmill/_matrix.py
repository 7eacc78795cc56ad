"""Kernels without an expression: precomputed matrices, distances and callables. They are converted to coordinates of the rows.

Randomly pivoted Cholesky computes F with ``F F^T`` close to K from a few columns of the kernel matrix K. The engine fits a linear kernel
on the rows of F, which equals a fit with K up to the trace error, for every solver. New rows need kernel values at the pivots only.

Distances D define K as the inner products of points with these distances, with the first row as the origin (Gower, "Some distance
properties of latent root and vector methods used in multivariate analysis", 1966): k(i, j) = (D(i, 0)^2 + D(j, 0)^2 - D(i, j)^2) / 2.
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
    """Returns whether a kernel is precomputed, a matrix of distances, or a callable."""
    return callable(kernel) or is_precomputed(kernel)


# tolerance for rounding errors of distances, relative to the largest distance, as in `kmill coordinates`
_ROUNDING = 1e-6
_NO_POINTS = ("no points have these distances: they are not Euclidean (such as the path lengths in a cycle), or rounded too much (such as to "
              "float32); pass float64, or the square roots of the distances, which are Euclidean more often; or use LandmarkMDS, which accepts "
              "any distances, and a linear kernel on its coordinates")


def _check_distances(X: Any) -> None:
    """Rejects a square matrix that is not a matrix of distances, in blocks to avoid a second matrix in memory."""
    nonzero = np.flatnonzero(np.diagonal(X))
    if nonzero.size:
        raise ValueError(f"the distance of a row from itself must be 0: row {nonzero[0]}, column {nonzero[0]} has {X[nonzero[0], nonzero[0]]}")
    slack = _ROUNDING * X.max()
    for start in range(0, len(X), 256):
        block, transposed = X[start : start + 256], X[:, start : start + 256].T
        wrong = np.argwhere((np.abs(block - transposed) > slack) | (block < 0.0))
        if wrong.size:
            i, j = wrong[0] + [start, 0]
            raise ValueError(f"distances must be symmetric, and at least 0: row {i}, column {j} has {X[i, j]}, and row {j}, "
                             f"column {i} has {X[j, i]}")


class Coordinates:
    """The coordinates of rows under a precomputed kernel, distances or a callable."""

    _squares: Any = None  # squared distances from the first row, if the kernel is "distances"

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
            values = self._precomputed_values(part, columns) if self._kernel is None else self._kernel_values(part, X[columns])
            return np.asarray(values, dtype=np.float64)

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
            raise ValueError("no landmark could be chosen: the kernel is zero on every row; choose another kernel or scale the features")
        self.points = None if self._kernel is None else X[self.pivots].copy()

    @property
    def landmarks(self) -> Any:
        """The coordinates of the pivots, rank x rank, lower triangular."""
        return self._lower

    def _kernel_values(self, A: Any, B: Any) -> Any:
        if self._in_blocks:
            return np.asarray(self._kernel(A, B, **self._parameters), dtype=np.float64)
        return pairwise_kernels(A, B, metric=self._kernel, **self._parameters)

    def _precomputed_values(self, X: Any, columns: Any) -> Any:
        """Returns kernel values of rows of the matrix, at some of its columns."""
        if self._squares is None:
            return X[:, columns]
        return 0.5 * (np.square(X[:, :1], dtype=np.float64) + self._squares[columns] - np.square(X[:, columns], dtype=np.float64))

    def of(self, X: Any) -> Any:
        """Returns the coordinates of new rows; for a matrix, X has their kernel values or distances at the rows of the fit."""
        from scipy.linalg import solve_triangular

        if self._squares is not None and np.any(X < 0.0):
            row, column = np.argwhere(X < 0.0)[0]
            raise ValueError(f"distances must be at least 0: row {row}, column {column} has {X[row, column]}")
        values = self._precomputed_values(X, self.pivots) if self.points is None else self._kernel_values(X, self.points)
        return np.ascontiguousarray(solve_triangular(self._lower, values.T, lower=True).T, dtype=np.float64)


def reject_feature_parameters(estimator: Any) -> None:
    """Rejects parameters that need features, and kernel parameters that such a kernel does not have."""
    defaults = {parameter.name: parameter.default for parameter in estimator._parameters}
    name = type(estimator).__name__
    if any(getattr(estimator, number, None) != defaults.get(number) for number in ("gamma", "coef0", "degree")):
        raise ValueError(f"Don't pass gamma, coef0 or degree to {name} if using a callable, a precomputed kernel or distances")
    if getattr(estimator, "scale", None) not in (None, "none") or getattr(estimator, "metric", None) is not None:
        raise ValueError(f"Don't pass scale or metric to {name} if using a callable, a precomputed kernel or distances: there are no features")
    if getattr(estimator, "landmarks", None) != defaults.get("landmarks") or getattr(estimator, "map", None) not in (None, "nystrom"):
        raise ValueError(f"Don't pass landmarks or map to {name} if using a callable, a precomputed kernel or distances: the pivots are the landmarks")
