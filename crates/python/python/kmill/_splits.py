"""Splits of the rows that are no folds of the engine: rank and penalty are chosen by fits of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _safe_split

from . import _kmill


def choose(estimator: Any, y: Any, splits: list[Any], X: Any, weight: Any, group: Any) -> dict[str, str]:
    """Chooses rank and penalty by the error on the test rows of each split, averaged over splits, and returns them as options of the engine.

    *Cost*: a fit for each split, rank and penalty.
    """
    if not (is_regressor(estimator) or is_classifier(estimator) or estimator._solver == "ranking"):
        raise ValueError(f"{type(estimator).__name__} has no predictions to score: cv must hold every row out once and learn from all others, "
                         "or be a number, or text such as 'blocks:6'")
    if not splits:
        raise ValueError("cv has no splits; give a splitter, or a list of pairs of train and test rows")
    engine = estimator._solver_options(float(len(y) if weight is None else np.sum(weight)))
    lambdas, ranks = _kmill.grid(engine.get("lambda", "1"), engine.get("ranks", "1"))
    own = {"lambdas": lambdas if "lambda" in engine else [None], estimator._rank_name: ranks if "ranks" in engine else [estimator._rank()]}
    (penalty, penalties), (rank, values) = own.items()
    cells = [{penalty: one, rank: value} for value in values for one in penalties]
    errors = np.array([[_error(estimator, cell, split, X, y, weight, group) for split in splits] for cell in cells])
    best = cells[int(np.argmin(errors.mean(axis=1)))]
    estimator.cv_results_ = {"lambda": [cell[penalty] for cell in cells], "rank": [cell[rank] for cell in cells],
                             "errors": errors, "mean_error": errors.mean(axis=1)}
    chosen = {"lambda": best[penalty], "ranks": best[rank] if "ranks" in engine else None}
    return {name: str(value) for name, value in chosen.items() if value is not None}


def _error(estimator: Any, cell: dict[str, Any], split: Any, X: Any, y: Any, weight: Any, group: Any) -> float:
    """The error on the test rows of a fit of the train rows: mean squared error, error rate, or share of wrong pairs."""
    known = estimator.get_params()
    one = clone(estimator).set_params(**{name: value for name, value in {**cell, "cv": None, "ranks": None}.items() if name in known})
    train, test = split

    def of(rows: Any) -> dict[str, Any]:
        more = {"sample_weight": weight, "group": group}
        return {name: _safe_indexing(values, rows) for name, values in more.items() if values is not None}

    one.fit(*_safe_split(one, X, y, train), **of(train))
    X_test, y_test = _safe_split(one, X, y, test, train)
    if not is_regressor(one):
        return 1.0 - float(one.score(X_test, y_test, **of(test)))
    squares = np.square(one.predict(X_test) - y_test)
    return float(np.average(squares.reshape(len(squares), -1).mean(axis=1), weights=of(test).get("sample_weight")))
