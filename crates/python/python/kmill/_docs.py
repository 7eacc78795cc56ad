"""Assembles docstrings from parts, so that each parameter, argument and attribute is described once.

Docstrings follow numpydoc: a summary, then sections, each below an underlined heading. A section such
as "Parameters" consists of entries: a line ``name : type`` and an indented description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

_ORDER = ("Parameters", "Attributes", "Returns", "Warns", "Notes", "References", "Examples")

# arguments that several methods share; the docstring of a method overrides them
_ARGUMENTS = {
    "X": """X : array or sparse matrix of shape (n_samples, n_features), or an Arrow stream
    The rows.""",
    "y": """y : array of shape (n_samples,) or (n_samples, n_targets), or str
    The target: numbers for a regression (with a column for each target), class labels for a
    classification. For a stream it may be the name of a column.""",
    "sample_weight": """sample_weight : array of shape (n_samples,), optional
    Row weights: a row of weight 2 counts as two copies of the row. None is 1 for each row.""",
}

Method = TypeVar("Method", bound=Callable[..., object])


def _sections(docstring: str | None) -> dict[str, str]:
    """Splits a docstring into sections, by heading."""
    summary, *rest = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(docstring or ""), flags=re.MULTILINE)
    return {"Summary": summary.strip(), **{heading: text.strip() for heading, text in zip(rest[::2], rest[1::2])}}


def _entries(section: str) -> dict[str, str]:
    """Splits a section into entries, by the names before the colon."""
    return {entry.partition(" : ")[0]: entry for entry in re.split(r"\n(?=\S)", section) if entry}


def _docstring(sections: dict[str, str]) -> str:
    """Joins sections to a docstring, without the empty sections."""
    summary = sections.pop("Summary")
    headings = sorted(filter(sections.get, sections), key=_ORDER.index)
    return "\n\n".join([summary, *(f"{heading}\n{'-' * len(heading)}\n{sections[heading]}" for heading in headings)])


def document(method: Method) -> Method:
    """Completes the docstring of a method with the shared arguments.

    Without a section "Returns", the method returns the estimator.
    """
    sections = _sections(method.__doc__)
    own = _entries(sections.get("Parameters", ""))
    names = [name for name in inspect.signature(method).parameters if name != "self"]
    sections["Parameters"] = "\n".join(own.get(name) or _ARGUMENTS[name] for name in names)
    sections.setdefault("Returns", "self")
    method.__doc__ = _docstring(sections)
    return method


def describe_class(cls: type, parameters: str) -> None:
    """Completes the docstring of a class with its parameters, and with the attributes of its bases."""
    sections = _sections(cls.__doc__)
    attributes: dict[str, str] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("kmill."):
            for names, entry in _entries(_sections(base.__doc__).get("Attributes", "")).items():
                attributes.setdefault(names, entry)
    cls.__doc__ = _docstring({**sections, "Parameters": parameters, "Attributes": "\n".join(attributes.values())})
