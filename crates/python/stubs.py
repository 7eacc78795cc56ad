"""Writes the type stubs of the package from its classes: ``python stubs.py``; ``--check`` only compares."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import kmill
from kmill import _parameters

HEAD = '''"""Type stubs of kmill, written by stubs.py from the classes themselves."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

__version__: str
__all__: list[str]

_Array: TypeAlias = npt.NDArray[Any]
_Floats: TypeAlias = npt.NDArray[np.float64]
_RandomState: TypeAlias = np.random.RandomState
_Path: TypeAlias = str | PathLike[str]
# an array, a table, or an object with __arrow_c_stream__
_Rows: TypeAlias = Any

class Error(Exception): ...

class Picture:
    svg: str
    def save(self, path: _Path) -> None: ...

def load(path: _Path) -> Any: ...
def plot(
    model: Any,
    X: _Rows | _Path | Sequence[_Path],
    y: Any = ...,
    *,
    axes: tuple[str, str] | None = ...,
    component: int | None = ...,
    colour: str | None = ...,
) -> Picture: ...
def curve(
    X: _Rows,
    methods: Iterable[str] = ...,
    ranks: Iterable[int] = ...,
    *,
    kernel: str = ...,
    gamma: float | str | None = ...,
    scale: str = ...,
    repeats: int = ...,
    sample: int | None = ...,
    features: list[str] | None = ...,
    precision: str = ...,
    random_state: int = ...,
    memory: int | str | None = ...,
    verbose: int = ...,
) -> Any: ...
def tune(
    X: _Rows | _Path | Sequence[_Path],
    y: Any,
    solver: str = ...,
    *,
    time: float | None = ...,
    work: str | None = ...,
    kernels: Iterable[str] | None = ...,
    task: str | None = ...,
    score: str = ...,
    measure: str | None = ...,
    sample: int = ...,
    **parameters: Any,
) -> Any: ...
def landmarks(
    X: _Rows,
    *,
    kernel: str = ...,
    gamma: float | str | None = ...,
    rank: int = ...,
    scheme: str = ...,
    scale: str = ...,
    random_state: int = ...,
    features: list[str] | None = ...,
) -> Any: ...

class _Estimator:
    model_: Any
    report_: dict[str, Any]
    kernel_: str
    rank_: int
    trace_error_: float | None
    lambda_: float
    cv_results_: dict[str, Any]
    n_features_in_: int
    feature_names_in_: _Array
    def fit_files(
        self,
        paths: _Path | Sequence[_Path],
        target: str | list[str] | None = ...,
        *,
        features: list[str] | None = ...,
        where: str | None = ...,
        rows: str | None = ...,
        missing: str | None = ...,
        categories: str | list[str] | None = ...,
        hash: int | None = ...,
        times: str | None = ...,
        text: str | list[str] | None = ...,
        types: dict[str, str] | None = ...,
        missing_words: list[str] | None = ...,
        sample_weight: str | None = ...,
        memory: int | str | None = ...,
        scratch: _Path | None = ...,
        states: _Path | None = ...,
        patience: float = ...,
        engine: Any = ...,
    ) -> Self: ...
    def predict_files(
        self,
        paths: _Path | Sequence[_Path],
        output: _Path,
        *,
        keep: list[str] | None = ...,
        extras: list[str] | None = ...,
        where: str | None = ...,
        rows: str | None = ...,
        missing: str | None = ...,
        memory: int | str | None = ...,
    ) -> int: ...
    def save(self, path: _Path) -> None: ...
    def to_onnx(self) -> bytes: ...
    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...

class _Regressor(_Estimator):
    @property
    def coef_(self) -> _Floats: ...
    @property
    def intercept_(self) -> _Floats: ...
    def fit(self, X: _Rows, y: Any) -> Self: ...
    def predict(self, X: _Rows) -> _Floats: ...
    def score(self, X: _Rows, y: Any, sample_weight: Any = ...) -> float: ...

class _Ranker(_Estimator):
    def fit(self, X: _Rows, y: Any, group: Any = ...) -> Self: ...
    def predict(self, X: _Rows) -> _Floats: ...
    def score(self, X: _Rows, y: Any, group: Any = ...) -> float: ...

class _Classifier(_Estimator):
    classes_: _Array
    @property
    def coef_(self) -> _Floats: ...
    @property
    def intercept_(self) -> _Floats: ...
    def fit(self, X: _Rows, y: Any) -> Self: ...
    def predict(self, X: _Rows) -> _Array: ...
    def decision_function(self, X: _Rows) -> _Floats: ...
    def score(self, X: _Rows, y: Any, sample_weight: Any = ...) -> float: ...

class _Transformer(_Estimator):
    def fit(self, X: _Rows, y: Any = ...) -> Self: ...
    def transform(self, X: _Rows) -> Any: ...
    def fit_transform(self, X: _Rows, y: Any = ...) -> Any: ...
    def get_feature_names_out(self, input_features: Any = ...) -> _Array: ...
    def set_output(self, *, transform: str | None = ...) -> Self: ...

class _TwoViews(_Estimator):
    def fit(self, X: _Rows, y: Any) -> Self: ...
    def transform(self, X: _Rows, y: Any = ...) -> Any: ...
    def fit_transform(self, X: _Rows, y: Any) -> Any: ...
    def get_feature_names_out(self, input_features: Any = ...) -> _Array: ...
    def set_output(self, *, transform: str | None = ...) -> Self: ...

