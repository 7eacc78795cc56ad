"""Kernel machines on tables larger than memory, as scikit-learn estimators.

Estimators learn from arrays, Arrow streams and files of any size, report the error of their approximation, and write model
files that the command and the Rust library read.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._kmill import Error, __version__

# the import of scikit-learn dominates the import time, so the modules of the estimators are loaded on first use
_MODULES = {
    **dict.fromkeys(
        ["KernelFisher", "KernelGLM", "KernelLogisticRegression", "KernelPLS", "KernelQuantileRegressor", "KernelRanker", "KernelRidge",
         "KernelRidgeClassifier", "OnlineRegressor", "Perceptron", "SVC", "SVR"],
        "._supervised",
    ),
    **dict.fromkeys(
        ["KernelKMeans", "KernelNovelty", "KernelPCA", "Nystroem", "OneClassSVM", "RandomFourier", "SpectralClustering"],
        "._unsupervised",
    ),
    **dict.fromkeys(["KernelCCA", "KernelPLSSVD"], "._views"),
    **dict.fromkeys(
        ["Isomap", "KernelDimensionReduction", "KernelPCAL1", "LaplacianEigenmaps", "LocallyLinearEmbedding", "MDS",
         "MaximumVarianceUnfolding", "SupervisedPCA"],
        "._embeddings",
    ),
    "LandmarkMDS": "._distances",
    "tune": "._tune",
    "load": "._load",
    "plot": "._plot",
    **dict.fromkeys(["Evaluation", "evaluate"], "._evaluate"),
    "curve": "._research",
    "landmarks": "._research",
}

__all__ = ["Error", "__version__", *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'kmill' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
