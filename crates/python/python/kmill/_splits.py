"""Cross-validation with splits that the engine has no folds for: each split, rank and regularisation parameter costs a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _safe_split

from . import _cv, _kmill


def choose(estimator: Any, y: Any, splits: list[Any], X: Any, weight: Any, group: Any) -> dict[str, str]:
    """Returns the rank and the regularisation parameter of least mean test error over the splits, as options of the engine.

    *Cost*: a fit for each split, rank and regularisation parameter.
    """
    if not (is_regressor(estimator) or is_classifier(estimator) or estimator._solver == "ranking"):
        raise ValueError(f"the splits of cv are not folds, and {type(estimator).__name__} has no predictions to score them; cv must hold "
                         "every row out once and train on all other rows, or be a number, or text such as 'blocks:6'")
    if not splits:
        raise ValueError("cv has no splits; pass a splitter, or a list of pairs of training and test rows")
    engine = estimator._solver_options(float(len(y) if weight is None else np.sum(weight)))
    lambdas, ranks = _kmill.grid(engine.get("lambda", "1"), engine.get("ranks", "1"))
    candidates = {"lambdas": lambdas if "lambda" in engine else [None], estimator._rank_name: ranks if "ranks" in engine else [estimator._rank()]}
    (lambda_name, lambda_grid), (rank_name, rank_grid) = candidates.items()
    cells = [{lambda_name: lambda_, rank_name: value} for value in rank_grid for lambda_ in lambda_grid]
    errors = np.array([[_error(estimator, cell, split, X, y, weight, group) for split in splits] for cell in cells])
    index = int(np.argmin(errors.mean(axis=1)))
    best = cells[index]
    estimator.__dict__.update(_results(estimator, cells, (lambda_name, rank_name), index, errors, float(len(y) if weight is None else np.sum(weight))))
    options = {"lambda": best[lambda_name], "ranks": best[rank_name] if "ranks" in engine else None}
    return {name: str(value) for name, value in options.items() if value is not None}


def _results(estimator: Any, cells: list[dict[str, Any]], names: tuple[str, str], best: int, errors: Any, rows: float) -> dict[str, Any]:
    """Returns the attributes of the comparison, with the parameters of the estimator instead of lambda."""
    params: list[dict[str, Any]] = [{} for _ in cells]
    if cells[0][names[0]] is not None:
        name, values = _cv.regularisation(estimator, [cell[names[0]] for cell in cells], rows)
        params = [{name: value} for value in values]
    if getattr(estimator, "ranks", None) is not None:
        params = [{**candidate, names[1]: cell[names[1]]} for candidate, cell in zip(params, cells)]
    error = "mse" if is_regressor(estimator) else "error" if is_classifier(estimator) else "share of pairs in the wrong order"
    scoring, scores = _cv.score_of(error, errors)
    return _cv.results(params, best, scoring, scores.mean(axis=1), scores)


def _error(estimator: Any, cell: dict[str, Any], split: Any, X: Any, y: Any, weight: Any, group: Any) -> float:
    """Fits on the training rows, and returns the test error: mean squared error, error rate, or fraction of wrongly ordered pairs."""
    parameters = estimator.get_params()
    model = clone(estimator).set_params(**{name: value for name, value in {**cell, "cv": None, "ranks": None}.items() if name in parameters})
    train, test = split

    def per_row(rows: Any) -> dict[str, Any]:
        more = {"sample_weight": weight, "group": group}
        return {name: _safe_indexing(values, rows) for name, values in more.items() if values is not None}

    model.fit(*_safe_split(model, X, y, train), **per_row(train))
    X_test, y_test = _safe_split(model, X, y, test, train)
    if not is_regressor(model):
        return 1.0 - float(model.score(X_test, y_test, **per_row(test)))
    squares = np.square(model.predict(X_test) - y_test)
    return float(np.average(squares.reshape(len(squares), -1).mean(axis=1), weights=per_row(test).get("sample_weight")))
