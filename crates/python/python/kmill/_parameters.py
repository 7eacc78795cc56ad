"""The parameters of estimators, generated from the engine's registry of solvers, so that each is described once."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Callable, TypeVar

import numpy as np

from . import _kmill
from ._docs import describe_class

REGISTRIES: dict[str, Any] = json.loads(_kmill.registries())
_SOLVERS = {solver["name"]: solver for solver in REGISTRIES["solvers"]}

# scikit-learn's names for parameters of the engine
RENAMED = {
    "lambda": "lambdas",
    "components": "n_components",
    "clusters": "n_clusters",
    "starts": "n_init",
    "steps": "max_iter",
    "gap": "tol",
    "folds": "cv",
    "probabilities": "probability",
    "neighbours": "n_neighbors",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator: name, default, type in the stubs, description, and name of the engine's parameter."""

    name: str
    default: Any
    type: str
    about: str
    engine: str | None = None


def _names(what: str) -> str:
    return ", ".join(entry["name"] for entry in REGISTRIES[what])


SHARED = [
    Parameter("kernel", "rbf", "str | Callable[..., Any]", "A kernel name of scikit-learn (rbf, laplacian, poly, sigmoid, linear, cosine, chi2, "
              "additive_chi2); an expression of kernels, with sums and products: " + _names("kernels") + "; 'precomputed'; 'distances' if X is the "
              "matrix of distances between rows; or a callable. The matrix of the last three is approximated from a few of its columns."),
    Parameter("gamma", None, "float | str | None", "The factor of the squared distance or of the inner product; for rbf it is "
              "1 / (2 length_scale^2). 'auto' is 1 / n_features, 'scale' is 1 / (n_features * X.var()), and 'median' uses the median distance "
              "in a sample as the length scale. None is 1 / n_features (1 for chi2). For a data frame, a stream or files, the default selects "
              "the length scale that predicts the target best, or the median distance without a target."),
    Parameter("coef0", 1.0, "float | None", "The constant term of poly and sigmoid."),
    Parameter("degree", 3, "float | None", "The degree of poly."),
    Parameter("kernel_params", None, "dict[str, Any] | None", "Keyword arguments of a callable kernel."),
    Parameter("rank", 1000, "int | None", "Number of features of the map; for nystrom, the number of landmarks. Time grows with "
              "n rank^2 + rank^3, memory with rank^2."),
    Parameter("scale", None, "str | None", "Scaling learned from the training rows and stored in the model: none, standard (mean 0, "
              "standard deviation 1), minmax, robust (for outliers), asinh (for long tails) or quantile (by rank); for sparse rows and texts "
              "tf-idf, unit (norm 1), maxabs or none. None is 'none' for an array, as in scikit-learn; 'standard' for a data frame, a stream "
              "or files; 'tf-idf' for texts."),
    Parameter("clip", None, "bool | None", "Whether values of new rows outside the training range are clipped to it. None is False for an array, "
              "and True for a data frame, a stream or files."),
    Parameter("metric", None, "str | _Array | None", "Metric (a linear map of the scaled features) before the kernel: learn, diagonal, "
              "full or low-rank(5) learn it from the target; the path of a model file selects the metric of that model; an array has a factor "
              "for each feature, or is a matrix. likelihood learns no metric, but a length scale for each feature in each part of a sum "
              "of kernels. linear is the only one for sparse rows: a factor for each column, from the weights of a linear ridge regression. "
              "None is no metric."),
    Parameter("map", None, "str | None", "Feature map: " + _names("maps") + ". None is nystrom."),
    Parameter("landmarks", None, "str | _Array | None", "Landmark scheme: " + _names("landmarks")
              + "; or an array of landmark rows. None is rpcholesky."),
    Parameter("candidates", None, "int | str | None", "Number of random rows among which landmarks are chosen, or 'all'. "
              "None is max(20 * rank, 50000)."),
    Parameter("precision", "f32", "str", "Type of rows and features: f32 or f64. Sums are always f64."),
    Parameter("missing", "error", "str", "Treatment of missing values: error; drop (remove the row); mean (fill in the mean of the training "
              "rows); or indicator (as mean, and add a feature that marks missing values). The model applies it to new rows too."),
    Parameter("categories", None, "str | Sequence[str] | None", "Categorical columns of a data frame, a stream or files, with a feature "
              "for each value: names or patterns, 'all' (every text column) or 'none'. None is the text columns with up to 1,000 "
              "values; text columns with more are target-encoded."),
    Parameter("times", None, "str | None", "Features of dates and times: position (days since 1970), cyclic (also the hour, the weekday and "
              "the day of the year, if the rows cover the whole cycle) or none. None is cyclic."),
    Parameter("text", None, "str | Sequence[str] | None", "Text columns of a data frame, a stream or files whose words are counted as "
              "features: 'comment' for words, 'comment:word(1,2)' for n-grams of one and two words, 'comment:char(3,5)' for n-grams of "
              "characters, 'dna:spectrum(5)' for n-grams of five characters without normalisation."),
    Parameter("random_state", 0, "int | _RandomState | None", "Seed of all random choices. None draws a seed from numpy's global generator."),
    Parameter("memory", None, "int | str | None", "Memory budget of the process, in bytes or as '2GiB'; a fit that needs "
              "more raises MemoryError before it starts. None is half of the available memory."),
    Parameter("n_jobs", None, "int | None", "Number of threads. None or a negative number is the number of cores. The "
              "result does not depend on it, bit for bit."),
    Parameter("verbose", 0, "int", "1 shows progress, with tqdm if it is installed; 0 shows none."),
]

