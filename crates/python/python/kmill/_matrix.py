"""Kernels that are no expression: matrices that are given, and functions of Python. Their rows become coordinates.

A few columns of the kernel matrix K (randomly pivoted Cholesky) give F with ``F F^T`` near K; the engine learns on the rows of F with
a linear kernel, which is learning with K up to the trace error, whatever the solver. New rows need the kernel at the pivots only.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from . import _kmill
from ._progress import Progress


def is_told(kernel: Any) -> bool:
    """Whether a kernel is a matrix that is given, or a function."""
    return callable(kernel) or (isinstance(kernel, str) and kernel == "precomputed")


class Coordinates:
    """The coordinates of rows under a kernel that Python tells."""

    def __init__(self, estimator: Any, X: Any, seed: int, rank: int) -> None:
        self._kernel = None if estimator.kernel == "precomputed" else estimator.kernel
        self._parameters = estimator.kernel_params or {}
        self._in_blocks = estimator._kernel_of_arrays
        n = len(X)
        if self._kernel is None and X.shape[1] != n:
            raise ValueError(f"Precomputed matrix must be a square matrix. Input is a {n}x{X.shape[1]} matrix.")
        diagonal = np.diagonal(X) if self._kernel is None else [self._values(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(n)]

        def block(first: int, last: int, columns: Any) -> Any:
            part = X[first:last]
            found = part[:, columns] if self._kernel is None else self._values(part, X[columns])
            return np.asarray(found, dtype=np.float64)

        tolerance = getattr(estimator, "tolerance", None)
        with Progress(estimator.verbose) as show:
            self.pivots, self.rows, self._lower, self.trace_error = _kmill.factor(
                np.ascontiguousarray(diagonal, dtype=np.float64), block, rank, 0.0 if tolerance is None else float(tolerance),
                seed, json.dumps(estimator._run()), show
            )
        if len(self.pivots) == 0:
            raise ValueError("the kernel matrix is 0: its rows have no coordinates")
        self.points = None if self._kernel is None else X[self.pivots].copy()

    @property
    def landmarks(self) -> Any:
        """The coordinates of the pivots."""
        return self._lower

    def _values(self, A: Any, B: Any) -> Any:
        if self._in_blocks:
            return np.asarray(self._kernel(A, B, **self._parameters), dtype=np.float64)
        return pairwise_kernels(A, B, metric=self._kernel, **self._parameters)

    def of(self, X: Any) -> Any:
        """The coordinates of new rows: of a precomputed kernel, rows of kernel values at the rows of the fit."""
        from scipy.linalg import solve_triangular

        values = X[:, self.pivots] if self.points is None else self._values(X, self.points)
        return np.ascontiguousarray(solve_triangular(self._lower, values.T, lower=True).T, dtype=np.float64)


def refuse(estimator: Any) -> None:
    """Refuses parameters that need features, or numbers that such a kernel does not read."""
    usual = {parameter.name: parameter.default for parameter in estimator._parameters}
    name = type(estimator).__name__
    if any(getattr(estimator, number, None) != usual.get(number) for number in ("gamma", "coef0", "degree")):
        raise ValueError(f"Don't pass gamma, coef0 or degree to {name} if using a callable or precomputed kernel")
    if getattr(estimator, "scale", None) not in (None, "none") or getattr(estimator, "metric", None) is not None:
        raise ValueError(f"Don't pass scale or metric to {name} if using a callable or precomputed kernel: it has no features")
    if not (getattr(estimator, "landmarks", None) is None and getattr(estimator, "map", None) in (None, "nystrom")):
        raise ValueError(f"Don't pass landmarks or map to {name} if using a callable or precomputed kernel: its pivots are the landmarks")
