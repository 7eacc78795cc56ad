"""Cross-validated scores of candidates in the form of scikit-learn's ``cv_results_``."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import rankdata

# attributes of GridSearchCV that a comparison on folds sets
ATTRIBUTES = ("cv_results_", "best_index_", "best_params_", "best_score_", "n_splits_", "scoring_")

# error of the engine -> (scikit-learn's name of the score, score of a model without errors); the score is this number minus the error
_SCORES = {
    "error": ("accuracy", 1.0),
    "mse": ("neg_mean_squared_error", 0.0),
    "log-loss": ("neg_log_loss", 0.0),
    "brier": ("neg_brier_score", 0.0),
    "auc": ("roc_auc", 1.0),
    "share of pairs in the wrong order": ("fraction_of_ordered_pairs", 1.0),
}


def score_of(error: str, errors: Any) -> tuple[str, Any]:
    """Returns the name of the score that belongs to an error, and the scores: higher is better."""
    errors = np.asarray(errors, dtype=np.float64)
    if error == "correlation":
        return error, errors
    name, perfect = _SCORES.get(error, (f"neg_mean_{error.replace(' ', '_')}", 0.0))
    return name, perfect - errors


def results(params: list[dict[str, Any]], best: int, scoring: str, mean: Any, splits: Any = None, **more: Any) -> dict[str, Any]:
    """Returns the attributes of a comparison of candidates.

    ``mean`` has the score of each candidate, and ``splits`` the scores by candidate and split, if they are known.
    """
    table: dict[str, Any] = dict(more)
    for name in dict.fromkeys(name for candidate in params for name in candidate):
        values = np.empty(len(params), dtype=object)
        values[:] = [candidate.get(name) for candidate in params]
        table[f"param_{name}"] = np.ma.MaskedArray(values, mask=[name not in candidate for candidate in params])
    table["params"] = params
    if splits is not None:
        table.update({f"split{j}_test_score": splits[:, j] for j in range(splits.shape[1])})
    table["mean_test_score"] = np.asarray(mean, dtype=np.float64)
    if splits is not None:
        table["std_test_score"] = splits.std(axis=1)
    table["rank_test_score"] = rankdata(-table["mean_test_score"], method="min").astype(np.int32)
    attributes = {"cv_results_": table, "best_index_": best, "best_params_": params[best],
                  "best_score_": float(table["mean_test_score"][best]), "scoring_": scoring}
    return attributes if splits is None else {**attributes, "n_splits_": splits.shape[1]}


def of_report(estimator: Any, report: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes of the comparison that a fit reports; empty if the fit compared nothing on folds."""
    cells = [cell for cell in report["surface"] if cell["cv_mse"] is not None]
    return _of_surface(estimator, report, cells) if cells else _of_figures(estimator, report)


