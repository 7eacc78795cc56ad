"""Loads model files of the command, of the Rust library and of this package as estimators."""

from __future__ import annotations

import json
import os
from typing import Any

# these modules register their estimators in ESTIMATORS
from . import _embeddings, _kmill, _supervised, _unsupervised, _views  # noqa: F401
from ._base import KernelEstimator
from ._parameters import ESTIMATORS


def load(path: Any, estimator: type[Any] | None = None) -> Any:
    """Load a model file as a fitted estimator.

    Parameters
    ----------
    path : path
        A safetensors file written by the command, by the Rust library, or by ``save``.
    estimator : class, optional
        The expected class, such as ``kmill.SVC``; the file of another class is an error. For type checkers the result then has this type;
        None returns an estimator of any class, whose type is ``Any``.

    Returns
    -------
    estimator
        A fitted estimator for the solver of the model, with the parameters that the file stores. ``card_`` is the metadata of the
        model; there is no ``report_``.
    """
    model = _kmill.Model.load(os.fspath(path))
    fitted = from_model(model, json.loads(model.card()))
    if estimator is not None and not isinstance(fitted, estimator):
        raise TypeError(f"{os.fspath(path)} has a model of {type(fitted).__name__}, and {estimator.__name__} was expected; omit the class, or load "
                        "another file")
    return fitted


def estimator_class(solver: str, task: str | None) -> Any:
    """Returns the estimator class of a solver."""
    cls = ESTIMATORS.get((solver, task)) or ESTIMATORS.get((solver, None))
    if cls is None:
        raise _kmill.Error(f"there is no estimator for solver {solver}; predict with the command, kmill predict")
    return cls


def from_model(model: Any, card: dict[str, Any], **more: Any) -> KernelEstimator:
    """Returns a model as an estimator with the parameters of its card, and further parameters."""
    cls = estimator_class(card["solver"], card["task"])
    options = card["options"]
    # for these solvers the option is the number of nodes; the card has the number of landmarks, except for mvu
    rank = {"isomap": card["rank"], "lle": card["rank"], "mvu": None}.get(card["solver"], options.get("rank"))
    names = {parameter.name for parameter in cls._parameters}
    values = {name: options.get(name) for name in ("kernel", "scale", "map", "precision", "missing", "clip")}
    values.update({"random_state": card["seed"], cls._rank_name: rank, "gamma": None})
    for parameter in cls._parameters:
        if parameter.engine is not None and parameter.engine in options.get("solver_options", {}):
            value = options["solver_options"][parameter.engine]
            # the file stores a single regularisation parameter as a list of one
            single = isinstance(value, list) and len(value) == 1 and "Sequence" not in parameter.type
            values[parameter.name] = value[0] if single else value
    parameters = {name: value for name, value in values.items() if name in names and (value is not None or name == "gamma")}
    fitted: KernelEstimator = cls(**parameters, **more)
    fitted.model_, fitted.card_ = model, card
    fitted._set_feature_names(card)
    fitted._set_attributes(card)
    fitted._after_files(card)
    return fitted
