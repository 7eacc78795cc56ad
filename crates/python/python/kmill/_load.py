"""Models of the command, of Rust and of Python as estimators."""

from __future__ import annotations

import json
import os
from typing import Any

# the modules of the estimators enter these in ESTIMATORS
from . import _embeddings, _kmill, _supervised, _unsupervised, _views  # noqa: F401
from ._base import KernelEstimator
from ._parameters import ESTIMATORS


def load(path: Any) -> Any:
    """Open a model file as a fitted estimator.

    Parameters
    ----------
    path : path
        A safetensors file of the command, of Rust, or of ``save``.

    Returns
    -------
    estimator
        The estimator of the model's solver, with the parameters that the file holds, ready to predict. It has the card of the
        model as ``card_``; there is no report of the fit.
    """
    model = _kmill.Model.load(os.fspath(path))
    return from_model(model, json.loads(model.card()))


def estimator_class(solver: str, task: str | None) -> Any:
    """Returns the class of the estimators of a solver."""
    cls = ESTIMATORS.get((solver, task)) or ESTIMATORS.get((solver, None))
    if cls is None:
        raise _kmill.Error(f"there is no estimator for models of {solver}; predict with the command")
    return cls


def from_model(model: Any, card: dict[str, Any], **more: Any) -> KernelEstimator:
    """A model as an estimator with the parameters that its card holds, and more of them."""
    cls = estimator_class(card["solver"], card["task"])
    options = card["options"]
    # the options of these hold the number of nodes in its place; of landmarks the card tells, but for mvu
    rank = {"isomap": card["rank"], "lle": card["rank"], "mvu": None}.get(card["solver"], options.get("rank"))
    known = {parameter.name: parameter for parameter in cls._parameters}
    values = {name: options.get(name) for name in ("kernel", "scale", "map", "precision", "missing", "clip")}
    values.update({"random_state": card["seed"], cls._rank_name: rank, "gamma": None})
    for parameter in cls._parameters:
        if parameter.engine is not None and parameter.engine in options.get("solver_options", {}):
            value = options["solver_options"][parameter.engine]
            # a penalty that is not compared with others stands in the file as a list of one
            alone = isinstance(value, list) and len(value) == 1 and "Sequence" not in parameter.type
            values[parameter.name] = value[0] if alone else value
    given = {name: value for name, value in values.items() if name in known and (value is not None or name == "gamma")}
    found: KernelEstimator = cls(**given, **more)
    found.model_, found.card_ = model, card
    found._set_feature_names(card)
    found._set_attributes(card)
    found._after_files(card)
    return found