_TYPES = {
    "flag": "bool",
    "count": "int | None",
    "counts": "int | str | Sequence[int] | None",
    "number": "float | None",
    "penalty": "float | str | None",
    "penalties": "float | str | Sequence[float] | None",
    "ranks": "str | Sequence[int] | None",
    "levels": "float | str | Sequence[float] | None",
    "folds": "Any",
    "column": "str | None",
    "columns": "str | None",
    "kernel": "str | None",
    "class weights": "dict[Any, float] | str | None",
}


# types that docstrings describe in words
_TYPE_NAMES = {"Any": "int, str or splitter", "dict[Any, float] | str | None": "dict, 'balanced' or None"}


def _default(parameter: dict[str, Any]) -> Any:
    kind, text = parameter["kind"], parameter["default"]
    if kind == "flag":
        return False
    if text is None:
        return None
    if kind in ("count", "counts"):
        return int(text)
    if kind == "number":
        return float(text)
    # None leaves the engine's default: an explicit value would override the same parameter in other units (alpha, C)
    return None if kind in ("penalty", "penalties") else text


def solver_parameters(solver: str) -> list[Parameter]:
    """Returns the parameters of a solver, with scikit-learn's names."""
    parameters = []
    for known in _SOLVERS[solver]["parameters"]:
        name, about = RENAMED.get(known["name"], known["name"]), _sentences(known["about"])
        type_ = _TYPES.get(known["kind"], "str | None" if known["default"] is None else "str")
        if known["kind"] == "class weights":
            about += " It may also be a dictionary from labels to weights."
        if known["kind"] == "folds":
            about += (" It may also be a splitter of scikit-learn, or a list of pairs of training and test rows: one pass computes all folds if each "
                      "row is tested once, otherwise each split costs a fit.")
        parameters.append(Parameter(name, _default(known), type_, about, known["name"]))
    return parameters


def _sentences(about: str) -> str:
    """Converts the help of a command-line option to the description of a parameter."""
    description, _, default = about.removesuffix("]").partition(" [default: ")
    description = f"{description.removesuffix('.')}." + (f" By default {default}." if default else "")
    return re.sub(r"--([a-z]+)(-[a-z]+)?", lambda flag: "``" + (flag[1] + (flag[2] or "")).replace("-", "_") + "``", description)


def _is_numeric_array(value: Any) -> bool:
    try:
        return np.asarray(value, dtype=float).ndim > 0
    except (TypeError, ValueError):
        return False


def _iterable_of(kind: type) -> Callable[[Any], bool]:
    """Returns a predicate: true for an iterable of values of this type, other than a text."""
    return lambda value: hasattr(value, "__iter__") and not isinstance(value, str) and all(isinstance(item, kind) for item in value)


# for each type its name in messages, and a predicate; the code that reads a value of another type checks it
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "int": ("an integer", lambda value: isinstance(value, Integral)),
    "float": ("a number", lambda value: isinstance(value, Real)),
    "bool": ("True or False", lambda value: isinstance(value, (bool, np.bool_))),
    "str": ("text", lambda value: isinstance(value, str)),
    "None": ("None", lambda value: value is None),
    "_Array": ("an array of numbers", _is_numeric_array),
    "_RandomState": ("a RandomState", lambda value: isinstance(value, np.random.RandomState)),
    "Sequence[float]": ("a list of numbers", _iterable_of(Real)),
    "Sequence[int]": ("a list of integers", _iterable_of(Integral)),
    "Sequence[str]": ("a list of texts", _iterable_of(str)),
    "dict[str, Any]": ("a dictionary", lambda value: isinstance(value, dict)),
    "Iterable[int]": ("a list of integers", _iterable_of(Integral)),
    "Iterable[str]": ("a list of texts", _iterable_of(str)),
}


