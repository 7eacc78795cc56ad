"""Comparison of approximations: error against rank, and the choice of landmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from . import _kernel, _kmill
from ._draw import draw_curve
from ._parameters import as_list, check_arguments
from ._progress import Progress
from ._rows import is_stream, paths_of, stream_table
from ._unsupervised import Nystroem


def _table(X: Any, memory: int | str | None = None) -> Any:
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        return _kmill.Table.open(paths_of(X))
    if is_stream(X):
        return stream_table(X, None if memory is None else str(memory))
    X = check_array(X, dtype=[np.float64, np.float32], order="C")
    return _kmill.Table.from_array(X, [f"x{j}" for j in range(X.shape[1])])


def data_frame(columns: dict[str, list[Any]]) -> Any:
    """Returns a DataFrame if pandas is installed, otherwise the columns as a dict."""
    try:
        import pandas
    except ImportError:
        return columns
    return pandas.DataFrame(columns)


class CurveColumns(dict[str, list[Any]]):
    """A comparison of approximations without pandas: its columns by name."""

    def plot(self, error: str = "trace_error", against: str = "rank", ax: Any = None) -> Any:
        """Draw an error of each method on logarithmic axes, as with pandas."""
        return draw_curve(self, error, against, ax)


def curve_frame(columns: dict[str, list[Any]]) -> Any:
    """Returns a comparison of approximations as a DataFrame if pandas is installed, otherwise as a dict of columns."""
    try:
        from ._frames import CurveFrame
    except ImportError:
        return CurveColumns(columns)
    return CurveFrame(columns)


def curve(
    X: Any,
    methods: Iterable[str] = ("rpcholesky", "uniform"),
    ranks: Iterable[int] = (50, 100, 200),
    *,
    kernel: str = "rbf",
    gamma: Any = "median",
    scale: str = "none",
    repeats: int = 1,
    sample: int | None = None,
    features: Sequence[str] | None = None,
    precision: str = "f32",
    random_state: int = 0,
    memory: int | str | None = None,
    verbose: int = 0,
) -> Any:
    """Measure the errors and costs of landmark schemes and maps at several ranks.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), an Arrow stream, or a path or pattern of files
        The rows whose kernel matrix is approximated.
    methods : iterable of str, default=("rpcholesky", "uniform")
        Landmark schemes and maps to compare.
    ranks : iterable of int, default=(50, 100, 200)
        Ranks: numbers of landmarks or random features.
    kernel, gamma, scale, precision, random_state, memory, verbose
        As for the estimators, except that ``gamma`` defaults to ``"median"`` and ``scale`` to ``"none"``.
    repeats : int, default=1
        Number of seeds for randomised methods.
    sample : int, optional
        Number of random rows on which errors are measured. None is all rows.
    features : list of str, optional
        Names or patterns of the feature columns of streams and files. None is every feature column.

    Returns
    -------
    pandas.DataFrame, or a dict of columns without pandas
        A row for each method, rank and repeat: trace, Frobenius and spectral errors, seconds, kernel evaluations. Its method
        ``plot(error="trace_error", against="rank", ax=None)`` draws an error of each method on logarithmic axes with matplotlib, and
        returns the axes; ``against`` may also be ``"seconds"`` or ``"kernel_evaluations"``. With x, y or kind it is pandas' ``plot``.

    Examples
    --------
    >>> import numpy as np
    >>> import kmill
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> errors = kmill.curve(X, ["rpcholesky", "uniform"], [20, 40])
    >>> len(errors["trace_error"])
    4
    """
    methods, ranks = as_list(methods), as_list(ranks)
    check_arguments(curve, methods=methods, ranks=ranks, scale=scale, repeats=repeats, sample=sample, features=features,
                    precision=precision, random_state=random_state)
    table = _table(X, memory)
    rows: dict[str, Any] = {"features": features or []}
    run: dict[str, Any] = {} if memory is None else {"memory": str(memory)}

    def survey(variance: bool) -> Any:
        _, width, _, var = table.survey(json.dumps(rows), json.dumps(run), variance)
        return width, var

    job = {
        "methods": methods,
        "ranks": [int(rank) for rank in ranks],
        "repeats": repeats,
        "kernel": _kernel.expression(kernel, None if _kernel.is_expression(kernel) else gamma, 1.0, 3, survey),
        "scale": scale,
        "sample": sample,
        "seed": random_state,
        "precision": precision,
        "rows": rows,
        "run": run,
    }
    with Progress(verbose) as show:
        cells = json.loads(_kmill.curve(json.dumps(job), table, show))
    columns: dict[str, list[Any]] = {}
    for cell in cells:
        for name in ("frobenius", "spectral"):
            cell[name] = None if cell[name] is None else cell[name]["value"]
        for name, value in cell.items():
            columns.setdefault(name, []).append(value)
    return curve_frame(columns)


def landmarks(X: Any, *, kernel: str = "rbf", gamma: Any = "median", rank: int = 100, scheme: str = "rpcholesky",
              scale: str = "none", random_state: int = 0, features: list[str] | None = None) -> Any:
    """Choose landmarks: rows whose span in feature space approximates all rows.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), an Arrow stream, or a path or pattern of files
        The rows.
    kernel, gamma, scale, random_state
        As for the estimators, except that ``gamma`` defaults to ``"median"`` and ``scale`` to ``"none"``.
    rank : int, default=100
        Number of landmarks.
    scheme : str, default="rpcholesky"
        The landmark scheme.
    features : list of str, optional
        Names or patterns of the feature columns of files. None is every feature column.

    Returns
    -------
    pandas.DataFrame, or a dict of columns without pandas
        The row index of each landmark, in the order in which they were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> import kmill
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> len(kmill.landmarks(X, rank=10)["row"])
    10
    """
    gamma = None if _kernel.is_expression(kernel) else gamma
    model = Nystroem(kernel, gamma=gamma, n_components=rank, landmarks=scheme, scale=scale, random_state=random_state)
    model.verbose = 0
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        model.fit_files(X, features=features)
    else:
        model.fit(X)
    return data_frame({"row": model.component_indices_.tolist()})
