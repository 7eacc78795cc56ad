"""The parameters of estimators: made from what the engine's registries say of solvers, so that each is described once."""

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

# names of scikit-learn for parameters of the engine
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
    """A parameter of an estimator: its name, default, type in the stubs, and its text."""

    name: str
    default: Any
    type: str
    about: str
    engine: str | None = None


def _names(what: str) -> str:
    return ", ".join(entry["name"] for entry in REGISTRIES[what])


SHARED = [
    Parameter("kernel", "rbf", "str | Callable[..., Any]", "A kernel of scikit-learn (rbf, laplacian, poly, sigmoid, linear, cosine, chi2, "
              "additive_chi2), or an expression of kernels, with sums and products: " + _names("kernels") + "; or 'precomputed', or "
              "'distances' where X has the distances between rows, or a function; their matrices are approximated from a few of their columns."),
    Parameter("gamma", None, "float | str | None", "The factor of the squared distance or the inner product; for rbf it is "
              "1/(2 sigma^2). 'auto' is 1/n_features, 'scale' 1/(n_features * variance of X), 'median' takes the median distance of a "
              "sample as the length scale. None is 1/n_features (1 for chi2). Of a data frame, a stream or files the default is the "
              "length scale that predicts the target best, or the median distance where there is no target."),
    Parameter("coef0", 1.0, "float | None", "The constant of poly and sigmoid."),
    Parameter("degree", 3, "float | None", "The degree of poly."),
    Parameter("kernel_params", None, "dict[str, Any] | None", "Keyword arguments of a kernel that is a function."),
    Parameter("rank", 1000, "int | None", "Number of landmarks, which is the rank of the approximation: time grows with "
              "n rank^2 + rank^3, memory with rank^2."),
    Parameter("scale", None, "str | None", "How features are scaled before the kernel, as part of the model: none, standard (mean 0, "
              "deviation 1), minmax, robust (by medians), asinh (for long tails) or quantile (by rank); of sparse rows and texts tf-idf, unit (the length) or maxabs. None is none for an array, as in scikit-learn, and "
              "standard for a data frame, a stream or files; of texts tf-idf."),
    Parameter("clip", None, "bool | None", "Whether each feature of a new row is taken to the range that it had in the fit, so that a stray "
              "value is predicted as the nearest that was seen. None is no for an array and yes for a data frame, a stream or files."),
    Parameter("metric", None, "str | _Array | None", "A linear map of the scaled features before the kernel: learn, diagonal, "
              "full or low-rank(5) learn it from the target; the path of a model takes that model's; an array of "
              "n_features factors, or a matrix, is taken as it is."),
    Parameter("map", None, "str | None", "How rows become features: " + _names("maps") + ". None is nystrom."),
    Parameter("landmarks", None, "str | _Array | None", "The scheme that chooses landmarks: " + _names("landmarks")
              + "; or an array of landmark rows. None is rpcholesky."),
    Parameter("candidates", None, "int | str | None", "Number of random rows that landmarks are chosen among, or 'all'. "
              "None is max(20 rank, 50000)."),
    Parameter("precision", "f32", "str", "Type of rows and features: f32 or f64. Sums are in f64 either way."),
    Parameter("missing", "error", "str", "What is done with missing values: error, drop (the row), mean (of training) or indicator (the "
              "mean, and a feature that says so). The model keeps it for new rows."),
    Parameter("categories", None, "str | Sequence[str] | None", "Columns of a data frame, a stream or files that are categories, a feature "
              "for each value: names or patterns, 'all' or 'none'. None is the columns of text with up to 1,000 values."),
    Parameter("times", None, "str | None", "Features of dates and times: position (days since 1970), cyclic (also the hour, the weekday and "
              "the day of the year, where the rows go through all of them) or none. None is cyclic."),
    Parameter("text", None, "str | Sequence[str] | None", "Columns of text of a data frame, a stream or files whose words are counted as "
              "sparse features: 'comment' for words, 'comment:word(1,2)' for runs of one and two, 'comment:char(3,5)' for runs of "
              "characters, 'dna:spectrum(5)' for runs of five. They are then the only features."),
    Parameter("random_state", 0, "int | _RandomState | None", "Seed of every random choice. None draws one from numpy."),
    Parameter("memory", None, "int | str | None", "Memory that the process may take, in bytes or as '2GiB'; a fit that needs "
              "more is refused before it starts. None is half of the machine's."),
    Parameter("n_jobs", None, "int | None", "Number of threads. None, and a negative number, is one for each core. The "
              "result has the same bits."),
    Parameter("verbose", 0, "int", "1 shows progress, by tqdm where it is installed."),
]

_TYPES = {
    "flag": "bool",
    "count": "int | None",
    "number": "float | None",
    "penalty": "float | str | None",
    "penalties": "float | str | Sequence[float] | None",
    "ranks": "str | Sequence[int] | None",
    "folds": "Any",
    "column": "str | None",
    "columns": "str | None",
    "kernel": "str | None",
    "class weights": "dict[Any, float] | str | None",
}


# types that read better in words
_TYPE_NAMES = {"Any": "int, str or splitter", "dict[Any, float] | str | None": "dict, 'balanced' or None"}


def _default(parameter: dict[str, Any]) -> Any:
    kind, text = parameter["kind"], parameter["default"]
    if kind == "flag":
        return False
    if text is None:
        return None
    if kind == "count":
        return int(text)
    if kind == "number":
        return float(text)
    # of a penalty the engine's default counts only where no other unit is given
    return None if kind in ("penalty", "penalties") else text