def as_list(values: Any) -> Any:
    """Returns an iterable as a list, because a generator can be read only once; any other value unchanged."""
    return list(values) if hasattr(values, "__iter__") and not isinstance(values, str) else values


def check(name: str, value: Any, type_: str) -> None:
    """Raises ValueError if a value does not have the type of the parameter."""
    kinds = [_KINDS.get(part) for part in type_.split(" | ")]
    if None in kinds or any(kind and kind[1](value) for kind in kinds):
        return
    shown = repr(value)
    raise ValueError(f"{name} must be {' or '.join(kind[0] for kind in kinds if kind)}, got {shown[:60]}{'…' if len(shown) > 60 else ''}")


def check_arguments(function: Any, **arguments: Any) -> None:
    """Raises ValueError if a value does not have the type that the function declares for the argument."""
    for name, value in arguments.items():
        check(name, value, function.__annotations__[name])


def option_text(value: Any) -> str | None:
    """Formats a value as on the command line; None for None and False."""
    if value is None or value is False:
        return None
    if value is True:
        return "true"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ",".join(f"{key}={option_text(item)}" for key, item in value.items())
    if hasattr(value, "__iter__"):
        return ",".join(str(option_text(item)) for item in value)
    number = value.item() if hasattr(value, "item") else value
    return repr(number)


Class = TypeVar("Class", bound=type)

# the estimator that loads models of a solver and task (None for solvers of one task): the first one
# registered
ESTIMATORS: dict[tuple[str, str | None], Any] = {}


def estimator(
    solver: str,
    *,
    first: tuple[str, ...] = (),
    own: tuple[Parameter, ...] = (),
    without: tuple[str, ...] = (),
    fixed: dict[str, str] | None = None,
    **defaults: Any,
) -> Callable[[Class], Class]:
    """Class decorator: generates the constructor and the docstring of an estimator from the parameters of a solver.

    ``first`` names the positional parameters, ``own`` adds parameters of the class itself, ``without`` names parameters to omit,
    ``fixed`` sets parameters of the engine to a constant, and ``defaults`` overrides default values.
    """

    def make(cls: Class) -> Class:
        fixed_values = fixed or {}
        available = {p.name: p for p in [*own, *solver_parameters(solver), *SHARED]}
        names = [n for n in available if n not in without and available[n].engine not in fixed_values]
        names = [*first, *(n for n in names if n not in first)]
        parameters = [available[n] for n in names]
        parameters = [p if p.name not in defaults else Parameter(p.name, defaults[p.name], p.type, p.about, p.engine)
                      for p in parameters]
        cls._solver, cls._fixed = solver, fixed_values  # type: ignore[attr-defined]
        cls._parameters = parameters  # type: ignore[attr-defined]
        cls.__init__ = _constructor(parameters, first)  # type: ignore[misc]
        ESTIMATORS.setdefault((solver, fixed_values.get("task")), cls)
        describe_class(cls, "\n".join(map(_entry, parameters)))
        return cls

    return make


def _entry(parameter: Parameter) -> str:
    """Formats a parameter as an entry of a docstring."""
    type_ = _TYPE_NAMES.get(parameter.type, parameter.type.replace("_Array", "array").replace("_RandomState", "RandomState"))
    about = textwrap.fill(parameter.about, 96, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return f"{parameter.name} : {type_}, default={parameter.default!r}\n{about}"


def _constructor(parameters: list[Parameter], first: tuple[str, ...]) -> Any:
    """Returns a constructor that stores its arguments unchanged, as scikit-learn requires."""
    star = "*, " if len(first) < len(parameters) else ""
    arguments = [f"{p.name}=_defaults[{p.name!r}]" for p in parameters]
    signature = ", ".join(arguments[: len(first)]) + (", " if first else "") + star + ", ".join(arguments[len(first):])
    body = "\n".join(f"    self.{p.name} = {p.name}" for p in parameters)
    scope: dict[str, Any] = {"_defaults": {p.name: p.default for p in parameters}}
    exec(f"def __init__(self, {signature}):\n{body}\n", scope)
    return scope["__init__"]
