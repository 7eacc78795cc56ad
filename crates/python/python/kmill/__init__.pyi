"""Type stubs of kmill, written by stubs.py from the classes themselves."""

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

class _Kernel:
    kernel: str | Callable[..., Any]
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    rank: int | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    map: str | None
    landmarks: str | _Array | None
    candidates: int | str | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int

class Isomap(_Transformer):
    n_components: int | None
    n_neighbors: int | None
    nodes: int | None
    rank: int | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    landmarks: str | _Array | None
    candidates: int | str | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        n_neighbors: int | None = ...,
        nodes: int | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelCCA(_TwoViews):
    with_kernel: str | None
    n_components: int | None
    lambdas: float | str | Sequence[float] | None
    cv: Any
    tolerance: float | None
    kernel: str | Callable[..., Any]
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    rank: int | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    map: str | None
    candidates: int | str | None
    precision: str
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def __init__(
        self,
        *,
        with_kernel: str | None = ...,
        n_components: int | None = ...,
        lambdas: float | str | Sequence[float] | None = ...,
        cv: Any = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelDimensionReduction(_Transformer):
    n_components: int | None
    task: str
    target_kernel: str | None
    lambdas: float | str | None
    tolerance: float | None
    kernel: str | Callable[..., Any]
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    rank: int | None
    scale: str | None
    clip: bool | None
    map: str | None
    landmarks: str | _Array | None
    candidates: int | str | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def fit(self, X: _Rows, y: Any) -> Self: ...  # type: ignore[override]
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        task: str = ...,
        target_kernel: str | None = ...,
        lambdas: float | str | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelFisher(_Kernel, _Classifier):
    lambdas: float | str | Sequence[float] | None
    cv: Any
    n_components: int | None
    within: str | None
    tolerance: float | None
    def transform(self, X: _Rows) -> Any: ...
    def get_feature_names_out(self, input_features: Any = ...) -> _Array: ...
    def set_output(self, *, transform: str | None = ...) -> Self: ...
    def __init__(
        self,
        *,
        lambdas: float | str | Sequence[float] | None = ...,
        cv: Any = ...,
        n_components: int | None = ...,
        within: str | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelKMeans(_Kernel, _Clusters):
    n_clusters: int | None
    n_init: int | None
    tolerance: float | None
    def transform(self, X: _Rows) -> Any: ...
    def get_feature_names_out(self, input_features: Any = ...) -> _Array: ...
    def set_output(self, *, transform: str | None = ...) -> Self: ...
    def fit_transform(self, X: _Rows, y: Any = ...) -> Any: ...
    def fit(self, X: _Rows, y: Any = ..., sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        *,
        n_clusters: int | None = ...,
        n_init: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelLogisticRegression(_Kernel, _Classifier):
    C: float | str | Sequence[float] | None
    lambdas: float | str | Sequence[float] | None
    cv: Any
    intercept: str
    class_weight: dict[Any, float] | str | None
    max_iter: int | None
    tolerance: float | None
    def predict_proba(self, X: _Rows) -> _Floats: ...
    def predict_log_proba(self, X: _Rows) -> _Floats: ...
    def fit(self, X: _Rows, y: Any, sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        C: float | str | Sequence[float] | None = ...,
        *,
        lambdas: float | str | Sequence[float] | None = ...,
        cv: Any = ...,
        intercept: str = ...,
        class_weight: dict[Any, float] | str | None = ...,
        max_iter: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelNovelty(_Kernel, _Novelty):
    nu: float | None
    tolerance: float | None
    def __init__(
        self,
        *,
        nu: float | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelPCA(_Kernel, _Transformer):
    n_components: int | None
    fit_inverse_transform: bool
    alpha: float
    remove_zero_eig: bool
    eigen_solver: str
    uncentred: bool
    whiten: bool
    novelty: bool
    cv: Any
    tolerance: float | None
    eigenvalues_: _Floats
    def distance(self, X: _Rows) -> _Floats: ...
    def preimage(self, X: _Rows) -> _Floats: ...
    def inverse_transform(self, X: Any) -> _Floats: ...
    def fit(self, X: _Rows, y: Any = ..., sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        fit_inverse_transform: bool = ...,
        alpha: float = ...,
        remove_zero_eig: bool = ...,
        eigen_solver: str = ...,
        uncentred: bool = ...,
        whiten: bool = ...,
        novelty: bool = ...,
        cv: Any = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelPCAL1(_Kernel, _Transformer):
    n_components: int | None
    uncentred: bool
    novelty: bool
    n_init: int | None
    max_iter: int | None
    tolerance: float | None
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        uncentred: bool = ...,
        novelty: bool = ...,
        n_init: int | None = ...,
        max_iter: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelPLS(_Kernel, _Regressor):
    n_components: int | None
    cv: Any
    tolerance: float | None
    def transform(self, X: _Rows) -> Any: ...
    def get_feature_names_out(self, input_features: Any = ...) -> _Array: ...
    def set_output(self, *, transform: str | None = ...) -> Self: ...
    def __init__(
        self,
        *,
        n_components: int | None = ...,
        cv: Any = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelPLSSVD(_TwoViews):
    with_kernel: str | None
    n_components: int | None
    cv: Any
    tolerance: float | None
    kernel: str | Callable[..., Any]
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    rank: int | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    map: str | None
    candidates: int | str | None
    precision: str
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def __init__(
        self,
        *,
        with_kernel: str | None = ...,
        n_components: int | None = ...,
        cv: Any = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelRanker(_Kernel, _Ranker):
    group: str | None
    loss: str
    lambdas: float | str | Sequence[float] | None
    cv: Any
    max_iter: int | None
    tolerance: float | None
    def __init__(
        self,
        *,
        group: str | None = ...,
        loss: str = ...,
        lambdas: float | str | Sequence[float] | None = ...,
        cv: Any = ...,
        max_iter: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelRidge(_Kernel, _Regressor):
    alpha: float
    alphas: Sequence[float] | None
    lambdas: float | str | Sequence[float] | None
    ranks: str | Sequence[int] | None
    tolerance: float | None
    cv: Any
    intercept: str
    method: str
    preconditioner: str | None
    residual: float | None
    loo: bool
    std: bool
    importance: bool
    local: int | None
    alpha_: float
    surface_: dict[str, _Array]
    def predict(self, X: _Rows, return_std: bool = ...) -> Any: ...
    def fit(self, X: _Rows, y: Any, sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        alpha: float = ...,
        *,
        alphas: Sequence[float] | None = ...,
        lambdas: float | str | Sequence[float] | None = ...,
        ranks: str | Sequence[int] | None = ...,
        tolerance: float | None = ...,
        cv: Any = ...,
        intercept: str = ...,
        method: str = ...,
        preconditioner: str | None = ...,
        residual: float | None = ...,
        loo: bool = ...,
        std: bool = ...,
        importance: bool = ...,
        local: int | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class KernelRidgeClassifier(_Kernel, _Classifier):
    alpha: float
    alphas: Sequence[float] | None
    lambdas: float | str | Sequence[float] | None
    ranks: str | Sequence[int] | None
    tolerance: float | None
    cv: Any
    select: str
    intercept: str
    method: str
    preconditioner: str | None
    residual: float | None
    loo: bool
    importance: bool
    local: int | None
    alpha_: float
    surface_: dict[str, _Array]
    def fit(self, X: _Rows, y: Any, sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        alpha: float = ...,
        *,
        alphas: Sequence[float] | None = ...,
        lambdas: float | str | Sequence[float] | None = ...,
        ranks: str | Sequence[int] | None = ...,
        tolerance: float | None = ...,
        cv: Any = ...,
        select: str = ...,
        intercept: str = ...,
        method: str = ...,
        preconditioner: str | None = ...,
        residual: float | None = ...,
        loo: bool = ...,
        importance: bool = ...,
        local: int | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class LaplacianEigenmaps(_Kernel, _Transformer):
    n_components: int | None
    tolerance: float | None
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class LocallyLinearEmbedding(_Transformer):
    n_components: int | None
    n_neighbors: int | None
    nodes: int | None
    rank: int | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    landmarks: str | _Array | None
    candidates: int | str | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        n_neighbors: int | None = ...,
        nodes: int | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class MDS(_Transformer):
    n_components: int | None
    kernel: str | Callable[..., Any]
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    rank: int | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    landmarks: str | _Array | None
    candidates: int | str | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class MaximumVarianceUnfolding(_Transformer):
    n_components: int | None
    n_neighbors: int | None
    nodes: int | None
    rank: int | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    landmarks: str | _Array | None
    candidates: int | str | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        n_neighbors: int | None = ...,
        nodes: int | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class Nystroem(_Transformer):
    kernel: str | Callable[..., Any]
    n_components: int
    tolerance: float | None
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    map: str | None
    landmarks: str | _Array | None
    candidates: int | str | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    @property
    def components_(self) -> _Floats: ...
    @property
    def component_indices_(self) -> _Array: ...
    def __init__(
        self,
        kernel: str | Callable[..., Any] = ...,
        *,
        n_components: int = ...,
        tolerance: float | None = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class OneClassSVM(_Kernel, _Novelty):
    nu: float | None
    tol: float | None
    max_iter: int | None
    tolerance: float | None
    @property
    def support_(self) -> _Array: ...
    @property
    def support_vectors_(self) -> _Floats: ...
    @property
    def dual_coef_(self) -> _Floats: ...
    @property
    def coef_(self) -> _Floats: ...
    @property
    def intercept_(self) -> _Floats: ...
    def fit(self, X: _Rows, y: Any = ..., sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        *,
        nu: float | None = ...,
        tol: float | None = ...,
        max_iter: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class OnlineRegressor(_Kernel, _Regressor):
    rule: str
    lambdas: float | str | None
    rate: float | None
    forgetting: float | None
    passes: int | None
    intercept: str
    tolerance: float | None
    running_mse_: float
    def partial_fit(self, X: _Rows, y: Any) -> Self: ...
    def __init__(
        self,
        *,
        rule: str = ...,
        lambdas: float | str | None = ...,
        rate: float | None = ...,
        forgetting: float | None = ...,
        passes: int | None = ...,
        intercept: str = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class Perceptron(_Kernel, _Classifier):
    max_iter: int | None
    last: bool
    intercept: str
    tolerance: float | None
    def __init__(
        self,
        *,
        max_iter: int | None = ...,
        last: bool = ...,
        intercept: str = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class RandomFourier(_Transformer):
    n_components: int
    tolerance: float | None
    gamma: float | str | None
    kernel_params: dict[str, Any] | None
    scale: str | None
    clip: bool | None
    metric: str | _Array | None
    precision: str
    missing: str
    categories: str | Sequence[str] | None
    times: str | None
    text: str | Sequence[str] | None
    random_state: int | _RandomState | None
    memory: int | str | None
    n_jobs: int | None
    verbose: int
    def __init__(
        self,
        *,
        n_components: int = ...,
        tolerance: float | None = ...,
        gamma: float | str | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class SVC(_Kernel, _Classifier):
    C: float | str | Sequence[float] | None
    lambdas: float | str | Sequence[float] | None
    pairs: bool
    probability: bool
    cv: Any
    intercept: str
    class_weight: dict[Any, float] | str | None
    loss: str
    tol: float | None
    max_iter: int | None
    tolerance: float | None
    @property
    def support_(self) -> _Array: ...
    @property
    def support_vectors_(self) -> _Floats: ...
    @property
    def dual_coef_(self) -> _Floats: ...
    @property
    def coef_(self) -> _Floats: ...
    @property
    def intercept_(self) -> _Floats: ...
    def predict_proba(self, X: _Rows) -> _Floats: ...
    def predict_log_proba(self, X: _Rows) -> _Floats: ...
    def fit(self, X: _Rows, y: Any, sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        C: float | str | Sequence[float] | None = ...,
        *,
        lambdas: float | str | Sequence[float] | None = ...,
        pairs: bool = ...,
        probability: bool = ...,
        cv: Any = ...,
        intercept: str = ...,
        class_weight: dict[Any, float] | str | None = ...,
        loss: str = ...,
        tol: float | None = ...,
        max_iter: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class SVR(_Kernel, _Regressor):
    C: float | str | Sequence[float] | None
    lambdas: float | str | Sequence[float] | None
    cv: Any
    intercept: str
    epsilon: float | None
    tol: float | None
    max_iter: int | None
    tolerance: float | None
    @property
    def support_(self) -> _Array: ...
    @property
    def support_vectors_(self) -> _Floats: ...
    @property
    def dual_coef_(self) -> _Floats: ...
    @property
    def coef_(self) -> _Floats: ...
    @property
    def intercept_(self) -> _Floats: ...
    def fit(self, X: _Rows, y: Any, sample_weight: Any = ...) -> Self: ...
    def __init__(
        self,
        C: float | str | Sequence[float] | None = ...,
        *,
        lambdas: float | str | Sequence[float] | None = ...,
        cv: Any = ...,
        intercept: str = ...,
        epsilon: float | None = ...,
        tol: float | None = ...,
        max_iter: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class SpectralClustering(_Kernel, _Clusters):
    n_clusters: int | None
    n_init: int | None
    tolerance: float | None
    def __init__(
        self,
        *,
        n_clusters: int | None = ...,
        n_init: int | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...

class SupervisedPCA(_Kernel, _Transformer):
    n_components: int | None
    task: str
    target_kernel: str | None
    tolerance: float | None
    def fit(self, X: _Rows, y: Any) -> Self: ...  # type: ignore[override]
    def __init__(
        self,
        n_components: int | None = ...,
        *,
        task: str = ...,
        target_kernel: str | None = ...,
        tolerance: float | None = ...,
        kernel: str | Callable[..., Any] = ...,
        gamma: float | str | None = ...,
        coef0: float | None = ...,
        degree: float | None = ...,
        kernel_params: dict[str, Any] | None = ...,
        rank: int | None = ...,
        scale: str | None = ...,
        clip: bool | None = ...,
        metric: str | _Array | None = ...,
        map: str | None = ...,
        landmarks: str | _Array | None = ...,
        candidates: int | str | None = ...,
        precision: str = ...,
        missing: str = ...,
        categories: str | Sequence[str] | None = ...,
        times: str | None = ...,
        text: str | Sequence[str] | None = ...,
        random_state: int | _RandomState | None = ...,
        memory: int | str | None = ...,
        n_jobs: int | None = ...,
        verbose: int = ...,
    ) -> None: ...
