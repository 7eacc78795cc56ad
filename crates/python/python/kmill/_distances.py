"""Coordinates of objects from a distance: landmark multidimensional scaling."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from . import _kmill

# number of objects whose distances to the landmarks are in memory at a time
_CHUNK_OBJECTS = 1024


def _pairwise(metric: Any, in_blocks: bool, objects: Any, landmarks: Any) -> Any:
    """Returns the distances of objects to the landmarks, one row per object, in float64."""
    if in_blocks:
        values = np.asarray(metric(objects, landmarks), dtype=np.float64)
    else:
        values = np.array([[metric(a, b) for b in landmarks] for a in objects], dtype=np.float64)
    if values.shape != (len(objects), len(landmarks)):
        raise ValueError(f"metric returned an array of shape {values.shape}, expected {(len(objects), len(landmarks))}: "
                         "a distance for each pair")
    return values


def _chunks(objects: Any) -> Iterator[Any]:
    return (objects[first : first + _CHUNK_OBJECTS] for first in range(0, len(objects), _CHUNK_OBJECTS))


class LandmarkMDS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Landmark multidimensional scaling: coordinates of any objects from a distance; also transforms new objects.

    The distances among the landmarks determine the coordinates by classical scaling. The coordinates of any object follow from its
    distances to the landmarks. So n objects need n times ``n_landmarks`` distances, of which 1,024 rows are in memory at a time.

    Parameters
    ----------
    n_components : int or None, default=2
        Maximum number of coordinates; None for all with a positive eigenvalue.
    metric : callable or "precomputed", default="precomputed"
        Distance of two objects; with ``in_blocks=True``, a function of two sequences of objects that returns the matrix of their distances.
        "precomputed": ``fit`` needs the matrix of the distances among the landmarks, and ``transform`` the distances of objects to the
        landmarks, one row per object.
    n_landmarks : int, default=500
        Number of landmarks, a uniform sample of the objects of ``fit``.
    in_blocks : bool, default=False
        Whether ``metric`` accepts sequences of objects.
    of : {"distances", "squared-distances", "kernel"}, default="distances"
        Meaning of the numbers. Values of a kernel, such as similarities, may be indefinite.
    tolerance : float, default=1e-6
        Fewer coordinates suffice if the remaining positive eigenvalues are at most this fraction of the sum of all positive eigenvalues.
    random_state : int, RandomState instance or None, default=0
        Seed of the sample of landmarks.
    n_jobs : int or None, default=None
        Number of processes that compute distances, as in joblib; ``metric`` must be picklable if it is not 1.

    Attributes
    ----------
    landmarks_ : sequence
        The landmarks; the matrix of their distances if ``metric`` is "precomputed".
    landmark_indices_ : array of int
        Positions of the landmarks among the objects of ``fit``.
    euclidean_ : bool
        Whether the distances among the landmarks are Euclidean, up to ``tolerance``. If not, the coordinates are those of the positive part
        of the matrix of inner products.
    spectrum_ : dict
        Numbers and sums of the positive and the (absolute) negative eigenvalues, the largest and the smallest eigenvalue, and
        ``positive_fraction``: the sum of the positive eigenvalues as a fraction of the sum of all absolute eigenvalues.
    trace_error_ : float
        Sum of the positive eigenvalues without a coordinate, as a fraction of the sum of all positive eigenvalues.
    model_ : object
        The model. ``model_.save(path)`` writes a file that ``kmill predict`` reads.

    Notes
    -----
    The objects may be a list, such as of texts or graphs, or an array with a row per object. The estimator can be pickled if ``metric``
    can.

    References
    ----------
    de Silva, Tenenbaum, "Sparse multidimensional scaling using landmark points", 2004; Platt, "FastMap, MetricMap, and Landmark MDS are all
    Nyström algorithms", AISTATS 2005.

    Examples
    --------
    >>> from kmill import LandmarkMDS
    >>> def differing(a, b):
    ...     return sum(x != y for x, y in zip(a, b))
    >>> words = ["cat", "car", "bat", "dog", "dot", "cot"]
    >>> LandmarkMDS(n_components=2, metric=differing, n_landmarks=5).fit_transform(words).shape
    (6, 2)
    """

    def __init__(self, n_components: int | None = 2, *, metric: Any = "precomputed", n_landmarks: int = 500, in_blocks: bool = False,
                 of: str = "distances", tolerance: float = 1e-6, random_state: Any = 0, n_jobs: int | None = None):
        self.n_components = n_components
        self.metric = metric
        self.n_landmarks = n_landmarks
        self.in_blocks = in_blocks
        self.of = of
        self.tolerance = tolerance
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> LandmarkMDS:
        """Choose landmarks and decompose their distances.

        Parameters
        ----------
        X : sequence of objects, or the matrix of distances among the landmarks
            The objects.
        y : ignored
            Ignored.

        Returns
        -------
        self
        """
        self._check_parameters()
        X = self._objects(X)
        if self.metric == "precomputed":
            if X.ndim != 2 or X.shape[0] != X.shape[1]:
                raise ValueError(f"fit needs the square matrix of the distances among the landmarks, got an array of shape {X.shape}; "
                                 "pass the distances of other objects to transform")
            indices, landmarks, matrix = np.arange(len(X)), X, X
        else:
            count = min(self.n_landmarks, len(X))
            indices = np.sort(check_random_state(self.random_state).permutation(len(X))[:count])
            landmarks = X[indices] if isinstance(X, np.ndarray) else [X[i] for i in indices]
            matrix = self._to_landmarks(landmarks, landmarks)
        rank = len(matrix) if self.n_components is None else self.n_components
        model, report = _kmill.landmark_scaling(np.ascontiguousarray(matrix, dtype=np.float64), self.of, rank, float(self.tolerance))
        report = json.loads(report)
        self.landmarks_, self.landmark_indices_ = landmarks, indices
        self.model_, self.euclidean_, self.trace_error_ = model, report["euclidean"], report["trace_error"]
        self.spectrum_ = report["spectrum"]
        return self

    def transform(self, X: Any) -> Any:
        """Compute the coordinates of objects.

        Parameters
        ----------
        X : sequence of objects, or their distances to the landmarks
            The objects.

        Returns
        -------
        array of shape (n_objects, n_coordinates)
            The coordinates.
        """
        check_is_fitted(self)
        X = self._objects(X)
        out = np.empty((len(X), self.model_.outputs))
        first = 0
        for values in self._distances(X):
            out[first : first + len(values)] = self._coordinates(values, first)
            first += len(values)
        return out

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.outputs)

    def _check_parameters(self) -> None:
        if not (self.metric == "precomputed" or callable(self.metric)):
            raise ValueError(f"metric must be a callable or 'precomputed', got {self.metric!r}; pass a function of two objects")
        for name in ("n_components", "n_landmarks"):
            value = getattr(self, name)
            is_count = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1
            if not is_count and not (name == "n_components" and value is None):
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        if not 0.0 <= self.tolerance < 1.0:
            raise ValueError(f"tolerance must be at least 0 and below 1, got {self.tolerance!r}")

    def _objects(self, X: Any) -> Any:
        """Returns the objects as an array or a sequence with a length."""
        if self.metric == "precomputed":
            X = np.asarray(X, dtype=np.float64)
        elif hasattr(X, "to_numpy"):
            X = X.to_numpy()
        elif not isinstance(X, (np.ndarray, Sequence)):
            X = list(X)
        if len(X) == 0:
            raise ValueError("X has no objects; pass at least two for fit, and one for transform")
        return X

    def _to_landmarks(self, objects: Any, landmarks: Any) -> Any:
        """Returns all distances of objects to landmarks."""
        tasks = (delayed(_pairwise)(self.metric, self.in_blocks, chunk, landmarks) for chunk in _chunks(objects))
        return np.concatenate(list(Parallel(n_jobs=self.n_jobs)(tasks)))

    def _distances(self, X: Any) -> Iterator[Any]:
        """Returns the distances of objects to the landmarks, in chunks of rows."""
        if self.metric == "precomputed":
            if X.ndim != 2 or X.shape[1] != len(self.landmarks_):
                raise ValueError(f"transform needs {len(self.landmarks_)} columns, the distances to the landmarks, got an array of shape "
                                 f"{X.shape}")
            return _chunks(X)
        tasks = (delayed(_pairwise)(self.metric, self.in_blocks, chunk, self.landmarks_) for chunk in _chunks(X))
        return iter(Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks))

    def _coordinates(self, values: Any, first: int) -> Any:
        invalid = ~np.isfinite(values) if self.of == "kernel" else ~((values >= 0.0) & np.isfinite(values))
        if invalid.any():
            row, column = np.argwhere(invalid)[0]
            raise ValueError(f"distances must be finite and at least 0: object {first + row} has {values[row, column]} for "
                             f"landmark {column}")
        return self.model_.predict(np.ascontiguousarray(values))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, from which ``kmill predict`` computes coordinates of tables of distances to the landmarks.

        Parameters
        ----------
        path : str or path
            Name of the file.
        """
        check_is_fitted(self)
        self.model_.save(os.fspath(path))
