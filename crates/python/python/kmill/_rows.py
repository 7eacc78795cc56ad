"""Rows as they are handed over: streams, sparse and masked arrays, paths, and the names of further columns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.sparse import issparse

from . import _kmill


def is_stream(X: Any) -> bool:
    """Whether rows come by the Arrow PyCapsule interface; tables of pandas with numbers alone go scikit-learn's way."""
    return hasattr(X, "__arrow_c_stream__") and not type(X).__module__.startswith("pandas") or has_more_than_numbers(X)


def has_more_than_numbers(X: Any) -> bool:
    """Whether rows are a table of pandas with a column of text, of dates, or of numbers that may be times of day or count the rows."""
    if not (type(X).__module__.startswith("pandas") and hasattr(X, "columns")):
        return False
    from pandas.api.types import infer_dtype

    def more(column: Any) -> bool:
        if column.dtype == "category":
            column = column.cat.categories
        if column.dtype.kind in "iuf":
            return has_names(X) and _may_be_code(column.to_numpy()[:1000])
        return column.dtype.kind == "M" or column.dtype.kind not in "biufcm" and infer_dtype(column, skipna=True) in ("string", "date", "time")

    return any(more(X.iloc[:, j]) for j in range(X.shape[1]))


def _may_be_code(values: Any) -> bool:
    """Whether the first numbers of a column may be times of day such as 517, or count the rows: the engine then looks at all of them."""
    values = values[np.isfinite(values)]
    if len(values) < 50 or np.any(values % 1):
        return False
    clock = values.min() >= 0 and values.max() <= 2400 and np.all(values % 100 < 60) and len(np.unique(values // 100)) > 2
    return bool(clock or np.all(np.diff(values) == 1))


def has_names(X: Any) -> bool:
    """Whether the columns have names: a table that numbers them is an array to scikit-learn, too."""
    return hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns)


def stream_of(X: Any) -> Any:
    """The rows as an object with ``__arrow_c_stream__``; the index of a table of pandas is no column."""
    if not type(X).__module__.startswith("pandas"):
        return X
    import pyarrow

    return pyarrow.Table.from_pandas(X, preserve_index=False)


def stream_table(X: Any, memory: str | None) -> Any:
    """Returns the table of a stream. Batches of a frame are in memory already; any other stream may hold at most `memory`."""
    return _kmill.Table.from_stream(stream_of(X), None if hasattr(X, "__len__") else memory)


def table_of(X: Any, names: list[str], more: list[tuple[str, Any]] | None = None) -> Any:
    """The table of checked rows, and of further columns."""
    if issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        # of entries of float64 with places of 32 bits nothing is copied, unless they lie askew
        values, places = np.require(X.data, np.float64, "CA"), np.require(X.indices, np.int32, "CA")
        return _kmill.Table.from_sparse(values, places, X.indptr.astype(np.int64), names, more or [])
    return _kmill.Table.from_array(X, names, more or [])


def check_storage(values: Any, name: str) -> None:
    """Refuses masked values, which scikit-learn's check would take as they are, and sparse matrices that point outside their arrays, which
    scipy's own loops would follow out of memory."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"Input {name} holds masked values: fill them, or leave those rows out")
    if not issparse(values):
        return
    try:
        if values.format in ("csr", "csc", "bsr"):
            values.check_format(full_check=True)
        elif values.format == "coo":
            inside = [np.all((at >= 0) & (at < size)) for at, size in zip((values.row, values.col), values.shape)]
            if not all(inside) or not len(values.row) == len(values.col) == len(values.data):
                raise ValueError("row and column numbers must lie inside the shape, one of each for each value")
    except ValueError as error:
        raise ValueError(f"the sparse matrix {name} is damaged: {error}; build it again from its rows, columns and values") from None


def check_numeric(X: Any) -> None:
    """Refuses columns of a table of pandas that hold no numbers, such as durations, before numpy looks for a type of all columns."""
    if type(X).__module__.startswith("pandas") and hasattr(X, "columns"):
        for name, dtype in X.dtypes.items():
            if dtype.kind in "mMc":
                raise ValueError(f"column {name!r} of X holds {dtype}, and a feature holds numbers or text: make it a number, or leave it out")


def unused_name(name: str, names: list[str]) -> str:
    """A name that no feature has."""
    while name in names:
        name += "_"
    return name


def paths_of(paths: Any) -> list[str]:
    """One path or several, as texts."""
    return [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
