"""Docstrings made of parts, so that each parameter, argument and attribute is described once.

A docstring has numpydoc's form: a summary, then sections, each below a heading that dashes underline.
A section such as "Parameters" consists of entries: a line ``name : type``, and below it an indented
description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

_ORDER = ("Parameters", "Attributes", "Returns", "Notes", "References", "Examples")

# arguments that several methods have; a method can describe an argument in its own docstring instead
_ARGUMENTS = {
    "X": """X : array or sparse matrix of shape (n_samples, n_features), or an Arrow stream
    Rows of numbers.""",
    "y": """y : array of shape (n_samples,), or (n_samples, n_targets) for several numbers
    The target: numbers for a regression, the class of each row for a classification. For a stream
    also the name of its column.""",
    "sample_weight": """sample_weight : array of shape (n_samples,), optional
    How much each row counts: a row of weight 2 counts as that row twice.""",
}

Method = TypeVar("Method", bound=Callable[..., object])


def _sections(docstring: str | None) -> dict[str, str]:
    """The text of each section by its heading."""
    summary, *rest = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(docstring or ""), flags=re.MULTILINE)
    return {"Summary": summary.strip(), **{heading: text.strip() for heading, text in zip(rest[::2], rest[1::2])}}


def _entries(section: str) -> dict[str, str]:
    """The entries of a section by the names before the colon."""
    return {entry.partition(" : ")[0]: entry for entry in re.split(r"\n(?=\S)", section) if entry}


def _docstring(sections: dict[str, str]) -> str:
    """The docstring of these sections, without the empty ones."""
    summary = sections.pop("Summary")
    headings = sorted(filter(sections.get, sections), key=_ORDER.index)
    return "\n\n".join([summary, *(f"{heading}\n{'-' * len(heading)}\n{sections[heading]}" for heading in headings)])


def document(method: Method) -> Method:
    """Completes the docstring of a method by the shared arguments.

    A method without a section "Returns" returns the estimator.
    """
    sections = _sections(method.__doc__)
    own = _entries(sections.get("Parameters", ""))
    names = [name for name in inspect.signature(method).parameters if name != "self"]
    sections["Parameters"] = "\n".join(own.get(name) or _ARGUMENTS[name] for name in names)
    sections.setdefault("Returns", "self")
    method.__doc__ = _docstring(sections)
    return method


def describe_class(cls: type, parameters: str) -> None:
    """Completes the docstring of a class by its parameters, and by the attributes of its bases."""
    sections = _sections(cls.__doc__)
    attributes: dict[str, str] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("kmill."):
            for names, entry in _entries(_sections(base.__doc__).get("Attributes", "")).items():
                attributes.setdefault(names, entry)
    cls.__doc__ = _docstring({**sections, "Parameters": parameters, "Attributes": "\n".join(attributes.values())})
