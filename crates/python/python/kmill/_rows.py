"""Conversion of rows to tables of the engine: streams, data frames, sparse arrays and paths."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.sparse import issparse

from . import _kmill


def is_stream(X: Any) -> bool:
    """Returns whether rows are read through the Arrow PyCapsule interface.

    Data frames of pandas with only plain numbers are validated as arrays by scikit-learn instead.
    """
    return hasattr(X, "__arrow_c_stream__") and not type(X).__module__.startswith("pandas") or has_more_than_numbers(X)


def has_more_than_numbers(X: Any) -> bool:
    """Returns whether rows are a pandas data frame with a column of text, dates, or numbers that may be times of day or row counters."""
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
    """Returns whether the first numbers of a column may be times of day such as 517, or row counters.

    The engine then examines the whole column.
    """
    values = values[np.isfinite(values)]
    if len(values) < 50 or np.any(values % 1):
        return False
    clock = values.min() >= 0 and values.max() <= 2400 and np.all(values % 100 < 60) and len(np.unique(values // 100)) > 2
    return bool(clock or np.all(np.diff(values) == 1))


def has_names(X: Any) -> bool:
    """Returns whether the columns have names. A frame with numbered columns is an array, as in scikit-learn."""
    return hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns)


def stream_of(X: Any) -> Any:
    """Returns the rows as an object with ``__arrow_c_stream__``; the index of a pandas data frame is omitted."""
    if not type(X).__module__.startswith("pandas"):
        return X
    import pyarrow

    return pyarrow.Table.from_pandas(X, preserve_index=False)


def stream_table(X: Any, memory: str | None) -> Any:
    """Returns the table of a stream.

    ``memory`` limits the size of a stream; it does not apply to data frames, which are in memory already.
    """
    return _kmill.Table.from_stream(stream_of(X), None if hasattr(X, "__len__") else memory)


def table_of(X: Any, names: list[str], more: list[tuple[str, Any]] | None = None) -> Any:
    """Returns the table of validated rows, with further columns."""
    if issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        # aligned float64 values with int32 indices are not copied
        values, indices = np.require(X.data, np.float64, "CA"), np.require(X.indices, np.int32, "CA")
        return _kmill.Table.from_sparse(values, indices, X.indptr.astype(np.int64), names, more or [])
    return _kmill.Table.from_array(X, names, more or [])


def check_storage(values: Any, name: str) -> None:
    """Rejects masked values, whose mask scikit-learn's validation ignores, and sparse matrices with indices out of bounds, with which
    scipy's loops access invalid memory."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"Input {name} contains masked values, which are not supported; fill them, or remove these rows")
    if not issparse(values):
        return
    try:
        if values.format in ("csr", "csc", "bsr"):
            values.check_format(full_check=True)
        elif values.format == "coo":
            inside = [np.all((indices >= 0) & (indices < size)) for indices, size in zip((values.row, values.col), values.shape)]
            if not all(inside) or not len(values.row) == len(values.col) == len(values.data):
                raise ValueError("each value needs a row index and a column index within the shape")
    except ValueError as error:
        raise ValueError(f"the sparse matrix {name} is damaged: {error}; build it again from its rows, columns and values") from None


def check_numeric(X: Any) -> None:
    """Rejects columns of a pandas data frame that are not numeric, such as durations, before numpy converts all columns to one type."""
    if type(X).__module__.startswith("pandas") and hasattr(X, "columns"):
        for name, dtype in X.dtypes.items():
            if dtype.kind in "mMc":
                raise ValueError(f"column {name!r} of X has type {dtype}, but a feature must have numbers or text; convert the column to numbers, "
                                 "or drop it")


def unused_name(name: str, names: list[str]) -> str:
    """Returns a name that is not among ``names``, by appending underscores."""
    while name in names:
        name += "_"
    return name


def paths_of(paths: Any) -> list[str]:
    """Returns one or several paths as a list of texts."""
    return [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