def _of_surface(estimator: Any, report: dict[str, Any], cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Ridge regression: mean squared errors of ranks and regularisation parameters, also by fold."""
    name, values = regularisation(estimator, [cell["lambda"] for cell in cells], _weight(report))
    params = [{name: value} for value in values]
    if estimator.ranks is not None:
        params = [{**candidate, estimator._rank_name: cell["rank"]} for candidate, cell in zip(params, cells)]
    best = next((i for i, cell in enumerate(cells) if (cell["rank"], cell["lambda"]) == (report["rank"], report["lambda"])), None)
    if best is None:
        return {}
    by_error = getattr(estimator, "select", None) == "error" and all("cv_error" in cell for cell in cells)
    scoring, mean = score_of(*(("error", [cell["cv_error"] for cell in cells]) if by_error else ("mse", [cell["cv_mse"] for cell in cells])))
    folds = [cell.get("fold_mse") or [] for cell in cells]
    complete = not by_error and len(folds[0]) > 1 and all(len(fold) == len(folds[0]) and None not in fold for fold in folds)
    return results(params, best, scoring, mean, score_of("mse", folds)[1] if complete else None)


def _of_figures(estimator: Any, report: dict[str, Any]) -> dict[str, Any]:
    """All other solvers: the figure after the compared values has the error at each of them."""
    figures = report.get("figures") or []
    for grid, figure in zip(figures, figures[1:]):
        if figure["name"].startswith("held-out mse of 1, 2"):
            params = [{"n_components": count} for count in range(1, len(figure["values"]) + 1)]
            scoring, mean = score_of("mse", figure["values"])
            return results(params, int(_first(figures, "components")) - 1, scoring, mean)
        if figure["name"].endswith(" at each"):
            error = figure["name"].removesuffix(" at each").removeprefix("mean ").removeprefix("held-out ")
            weight, lambdas = _weight(report), np.asarray(grid["values"], dtype=np.float64)
            lambdas = 1.0 / (2.0 * weight * lambdas) if grid["name"] == "C" else lambdas
            name, values = regularisation(estimator, lambdas, weight)
            # the mean over the levels of quantiles, each with errors at all values
            errors = np.reshape(figure["values"], (-1, len(lambdas))).mean(axis=0)
            chosen = lambdas[np.argmin(errors)] if report["lambda"] is None else report["lambda"]
            best = int(np.argmin(np.abs(np.log(np.maximum(lambdas, 1e-300) / max(chosen, 1e-300)))))
            scoring, mean = score_of(error, errors)
            return results([{name: value} for value in values], best, scoring, mean)
    return {}


def _first(figures: list[dict[str, Any]], name: str) -> float:
    return float(next(figure["values"][0] for figure in figures if figure["name"] == name))


def _weight(report: dict[str, Any]) -> float:
    """Returns the number of rows of a fit, or the sum of their weights."""
    return float(report.get("weight", report["rows"]))


def regularisation(estimator: Any, lambdas: Any, weight: float) -> tuple[str, list[float]]:
    """Returns the parameter of the estimator that sets the regularisation, and its values at some lambdas.

    A value that the caller listed is returned as it was listed, without the rounding errors of the conversion.
    """
    if getattr(estimator, "lambdas", None) is not None or not (hasattr(estimator, "alpha") or hasattr(estimator, "C")):
        name, listed, values = "lambdas", getattr(estimator, "lambdas", None), [float(value) for value in lambdas]
    elif hasattr(estimator, "alpha"):
        name, listed = "alpha", estimator.alpha if estimator.alphas is None else estimator.alphas
        values = [float(value) * weight for value in lambdas]
    else:
        name, listed, values = "C", estimator.C, [1.0 / (2.0 * weight * float(value)) for value in lambdas]
    known = np.array([value for value in np.ravel(np.array(listed, dtype=object)) if isinstance(value, Real)], dtype=np.float64)

    def exact(value: float) -> float:
        nearest = known[np.argmin(np.abs(known - value))] if known.size else value
        return float(nearest) if np.isclose(nearest, value, rtol=1e-9, atol=0.0) else value

    return name, [exact(value) for value in values]


def of_search(choice: dict[str, Any], solvers: list[dict[str, Any]], rungs: list[dict[str, Any]], task: str, score: str) -> dict[str, Any]:
    """Returns the attributes of the comparison of a search: of its solvers, or of its kernels if no solvers were compared."""
    trials = [trial for trial in solvers if trial.get("mean") is not None]
    if trials:
        measure = choice["select"] if choice["select"] != "error" else {"regression": "mse", "ranking": "share of pairs in the wrong order"}.get(task, "error")
        scoring, mean = score_of(measure, [trial["mean"] for trial in trials])
        counts = {len(trial["errors"]) for trial in trials}
        splits = score_of(measure, [trial["errors"] for trial in trials])[1] if len(counts) == 1 and counts != {0} else None
        best = next((i for i, trial in enumerate(trials) if trial["chosen"]), None)
        params = [_trial_params(trial) for trial in trials]
        return {} if best is None else results(params, best, scoring, mean, splits)
    entries = [(step, rung["rows"], entry) for step, rung in enumerate(rungs) for entry in rung["entries"] if entry["score"] is not None]
    if not entries or score != "cv":
        return {}
    params = [{name: entry[name] for name in ("kernel", "metric", "scale", "lambda") if entry.get(name) is not None} for _, _, entry in entries]
    params = [{"lambdas" if name == "lambda" else name: value for name, value in candidate.items()} for candidate in params]
    scoring, mean = score_of("mse", [entry["score"] for _, _, entry in entries])
    last = max(step for step, _, _ in entries)
    best = max((i for i, (step, _, _) in enumerate(entries) if step == last), key=lambda i: float(mean[i]))
    return results(params, best, scoring, mean, iter=np.array([step for step, _, _ in entries]), n_resources=np.array([rows for _, rows, _ in entries]))


def _trial_params(trial: dict[str, Any]) -> dict[str, Any]:
    """Returns the solver, its options and the kernel of a trial such as ``svm, one-vs-one, lambda 1e-6``."""
    solver, *options = trial["solver"].split(", ")
    params: dict[str, Any] = {"solver": solver, "kernel": trial["kernel"], "metric": trial["metric"]}
    for option in options:
        name, _, value = option.partition(" ")
        params.update({"lambdas": float(value)} if name == "lambda" else {"multiclass": option} if option == "one-vs-one" else {"variant": option})
    return params
