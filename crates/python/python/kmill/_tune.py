"""Model selection: compares kernels, metrics, solvers and regularisation parameters on a sample, and fits the winner on all rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _cv, _kernel, _kmill
from ._base import _warn
from ._load import estimator_class, from_model
from ._parameters import as_list, check_arguments
from ._research import data_frame
from ._rows import paths_of

_FILES = ("features", "where", "rows", "types", "missing_words", "lags", "rolling", "by", "order", "difference", "scratch")
_REGULARISATION = ("alpha", "alphas", "C", "lambdas")


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
    test: float | str | None = None,
    **parameters: Any,
) -> Any:
    """Select a model and fit it.

    The search learns a metric and a length scale for each kernel on a sample of the rows, compares solvers and regularisation parameters on
    folds of the sample, scores the winner on test rows, and fits it on all rows.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), an Arrow stream, or a path or pattern of files
        The rows.
    y : array of shape (n_samples,), or str
        The target; for files and streams, the name of its column.
    solver : str, default="any"
        The name of a supervised solver, such as svr; or any, which tries ridge for a regression, and ridge, svm and logistic for a
        classification. ranking is supported for files only, needs ``group``, and is compared by the fraction of wrongly ordered pairs.
    time : float, optional
        Time limit in seconds for the search and the fit. The final fit then uses the exact kernel (``map="exact"``) if that is predicted to
        finish within the time and memory budget, otherwise the largest rank that is. If you set ``landmarks``, the model uses landmarks.
        None is no limit.
    work : str, optional
        Number of search steps and of solver trials, such as ``"4,12"``, instead of ``time``: the result is then the same on every machine,
        bit for bit. With ``map="exact"`` a third number is the number of exact SVMs to try. None is the default number.
    kernels : iterable of str, optional
        Kernels to try. None is gaussian, exponential, matern and laplacian, and one more kernel for rows with a date.
    task : {"regression", "classification"}, optional
        The task. None is classification if the target is text, Boolean, or has at most 20 distinct integers with 20 rows or more each;
        otherwise regression.
    score : {"cv", "gcv", "alignment"}, default="cv"
        The criterion by which kernels are compared: the cross-validated error, generalised cross-validation, or kernel-target alignment.
    measure : {"error", "loss", "auc", "log-loss", "brier"}, optional
        The measure by which solvers are compared. None is the error; for quantiles and counts it is the loss of the model; if the rarer of
        two classes has less than 10 % of the rows, it is the log-loss, or the AUC if ``solver`` names one solver.
    sample : int, default=20000
        Maximum number of rows in the search.
    test : float or str, optional
        Test rows, which neither the search nor the fit reads, such as ``"20%"``, ``"last:15%"`` or, with columns by name, ``"last:15%:date"``
        and ``"groups:20%:subject"``: as in ``fit_files``, also for the folds. ``test_scores_`` has the scores of the model on them.
    **parameters
        Parameters of the estimator (``rank``, ``scale``, ``metric``, ``cv``, ``precision``, ``memory``, ``verbose``, ...), and for files
        also the arguments of ``fit_files``. ``metric="none"`` uses no metric; by default the search learns one.

    Returns
    -------
    estimator
        The fitted winner, with these attributes:

        - ``leaderboard_``: the solvers and regularisation parameters that were compared, best first, as a DataFrame (a dict without pandas);
        - ``kernels_``: the kernels that were compared, in the same form;
        - ``cv_results_``, ``best_index_``, ``best_params_``, ``best_score_`` and ``scoring_``: the comparison of the solvers on folds of the
          sample, as in ``sklearn.model_selection.GridSearchCV``. If only one solver was tried, the comparison of the kernels, with
          ``iter`` and ``n_resources`` as in ``HalvingGridSearchCV``;
        - ``test_scores_``: the scores on the rows of ``test``;
        - ``choice_``: a dict with the rest of the report of the search; ``choice_["test"]`` has the error on rows of the sample that no choice
          used.

    Examples
    --------
    >>> import numpy as np
    >>> import kmill
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> model = kmill.tune(X, np.sin(2 * X[:, 0]), rank=100)
    >>> type(model).__name__, bool(model.score(X, np.sin(2 * X[:, 0])) > 0.95)
    ('KernelRidge', True)
    """
    kernels = as_list(kernels)
    check_arguments(tune, solver=solver, time=time, work=work, kernels=kernels, score=score, measure=measure, sample=sample,
                    test=test)
    from_files = isinstance(X, str) or hasattr(X, "__fspath__") or isinstance(X, (list, tuple)) and isinstance(X[0], str)
    classes = task == "classification" if task is not None else _is_classification(X, y, from_files)
    cls = estimator_class("ridge" if solver == "any" else solver, "classification" if classes else "regression")
    files = {name: parameters.pop(name) for name in _FILES if name in parameters}
    if files and not from_files:
        raise TypeError(f"arguments for files were passed with rows in memory: {', '.join(files)}; pass paths, or omit them")
    search_scalings, metric = "scale" not in parameters, parameters.pop("metric", None)
    has_regularisation = any(name in parameters for name in _REGULARISATION)
    # lambda 1.0 is a placeholder: without it, alpha would need the number of rows, which files may not have yet
    base = cls(**{"scale": "standard", **({} if has_regularisation else {"lambdas": 1.0}), **parameters})
    if isinstance(base.kernel, str) and "kernel" in parameters and kernels is None:
        kernels = [base.kernel]
    outcome: dict[str, Any] = {}
    search = {
        "solver": solver,
        "time": time,
        "work": work,
        "kernels": None if kernels is None else [_expression(kernel) for kernel in kernels],
        "score": score,
        "select": measure,
        "sample": sample,
        "scalings": search_scalings,
    }

    def learn(job: str, *rest: Any) -> Any:
        request = json.loads(job)
        if test is not None:
            request["test"] = str(test)
        # remove the options that the caller did not set, such as lambda and folds: the search chooses them
        explicit = {parameter.engine for parameter in base._parameters if parameter.name in parameters} | {"weights", *base._fixed}
        explicit |= {"lambda", "C"} if has_regularisation else set()
        request["options"] = {name: value for name, value in request["options"].items() if name in explicit}
        if metric is not None:
            request["metric"] = metric if isinstance(metric, str) else np.asarray(metric, dtype=float).tolist()
        if "rank" not in parameters and time is not None:
            request.pop("rank", None)
        return _kmill.tune(json.dumps(request), json.dumps(search), *rest)

    def store(model: Any, report: Any) -> None:
        outcome.update(model=model, report=report)
        base.model_ = model

    base._learn, base._set_model, base._is_search = learn, store, True
    if from_files:
        base.fit_files(paths_of(X), y, **files)
    else:
        base.fit(X, y)
    return _winner(base, outcome["model"], outcome["report"], score)


def _winner(base: Any, model: Any, report: dict[str, Any], score: str) -> Any:
    """Returns the estimator of the winning solver, with the attributes that the fit set from the rows."""
    fitted = from_model(model, json.loads(model.card()), verbose=base.verbose, n_jobs=base.n_jobs, memory=base.memory)
    fitted._set_model(model, report)
    for name in ("feature_names_in_", "n_features_in_", "classes_", "_single_target"):
        fitted.__dict__.pop(name, None)
        if name in base.__dict__:
            fitted.__dict__[name] = base.__dict__[name]
    choice = report["choice"]
    for name in _cv.ATTRIBUTES:
        fitted.__dict__.pop(name, None)
    solvers, rungs = choice["solvers"], choice["kernels"]
    fitted.__dict__.update(_cv.of_search(choice, solvers, rungs, json.loads(model.card())["task"], score))
    kernels = [{"rows": rung["rows"], **{name: value for name, value in entry.items() if name != "cells"}}
               for rung in choice.pop("kernels") for entry in rung["entries"]]
    solvers = choice.pop("solvers") or [{"solver": choice["solver"], "kernel": fitted.kernel_, "chosen": True}]
    solvers.sort(key=lambda trial: float("inf") if trial.get("mean") is None else trial["mean"])
    fitted.leaderboard_, fitted.kernels_, fitted.choice_ = data_frame(_columns(solvers)), data_frame(_columns(kernels)), choice
    return fitted


def _columns(lines: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for line in lines for name in line)
    return {name: [line.get(name) for line in lines] for name in names}


def _expression(kernel: str) -> str:
    if "(" in kernel or _kernel.is_expression(kernel):
        return kernel if "(" in kernel else f"{kernel}()"
    has_length_scale = kernel in ("rbf", "gaussian", "laplacian", "chi2")
    return _kernel.expression(kernel, 1.0, 1.0, 3, None, has_length_scale)


def _is_classification(X: Any, y: Any, from_files: bool) -> bool:
    """Returns whether the target is text, Boolean, or has at most 20 distinct integers with many rows each."""
    if not isinstance(y, str):
        return _are_labels(y)
    if from_files:
        return any(name == y and kind in ("text", "bool") for name, kind, _ in _kmill.Table.open(paths_of(X)).columns)
    # a stream without columns by name can be read only once, so its target is treated as numeric
    return hasattr(X, "__getitem__") and _are_labels(X[y])


def _are_labels(y: Any) -> bool:
    y = np.asarray(y)
    if y.dtype.kind not in "iu" or y.ndim != 1:
        return y.dtype.kind in "bOUS"
    counts = np.unique(y, return_counts=True)[1]
    labels = 2 <= counts.size <= 20 and counts.min() >= 20
    if labels:
        _warn(f"the target has {counts.size} distinct integer values with many rows each, so it is treated as classes (classification); if it "
              "is a quantity, set task='regression'")
    return bool(labels)