def solver_parameters(solver: str) -> list[Parameter]:
    """The parameters of a solver, with scikit-learn's names."""
    parameters = []
    for known in _SOLVERS[solver]["parameters"]:
        name, about = RENAMED.get(known["name"], known["name"]), _sentences(known["about"])
        type_ = _TYPES.get(known["kind"], "str | None" if known["default"] is None else "str")
        if known["kind"] == "class weights":
            about += " A dictionary holds them, too."
        if known["kind"] == "folds":
            about += " Or a splitter of scikit-learn, or pairs of train and test rows: folds of one pass if each row is held out once, else a fit for each."
        parameters.append(Parameter(name, _default(known), type_, about, known["name"]))
    return parameters


def _sentences(about: str) -> str:
    """The help of an option of the command as sentences for a parameter of Python."""
    told, _, usual = about.removesuffix("]").partition(" [default: ")
    told = f"{told.removesuffix('.')}." + (f" By default {usual}." if usual else "")
    return re.sub(r"--([a-z]+)(-[a-z]+)?", lambda flag: "``" + (flag[1] + (flag[2] or "")).replace("-", "_") + "``", told)


def _is_numeric_array(value: Any) -> bool:
    try:
        return np.asarray(value, dtype=float).ndim > 0
    except (TypeError, ValueError):
        return False


def _iterable_of(kind: type) -> Callable[[Any], bool]:
    """Whether a value is a list of such values, and no text."""
    return lambda value: hasattr(value, "__iter__") and not isinstance(value, str) and all(isinstance(item, kind) for item in value)


# what a value of a type is called, and whether a value is one; values of other types are looked at where they are read
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "int": ("a whole number", lambda value: isinstance(value, Integral)),
    "float": ("a number", lambda value: isinstance(value, Real)),
    "bool": ("True or False", lambda value: isinstance(value, (bool, np.bool_))),
    "str": ("text", lambda value: isinstance(value, str)),
    "None": ("None", lambda value: value is None),
    "_Array": ("an array of numbers", _is_numeric_array),
    "_RandomState": ("a RandomState", lambda value: isinstance(value, np.random.RandomState)),
    "Sequence[float]": ("several numbers", _iterable_of(Real)),
    "Sequence[int]": ("several whole numbers", _iterable_of(Integral)),
    "Sequence[str]": ("several texts", _iterable_of(str)),
    "Iterable[int]": ("several whole numbers", _iterable_of(Integral)),
    "Iterable[str]": ("several texts", _iterable_of(str)),
}


def as_list(values: Any) -> Any:
    """The list of what can be gone through but once; anything else as it is."""
    return list(values) if hasattr(values, "__iter__") and not isinstance(values, str) else values


def check(name: str, value: Any, type_: str) -> None:
    """Rejects a value that is not of a parameter's type."""
    kinds = [_KINDS.get(part) for part in type_.split(" | ")]
    if None in kinds or any(kind and kind[1](value) for kind in kinds):
        return
    got = repr(value)
    raise ValueError(f"{name} must be {' or '.join(kind[0] for kind in kinds if kind)}, got {got[:60]}{'…' if len(got) > 60 else ''}")


def check_arguments(function: Any, **given: Any) -> None:
    """Rejects a value that is not of the type that the function declares for the argument."""
    for name, value in given.items():
        check(name, value, function.__annotations__[name])


def text(value: Any) -> str | None:
    """A value as it would be typed in the command; None where nothing is given."""
    if value is None or value is False:
        return None
    if value is True:
        return "true"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ",".join(f"{key}={text(item)}" for key, item in value.items())
    if hasattr(value, "__iter__"):
        return ",".join(str(text(item)) for item in value)
    number = value.item() if hasattr(value, "item") else value
    return repr(number)


Class = TypeVar("Class", bound=type)

# the estimator that opens models, by solver and task (None for solvers of one task): the first that
# is made for them
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
    """Gives a class the constructor of a solver, and the parameters and attributes of its docstring.

    ``first`` are the parameters that may be given by position, ``own`` parameters of the class itself, ``without`` those that it does
    not have, ``fixed`` values of the engine's parameters that the class stands for, and ``defaults`` defaults that differ.
    """

    def make(cls: Class) -> Class:
        fixed_values = fixed or {}
        known = {p.name: p for p in [*own, *solver_parameters(solver), *SHARED]}
        names = [n for n in known if n not in without and known[n].engine not in fixed_values]
        names = [*first, *(n for n in names if n not in first)]
        parameters = [known[n] for n in names]
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
    """A parameter as an entry of a docstring."""
    type_ = _TYPE_NAMES.get(parameter.type, parameter.type.replace("_Array", "array").replace("_RandomState", "RandomState"))
    about = textwrap.fill(parameter.about, 96, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return f"{parameter.name} : {type_}, default={parameter.default!r}\n{about}"


def _constructor(parameters: list[Parameter], first: tuple[str, ...]) -> Any:
    """A constructor that stores its arguments and does nothing else, as scikit-learn wants it."""
    star = "*, " if len(first) < len(parameters) else ""
    given = [f"{p.name}=_defaults[{p.name!r}]" for p in parameters]
    signature = ", ".join(given[: len(first)]) + (", " if first else "") + star + ", ".join(given[len(first):])
    body = "\n".join(f"    self.{p.name} = {p.name}" for p in parameters)
    scope: dict[str, Any] = {"_defaults": {p.name: p.default for p in parameters}}
    exec(f"def __init__(self, {signature}):\n{body}\n", scope)
    return scope["__init__"]