class _Novelty(_Estimator):
    offset_: float
    def fit(self, X: _Rows, y: Any = ...) -> Self: ...
    def predict(self, X: _Rows) -> _Array: ...
    def fit_predict(self, X: _Rows, y: Any = ...) -> _Array: ...
    def decision_function(self, X: _Rows) -> _Floats: ...
    def score_samples(self, X: _Rows) -> _Floats: ...

class _Clusters(_Estimator):
    labels_: _Array
    def fit(self, X: _Rows, y: Any = ...) -> Self: ...
    def predict(self, X: _Rows) -> _Array: ...
    def fit_predict(self, X: _Rows, y: Any = ...) -> _Array: ...
'''

_COORDINATES = """    def transform(self, X: _Rows) -> Any: ...
    def get_feature_names_out(self, input_features: Any = ...) -> _Array: ...
    def set_output(self, *, transform: str | None = ...) -> Self: ...
"""

_PROBABILITIES = """    def predict_proba(self, X: _Rows) -> _Floats: ...
    def predict_log_proba(self, X: _Rows) -> _Floats: ...
"""

_SUPPORT = """    @property
    def support_(self) -> _Array: ...
    @property
    def support_vectors_(self) -> _Floats: ...
    @property
    def dual_coef_(self) -> _Floats: ...
    @property
    def coef_(self) -> _Floats: ...
    @property
    def intercept_(self) -> _Floats: ...
"""

# the members of a class in addition to those of its kind
MORE = {
    "KernelRidge": """    alpha_: float
    surface_: dict[str, _Array]
    def predict(self, X: _Rows, return_std: bool = ...) -> Any: ...
""",
    "OnlineRegressor": """    running_mse_: float
    def partial_fit(self, X: _Rows, y: Any) -> Self: ...
""",
    "KernelRidgeClassifier": """    alpha_: float
    surface_: dict[str, _Array]
""",
    **dict.fromkeys(["SupervisedPCA", "KernelDimensionReduction"], "    def fit(self, X: _Rows, y: Any) -> Self: ...  # type: ignore[override]\n"),
    "KernelFisher": _COORDINATES,
    "KernelPLS": _COORDINATES,
    "SVC": _SUPPORT + _PROBABILITIES,
    "SVR": _SUPPORT,
    "OneClassSVM": _SUPPORT,
    "KernelLogisticRegression": _PROBABILITIES,
    "KernelKMeans": _COORDINATES + "    def fit_transform(self, X: _Rows, y: Any = ...) -> Any: ...\n",
    "Nystroem": """    @property
    def components_(self) -> _Floats: ...
    @property
    def component_indices_(self) -> _Array: ...
""",
    "KernelPCA": """    eigenvalues_: _Floats
    def distance(self, X: _Rows) -> _Floats: ...
    def preimage(self, X: _Rows) -> _Floats: ...
    def inverse_transform(self, X: Any) -> _Floats: ...
""",
}


def classes() -> list[type]:
    """The estimators, by name."""
    found = [getattr(kmill, name) for name in kmill.__all__]
    return [cls for cls in found if inspect.isclass(cls) and cls is not kmill.Error]


# the attributes that a constructor sets from the parameters of all kernel estimators
SHARED = {parameter.name: parameter.type for parameter in _parameters.SHARED}


def attributes(types: dict[str, str]) -> str:
    """The attributes that a constructor sets, by name and type."""
    return "".join(f"    {name}: {type_}\n" for name, type_ in types.items())


def stub(cls: type) -> str:
    """The stub of an estimator."""
    kinds = ("Regressor", "Ranker", "Classifier", "Transformer", "TwoViews", "Novelty", "Clusters")
    kind = next(base.__name__ for base in cls.__mro__ if base.__name__ in kinds)
    types = {parameter.name: parameter.type for parameter in cls._parameters}  # type: ignore[attr-defined]
    parameters = list(inspect.signature(cls).parameters.values())
    lines, keyword = ["        self,"], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            lines.append("        *,")
            keyword = True
        lines.append(f"        {parameter.name}: {types[parameter.name]} = ...,")
    weighted = {"Weighted": "y: Any", "WeightedRows": "y: Any = ..."}
    target = next((weighted[base.__name__] for base in cls.__mro__ if base.__name__ in weighted), None)
    fit = f"    def fit(self, X: _Rows, {target}, sample_weight: Any = ...) -> Self: ...\n" if target else ""
    shared = SHARED if SHARED.items() <= types.items() else {}
    bases = "_Kernel, " if shared else ""
    own = attributes({name: type_ for name, type_ in types.items() if name not in shared})
    constructor = "    def __init__(\n" + "\n".join(lines) + "\n    ) -> None: ...\n"
    return f"\nclass {cls.__name__}({bases}_{kind}):\n{own}{MORE.get(cls.__name__, '')}{fit}{constructor}"


def main() -> int:
    """Writes the stubs, or with ``--check`` only reports by the exit code if they differ."""
    path = Path(__file__).parent / "python" / "kmill" / "__init__.pyi"
    text = HEAD + f"\nclass _Kernel:\n{attributes(SHARED)}" + "".join(stub(cls) for cls in classes())
    if "--check" in sys.argv[1:]:
        return 0 if path.read_text() == text else 1
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
