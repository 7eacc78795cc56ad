"""Pictures of models and rows, as `kmill plot` draws them."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from . import _kmill
from ._rows import check_storage, is_stream, paths_of, stream_of


class Picture:
    """A picture, which a notebook displays.

    Attributes
    ----------
    svg : str
        The SVG document.
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: Any) -> None:
        """Write the picture to a file.

        Parameters
        ----------
        path : path
            The file; its name must end with ``.svg``.
        """
        if Path(path).suffix != ".svg":
            raise ValueError(f"{os.fspath(path)} does not end with .svg, the only format of Picture.save; name an .svg file, or write "
                             "another format with the command, kmill plot")
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


def plot(model: Any, X: Any, y: Any = None, *, axes: tuple[str, str] | None = None, component: int | None = None,
         colour: str | None = None) -> Picture:
    """Draw the predictions of a model over two of its features, with rows; or rows along two components.

    Classes and clusters are drawn as coloured regions, numbers as shades with contour lines, and a model with one feature as a line. The
    other features are fixed at their mean over the rows of the fit.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    X : array, data frame, Arrow stream, or path or list of paths
        Rows to draw, with the feature columns of the model; a sample is drawn if there are many.
    y : array of shape (n_samples,), optional
        The target of the rows of an array: it colours the rows; for a model with one feature it is their vertical position.
    axes : pair of str, optional
        The features on the axes, or components such as ``component_0``. None is the first two features or components.
    component : int, optional
        The output to draw, from 1: a target, or a component of kernel PCA. None is 1.
    colour : str, optional
        The column that colours rows along two components. None is the prediction, if it is a label.

    Returns
    -------
    Picture
        The picture; :meth:`Picture.save` writes it.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import SVC, plot
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> plot(SVC(gamma=1.0).fit(X, y), X, y).svg[:4]
    '<svg'
    """
    check_is_fitted(model, "model_")
    with tempfile.TemporaryDirectory() as folder:
        file, picture = os.path.join(folder, "model.safetensors"), os.path.join(folder, "picture.svg")
        model.save(file)
        _kmill.plot(file, _files(model, X, y, folder), picture, axes=axes, component=component, colour=colour)
        return Picture(Path(picture).read_text(encoding="utf-8"))


def _files(model: Any, X: Any, y: Any, folder: str) -> list[str]:
    """Returns the files of the rows; rows in memory are written to a temporary file."""
    if isinstance(X, (str, os.PathLike, list)) and not np.ndim(np.asarray(X, dtype=object)) > 1:
        return paths_of(X)
    targets = model._card()["targets"]
    if is_stream(X):
        import pyarrow
        import pyarrow.parquet

        table, path = pyarrow.table(stream_of(X)), os.path.join(folder, "rows.parquet")
        if y is not None and targets and targets[0] not in table.column_names:
            table = table.append_column(targets[0], pyarrow.array(np.asarray(y)))
        pyarrow.parquet.write_table(table, path)
        return [path]
    check_storage(X, "X")
    rows, path = X.toarray() if issparse(X) else np.asarray(X), os.path.join(folder, "rows.csv")
    names, columns = model._columns(), list(rows.T)
    if y is not None and targets:
        names, columns = [*names, targets[0]], [*columns, np.asarray(y)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*(column.tolist() for column in columns)))
    return [path]
