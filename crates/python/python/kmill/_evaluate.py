"""Scores of a model on rows with true values, as `kmill evaluate` computes them."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from . import _kmill
from ._draw import draw_class_curves, draw_confusion, draw_predictions, draw_rates
from ._html import iframe
from ._parameters import check_arguments
from ._rows import check_storage, has_names, is_stream, paths_of, unused_name


class Evaluation:
    """The scores of a model on rows with true values; a notebook shows them as a page.

    ``evaluation["rmse"]`` is a score, and ``evaluation.standard_errors["rmse"]`` its standard error.

    Attributes
    ----------
    scores : dict
        The scores by name, as ``kmill evaluate --json`` writes them: for a regression rows, mse, rmse, mae, median_error, mape, r2 and
        others; for a classification error, accuracy, balanced_accuracy, f1, classes, confusion, by_class and, with probabilities or two
        classes, log_loss, brier, auc and average_precision; for outliers auc, precision, recall; for a ranking ndcg, map, kendall. None is
        a score that is not defined for these rows. For more than two classes, ``by_class`` has auc and average_precision of each class
        against the rest, and ``macro`` the means over the classes. ``importance`` is the permutation importance of the columns, on at most
        2,000 random rows: ``columns`` has the increase of the loss if the values of a column are exchanged between rows.
    standard_errors : dict
        The standard errors by name: the standard deviation of a score over tables with as many rows. They assume independent rows.
    test_rows : dict or None
        For the test rows of a fit: their description, the seed, and the numbers of test and training rows.
    """

    def __init__(self, evaluation: dict[str, Any], page: str, test_rows: dict[str, Any] | None = None) -> None:
        self._evaluation, self._page, self.test_rows = evaluation, page, test_rows
        scores = evaluation["scores"]
        suffix = "_standard_error"
        self.standard_errors: dict[str, float | None] = dict(scores.get("standard_errors", {}))
        self.standard_errors.update({name.removesuffix(suffix): value for name, value in scores.items() if name.endswith(suffix)})
        self.scores: dict[str, Any] = {name: value for name, value in scores.items() if name != "standard_errors" and not name.endswith(suffix)}

    def __getitem__(self, name: str) -> Any:
        if name not in self.scores:
            raise KeyError(f"{name!r} is not a score; the scores are {', '.join(self.scores)}")
        return self.scores[name]

    def __contains__(self, name: object) -> bool:
        return name in self.scores

    def __repr__(self) -> str:
        return str(self._evaluation["text"]).rstrip()

    def _repr_html_(self) -> str:
        return iframe(self._page)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, with the standard errors in the entry ``standard_errors``, as a dictionary that ``json`` can write."""
        return copy.deepcopy({**self.scores, "standard_errors": self.standard_errors})

    def save(self, path: Any) -> None:
        """Write the page of the command's ``evaluate --report``.

        Parameters
        ----------
        path : path
            The file; its name must end with ``.html``.
        """
        if Path(path).suffix != ".html":
            raise ValueError(f"{os.fspath(path)} does not end with .html, the only format of Evaluation.save; name an .html file")
        Path(path).write_text(_kmill.page(self._page), encoding="utf-8")

    def plot(self, kind: str | None = None, ax: Any = None) -> Any:
        """Draw the scores with matplotlib.

        Parameters
        ----------
        kind : {"predictions", "roc", "precision_recall", "calibration", "confusion"}, optional
            True values against predictions, of at most 2,000 random rows; the ROC curve, or for several classes a curve of each class against
            the rest; precision against recall; observed against predicted probabilities; or the confusion matrix. None is the first kind that
            the scores have.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. None creates a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        kinds = self._kinds()
        if kind is None:
            kind = next(iter(kinds), None)
        if kind not in kinds:
            raise ValueError(f"the scores have no picture {kind!r}; expected {' or '.join(kinds) or 'another model: a ranking has none'}")
        return kinds[kind](ax)

    def _kinds(self) -> dict[str, Callable[[Any], Any]]:
        """Returns the kinds of pictures that the scores have, the default first."""
        data, scores = self._evaluation, self.scores
        kinds: dict[str, Callable[[Any], Any]] = {}
        if data["points"]:
            kinds["predictions"] = lambda ax: draw_predictions(data["points"], ax)
        if data["roc"]:
            kinds["roc"] = lambda ax: draw_rates(data["roc"], ("false positive rate", "true positive rate"), True, ax)
        if any(data["roc_by_class"]):
            kinds["roc"] = lambda ax: draw_class_curves(data["roc_by_class"], scores["classes"], ax)
        if data["precision"]:
            kinds["precision_recall"] = lambda ax: draw_rates(data["precision"], ("recall", "precision"), False, ax)
        if data["calibration"]:
            kinds["calibration"] = lambda ax: draw_rates(data["calibration"], ("predicted probability", "observed fraction"), True, ax)
        if scores.get("confusion"):
            kinds["confusion"] = lambda ax: draw_confusion(scores["confusion"], scores["classes"], ax)
        return kinds


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    group: Any = None,
    positive: Any = None,
    cost: tuple[float, float] | None = None,
    threshold: float | None = None,
    top: int | None = None,
    test: str | None = None,
    where: str | None = None,
    rows: str | None = None,
    missing: str | None = None,
    memory: int | str | None = None,
) -> Evaluation:
    """Score a model on rows with true values, with the standard errors of the scores.

    It does the same as ``kmill evaluate``, in one pass over the rows.

    Parameters
    ----------
    model : estimator
        A fitted regressor, classifier, ranker or outlier detector, or a ``KernelPCA`` with ``novelty=True``.
    X : array, data frame, Arrow stream, or path or list of paths
        The rows, with the feature columns of the model.
    y : array of shape (n_samples,) or (n_samples, n_targets), or str, optional
        The true values, or the name of their column, by default that of the fit. For an outlier detector -1 is an
        outlier and 1 a normal row, as in scikit-learn; without -1, 0 is a normal row and any other number an outlier.
    sample_weight : array of shape (n_samples,), or str, optional
        Row weights, or their column: a row of weight 2 counts as two rows.
    group : array of shape (n_samples,), or str, optional
        The group of each row, or their column: scores the order of the rows within each group. A ranker of files has the group of its fit.
    positive : label, optional
        The positive class, of two. None is the second class.
    cost : pair of float, optional
        The costs of a false positive and of a false negative; the scores then include the threshold of least cost.
    threshold : float, optional
        Predict the positive class, of two, above this probability, or above this score if the model has no probabilities.
    top : int, optional
        Number of rows with the highest scores of the positive class, of most anomalous rows, or of first rows of each group, that are also
        scored.
    test : {"same"}, optional
        "same" scores only the test rows of the model, which was fitted with ``test``.
    where, rows, missing, memory : optional
        As in ``fit_files``, for files and streams. Rows without a target are left out.

    Returns
    -------
    Evaluation
        The scores, with ``to_dict``, ``plot`` and ``save``.

    Examples
    --------
    >>> import numpy as np
    >>> import kmill
    >>> X = np.linspace(0, 6, 600).reshape(-1, 1)
    >>> y = np.sin(X).ravel() + 0.1 * np.random.default_rng(0).normal(size=600)
    >>> model = kmill.KernelRidge(gamma=1.0, rank=30).fit(X[::2], y[::2])
    >>> scores = kmill.evaluate(model, X[1::2], y[1::2])
    >>> bool(0.09 < scores["rmse"] < 0.11), bool(scores.standard_errors["rmse"] < 0.01)
    (True, True)
    """
    check_is_fitted(model, "model_")
    check_arguments(evaluate, threshold=threshold, top=top, test=test, where=where, rows=rows, missing=missing, memory=memory)
    if test not in (None, "same"):
        raise ValueError(f"test must be 'same' (the test rows of the fit) or None, got {test!r}; to choose test rows, pass test to fit_files or tune")
    card = model._card()
    if card["task"] == "components" and card["options"].get("solver_options", {}).get("novelty"):
        # reconstruction errors order the rows like the scores of an outlier detector
        card["task"] = "novelty"
    if card["task"] not in ("regression", "classification", "ranking", "novelty"):
        raise ValueError(f"{type(model).__name__} has no target to compare with; evaluate regressors, classifiers, rankers and outlier detectors")
    if card["task"] == "novelty" and y is None:
        raise ValueError("an outlier detector has no target; pass y, or the name of a column that is 0 for normal rows and 1 for outliers")
    selection: dict[str, Any] = {name: value for name, value in {"where": where, "rows": rows, "missing": missing}.items() if value is not None}
    named = {"weights": sample_weight, "group": group}
    if _are_files(X):
        table, targets = _kmill.Table.open(paths_of(X)), y
        columns = {name: value for name, value in named.items() if value is not None}
        if not all(isinstance(value, str) for value in columns.values()) or not (y is None or isinstance(y, (str, list))):
            raise ValueError("y, sample_weight and group of files must be names of columns; pass names, or rows in memory")
    else:
        if not is_stream(X) and selection:
            raise TypeError(f"arguments for files were passed with rows in memory: {', '.join(selection)}; pass paths, or omit them")
        table, targets, columns = _table_in_memory(model, X, y, card, named)
    selection["targets"] = _target_names(targets, card)
    if card["task"] == "ranking" and "group" not in columns and _has_columns(X):
        known = card["options"].get("solver_options", {}).get("group")
        columns.update({"group": known} if known else {})
    options = {"positive": None if positive is None else model._class_label(positive), "cost": cost, "threshold": threshold, "top": top}
    request = {"rows": {**selection, "missing_target": "drop"}, "run": model._run(memory=memory), "name": type(model).__name__, **columns,
               "test_rows": test == "same", **{name: value for name, value in options.items() if value is not None}}
    text, page, warnings = _kmill.evaluate(model.model_, table, json.dumps(request))
    model._warn_all(warnings)
    return Evaluation(with_labels(json.loads(text), getattr(model, "classes_", None)), page)


def with_labels(evaluation: dict[str, Any], classes: Any) -> dict[str, Any]:
    """Replaces class labels that model files do not support, such as 1.5, which the engine knows by their index, by the labels."""
    known = evaluation["scores"].get("classes")
    if known is not None and classes is not None and len(known) == len(classes) and classes.dtype.kind == "f":
        evaluation["scores"]["classes"] = classes.tolist()
    return evaluation


def _are_files(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike)) or isinstance(X, (list, tuple)) and bool(X) and isinstance(X[0], (str, os.PathLike))


def _has_columns(X: Any) -> bool:
    """Returns whether rows are a table in which the engine finds columns by name."""
    return _are_files(X) or is_stream(X)


def _target_names(targets: Any, card: dict[str, Any]) -> list[str]:
    if targets is None:
        return list(card["targets"])
    return [targets] if isinstance(targets, str) else list(targets)


def _table_in_memory(model: Any, X: Any, y: Any, card: dict[str, Any], named: dict[str, Any]) -> tuple[Any, Any, dict[str, str]]:
    """Returns the table of rows in memory, the names of its target columns, and the names of the columns of weights and groups."""
    if not model._reads_by_name(X):
        X, y, named = _columns_of_frame(model, X, y, named, card["targets"])
        if y is None or isinstance(y, str):
            raise ValueError("y must have the true values of the rows of X; pass an array")
        check_consistent_length(X, y)
        X = model._check_rows(X)
    taken = [*model._columns(), *(map(str, getattr(X, "columns", [])))]
    more: list[tuple[str, Any]] = []
    targets = y
    if y is not None and not isinstance(y, str) and not _is_names(y):
        check_storage(y, "y")
        names = card["targets"] or ["y"]
        columns = _target_columns(model, y, card["task"], len(names))
        targets = [unused_name(name, taken) for name in names]
        more += zip(targets, columns)
    roles: dict[str, str] = {}
    for role, values in named.items():
        if isinstance(values, str):
            roles[role] = values
        elif values is not None:
            roles[role] = unused_name(role, [*taken, *map(str, targets or [])])
            values = column_or_1d(values)
            codes = np.unique(values, return_inverse=True)[1].astype(np.int64)
            more.append((roles[role], np.ascontiguousarray(values, dtype=np.float64) if role == "weights" else codes))
    return model._table(X, more), targets, roles


def _columns_of_frame(model: Any, X: Any, y: Any, named: dict[str, Any], targets: list[str]) -> tuple[Any, Any, dict[str, Any]]:
    """Returns the features of a data frame of numbers, and the columns that y, sample_weight and group name.

    If y is None, it is the target columns of the fit, if the frame has them.
    """
    if not has_names(X) or not hasattr(model, "feature_names_in_"):
        return X, y, named

    def column(values: Any) -> Any:
        if isinstance(values, str) and values not in X.columns:
            raise ValueError(f"X has no column {values!r}; its columns are {', '.join(X.columns)}")
        return X[values].to_numpy() if isinstance(values, str) or _is_names(values) and set(values) <= set(X.columns) else values

    features = list(model.feature_names_in_)
    if y is None and targets and set(targets) <= set(X.columns):
        y = targets[0] if len(targets) == 1 else targets
    named = {role: column(values) for role, values in named.items()}
    return X[features] if set(features) <= set(X.columns) else X, column(y), named


def _is_names(y: Any) -> bool:
    """Returns whether a target of a table is a list of names of columns, not a list of labels."""
    return isinstance(y, Sequence) and 0 < len(y) < 20 and all(isinstance(name, str) for name in y)


def _target_columns(model: Any, y: Any, task: str, count: int) -> list[Any]:
    """Returns the true values as columns of a table of the engine."""
    if task == "classification":
        y, classes = column_or_1d(y), model.classes_
        if all(isinstance(label, str) for label in classes.tolist()):
            return [[str(label) for label in y.tolist()]]
        if classes.dtype.kind == "b" and np.all(np.isin(y, [0, 1])):
            return [np.ascontiguousarray(y, dtype=bool)]
        if classes.dtype.kind in "biu":
            return [np.ascontiguousarray(y, dtype=np.int64)]
        # labels of other types are the indices of the classes
        codes = {label: code for code, label in enumerate(classes.tolist())}
        return [np.array([codes.get(label, len(codes)) for label in y.tolist()], dtype=np.int64)]
    if task == "novelty":
        y = column_or_1d(y).astype(np.float64)
        return [np.ascontiguousarray(y == -1.0 if np.any(y == -1.0) else y != 0.0, dtype=np.float64)]
    y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    if y.shape[1] != count:
        raise ValueError(f"y has {y.shape[1]} columns, and the model predicts {count} targets; pass a column for each target")
    return [np.ascontiguousarray(y[:, j]) for j in range(count)]
