"""Models of the command, of Rust and of Python as estimators."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _embeddings, _kmill, _supervised, _unsupervised, _views
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
    ("online", None): _supervised.OnlineRegressor,
    ("ranking", None): _supervised.KernelRanker,
    ("oneclass", None): _unsupervised.OneClassSVM,
    ("mean", None): _unsupervised.KernelNovelty,
    ("kmeans", None): _unsupervised.KernelKMeans,
    ("spectral", None): _unsupervised.SpectralClustering,
    ("kpca", None): _unsupervised.KernelPCA,
    ("kpca-l1", None): _embeddings.KernelPCAL1,
    ("spca", None): _embeddings.SupervisedPCA,
    ("kdr", None): _embeddings.KernelDimensionReduction,
    ("laplacian", None): _embeddings.LaplacianEigenmaps,
    ("mds", None): _embeddings.MDS,
    ("isomap", None): _embeddings.Isomap,
    ("lle", None): _embeddings.LocallyLinearEmbedding,
    ("mvu", None): _embeddings.MaximumVarianceUnfolding,
    ("features", None): _unsupervised.Nystroem,
    ("cca", None): _views.KernelCCA,
    ("covariance", None): _views.KernelPLSSVD,
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
    return filled(model, json.loads(model.card()))


def of_solver(solver: str, task: str | None) -> Any:
    """The class of estimators of a solver.

    Raises
    ------
    kmill.Error
        Where there is none.
    """
    cls = _CLASSES.get((solver, task)) or _CLASSES.get((solver, None))
    if cls is None:
        raise _kmill.Error(f"there is no estimator for models of {solver}; predict with the command")
    return cls


def filled(model: Any, card: dict[str, Any], **more: Any) -> KernelEstimator:
    """A model as an estimator with the parameters that its card holds, and more of them."""
    cls = of_solver(card["solver"], card["task"])
    options = card["options"]
    # the options of these hold the number of nodes in its place; of landmarks the card tells, but for mvu
    rank = {"isomap": card["rank"], "lle": card["rank"], "mvu": None}.get(card["solver"], options.get("rank"))
    known = {parameter.name: parameter for parameter in cls._parameters}
    values: dict[str, Any] = {"kernel": options.get("kernel"), "scale": options.get("scale"), "map": options.get("map"),
                              "precision": options.get("precision"), "missing": options.get("missing"), "clip": options.get("clip"), "random_state": card["seed"],
                              cls._rank_name: rank, "gamma": None}
    for parameter in cls._parameters:
        if parameter.engine is not None and parameter.engine in options.get("solver_options", {}):
            value = options["solver_options"][parameter.engine]
            # a penalty that is not compared with others stands in the file as a list of one
            alone = isinstance(value, list) and len(value) == 1 and "Sequence" not in parameter.type
            values[parameter.name] = value[0] if alone else value
    given = {name: value for name, value in values.items() if name in known and (value is not None or name == "gamma")}
    found: KernelEstimator = cls(**given, **more)
    found.model_, found.card_ = model, card
    found._name(card)
    found.kernel_, found.rank_ = card["kernel"], card["rank"]
    found.trace_error_ = None if card["certificate"] is None else card["certificate"]["trace_error"]
    if card["lambda"] is not None:
        found.lambda_ = card["lambda"]
    found._after_files(card)
    return found
