"""The way to a good model: kernels, metrics, solvers and penalties compared on a sample, the winner fitted on all rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _kernel, _kmill
from ._base import _warn
from ._load import from_model, estimator_class
from ._parameters import check_arguments, as_list
from ._research import data_frame
from ._rows import paths_of

_FILES = ("features", "where", "rows", "types", "missing_words", "scratch")
_PENALTIES = ("alpha", "alphas", "C", "lambdas")


def tune(
    X: Any,
    y: Any,
    solver: str = "any",
    *,
    time: float | None = None,
    work: str | None = None,
    kernels: Iterable[str] | None = None,
    task: str | None = None,
    score: str = "cv",
    measure: str | None = None,
    sample: int = 20_000,
    **parameters: Any,
) -> Any:
    """Choose a model and fit it.

    Learns a metric and a length scale for each kernel on a sample of the rows, compares solvers and penalties on folds of it, scores the
    winner on held-out rows, and fits it on all rows.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), an Arrow stream, or a path or pattern of files
        Rows of numbers.
    y : array of shape (n_samples,), or str
        The target; of files and streams the name of its column.
    solver : str, default="any"
        The name of a solver with a target, such as svr, or any: ridge regression for numbers, and for classes ridge, svm and logistic.
        Of files also ranking, with ``group``, compared by wrong pairs.
    time : float, optional
        Seconds for the choice and the fit. The model is then the kernel itself (``map="exact"``) where that is likely to end in time and fits
        the memory, or has the largest rank that does; ``landmarks`` that you name keep it to these.
    work : str, optional
        Steps of the search and trials of solvers, such as ``"4,12"``, in the place of ``time``: the same bits on every machine. With
        ``map="exact"`` a third number is that of the machines that are tried.
    kernels : iterable of str, optional
        Kernels to try. None is gaussian, exponential, matern and laplacian, and one more for rows with a date.
    task : {"regression", "classification"}, optional
        What the target is. None is classification for text, truth values and at most 20 integers that each have 20 rows or more, else
        regression.
    score : {"cv", "gcv", "alignment"}, default="cv"
        By what kernels are compared.
    measure : {"error", "auc", "log-loss", "brier"}, optional
        By what solvers are compared. None is the error, and where the rarer of two classes has less than 10 % of the rows the log-loss, or
        the AUC of a solver that is named.
    sample : int, default=20000
        Rows of the search.
    **parameters
        Parameters of the estimator (``rank``, ``scale``, ``metric``, ``cv``, ``precision``, ``memory``, ``verbose``, ...), and for files
        those of ``fit_files``. ``metric="none"`` learns none.

    Returns
    -------
    estimator
        The winner, fitted, with

        - ``leaderboard_``: the solvers and penalties that were tried, the best first, as a DataFrame (a dict without pandas);
        - ``kernels_``: the same of kernels;
        - ``choice_``: a dict of the rest; ``choice_["test"]`` has the error on held-out rows.

    Examples
    --------
    >>> import numpy as np
    >>> import kmill
    >>> X = np.random.default_rng(0).normal(size=(600, 4))
    >>> model = kmill.tune(X, np.sin(2 * X[:, 0]), rank=100)
    >>> type(model).__name__, bool(model.score(X, np.sin(2 * X[:, 0])) > 0.95)
    ('KernelRidge', True)
    """
    kernels = as_list(kernels)
    check_arguments(tune, solver=solver, time=time, work=work, kernels=kernels, score=score, measure=measure, sample=sample)
    from_files = isinstance(X, str) or hasattr(X, "__fspath__") or isinstance(X, (list, tuple)) and isinstance(X[0], str)
    classes = task == "classification" if task is not None else _holds_labels(X, y, from_files)
    asked = estimator_class("ridge" if solver == "any" else solver, "classification" if classes else "regression")
    files = {name: parameters.pop(name) for name in _FILES if name in parameters}
    if files and not from_files:
        raise TypeError(f"{', '.join(files)} are for files")
    free, metric = "scale" not in parameters, parameters.pop("metric", None)
    penalised = any(name in parameters for name in _PENALTIES)
    # the penalties of the solver itself, whatever the number of rows
    base = asked(**{"scale": "standard", **({} if penalised else {"lambdas": 1.0}), **parameters})
    if isinstance(base.kernel, str) and "kernel" in parameters and kernels is None:
        kernels = [base.kernel]
    found: dict[str, Any] = {}
    search = {
        "solver": solver,
        "time": time,
        "work": work,
        "kernels": None if kernels is None else [_expression(kernel) for kernel in kernels],
        "score": score,
        "select": measure,
        "sample": sample,
        "scalings": free,
    }

    def learn(job: str, *rest: Any) -> Any:
        told = json.loads(job)
        # what was not given is the choice's own: penalties, and folds, which may be blocks
        given = {parameter.engine for parameter in base._parameters if parameter.name in parameters} | {"weights", *base._fixed}
        given |= {"lambda", "C"} if penalised else set()
        told["options"] = {name: value for name, value in told["options"].items() if name in given}
        if metric is not None:
            told["metric"] = metric if isinstance(metric, str) else np.asarray(metric, dtype=float).tolist()
        if "rank" not in parameters and time is not None:
            told.pop("rank", None)
        return _kmill.tune(json.dumps(told), json.dumps(search), *rest)

    def take(model: Any, report: Any) -> None:
        found.update(model=model, report=report)
        base.model_ = model

    base._learn, base._set_model, base._is_search = learn, take, True
    if from_files:
        base.fit_files(paths_of(X), y, **files)
    else:
        base.fit(X, y)
    return _winner(base, found["model"], found["report"])


def _winner(base: Any, model: Any, report: dict[str, Any]) -> Any:
    """The estimator of the solver that won, with what the fit has learned of the rows."""
    fitted = from_model(model, json.loads(model.card()), verbose=base.verbose, n_jobs=base.n_jobs, memory=base.memory)
    fitted._set_model(model, report)
    for name in ("feature_names_in_", "n_features_in_", "classes_", "_single_target"):
        fitted.__dict__.pop(name, None)
        if name in base.__dict__:
            fitted.__dict__[name] = base.__dict__[name]
    choice = report["choice"]
    kernels = [{"rows": rung["rows"], **{name: value for name, value in entry.items() if name != "cells"}}
               for rung in choice.pop("kernels") for entry in rung["entries"]]
    solvers = choice.pop("solvers") or [{"solver": choice["solver"], "kernel": fitted.kernel_, "chosen": True}]
    last = float("inf")
    solvers.sort(key=lambda tried: last if tried.get("mean") is None else tried["mean"])
    fitted.leaderboard_, fitted.kernels_, fitted.choice_ = data_frame(_columns(solvers)), data_frame(_columns(kernels)), choice
    return fitted


def _columns(lines: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for line in lines for name in line)
    return {name: [line.get(name) for line in lines] for name in names}


def _expression(kernel: str) -> str:
    if "(" in kernel or _kernel.is_expression(kernel):
        return kernel if "(" in kernel else f"{kernel}()"
    scaled = kernel in ("rbf", "gaussian", "laplacian", "chi2")
    return _kernel.expression(kernel, 1.0, 1.0, 3, None, scaled)


def _holds_labels(X: Any, y: Any, from_files: bool) -> bool:
    """Whether the target is text, truth values, or at most 20 integers that each have many rows."""
    if not isinstance(y, str):
        return _are_labels(y)
    if from_files:
        return any(name == y and kind in ("text", "bool") for name, kind, _ in _kmill.Table.open(paths_of(X)).columns)
    # of a stream that is read once nothing is known before
    return hasattr(X, "__getitem__") and _are_labels(X[y])


def _are_labels(y: Any) -> bool:
    y = np.asarray(y)
    if y.dtype.kind not in "iu" or y.ndim != 1:
        return y.dtype.kind in "bOUS"
    counts = np.unique(y, return_counts=True)[1]
    few = 2 <= counts.size <= 20 and counts.min() >= 20
    if few:
        _warn(f"the target holds {counts.size} whole numbers, each in many rows: they are learned as classes; task='regression' learns a quantity")
    return bool(few)
