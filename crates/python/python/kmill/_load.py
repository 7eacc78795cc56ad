"""Models of the command, of Rust and of Python as estimators."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from . import _kmill, _supervised, _unsupervised
from ._base import KernelEstimator

_CLASSES: dict[tuple[str, str | None], type] = {
    ("ridge", "regression"): _supervised.KernelRidge,
    ("ridge", "classification"): _supervised.KernelRidgeClassifier,
    ("svm", None): _supervised.SVC,
    ("svr", None): _supervised.SVR,
    ("logistic", None): _supervised.KernelLogisticRegression,
    ("fisher", None): _supervised.KernelFisher,
    ("pls", "regression"): _supervised.KernelPLS,
    ("perceptron", None): _supervised.Perceptron,
    ("oneclass", None): _unsupervised.OneClassSVM,
    ("mean", None): _unsupervised.KernelNovelty,
    ("kmeans", None): _unsupervised.KernelKMeans,
    ("spectral", None): _unsupervised.SpectralClustering,
    ("kpca", None): _unsupervised.KernelPCA,
    ("features", None): _unsupervised.Nystroem,
}


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
    card = json.loads(model.card())
    solver, task = card["solver"], card["task"]
    cls = _CLASSES.get((solver, task)) or _CLASSES.get((solver, None))
    if cls is None:
        raise _kmill.Error(f"there is no estimator for models of {solver}; predict with the command")
    return _filled(cls, model, card)


def _filled(cls: Any, model: Any, card: dict[str, Any]) -> KernelEstimator:
    options = card["options"]
    known = {parameter.name: parameter for parameter in cls._parameters}
    values: dict[str, Any] = {"kernel": options.get("kernel"), "scale": options.get("scale"), "map": options.get("map"),
                              "precision": options.get("precision"), "random_state": card["seed"],
                              cls._rank_name: options.get("rank"), "gamma": None}
    for parameter in cls._parameters:
        if parameter.engine is not None and parameter.engine in options.get("solver_options", {}):
            values[parameter.name] = options["solver_options"][parameter.engine]
    found = cls(**{name: value for name, value in values.items() if name in known and (value is not None or name == "gamma")})
    found.model_, found.card_ = model, card
    found.feature_names_in_ = np.array(card["features"], dtype=object)
    found.n_features_in_ = len(card["features"])
    found.kernel_, found.rank_ = card["kernel"], card["rank"]
    found.trace_error_ = None if card["certificate"] is None else card["certificate"]["trace_error"]
    if card["lambda"] is not None:
        found.lambda_ = card["lambda"]
    found._after_files(card)
    return found
