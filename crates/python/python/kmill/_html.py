"""Reports in notebooks: the page that the command writes, in a frame of its own."""

from __future__ import annotations

import html
from typing import Any

from . import _kmill


def iframe(contents: str) -> str:
    """The page of contents as the engine tells them; a frame keeps its style from that of the notebook."""
    page = html.escape(_kmill.page(contents))
    return f'<iframe srcdoc="{page}" title="kmill" style="width: 100%; height: 40em; border: 0"></iframe>'


class Report(dict[str, Any]):
    """What a fit tells: a dictionary, and in a notebook a page."""

    def __init__(self, facts: dict[str, Any], contents: str) -> None:
        super().__init__(facts)
        self._contents = contents

    def __reduce__(self) -> Any:
        return Report, (dict(self), self._contents)

    def _repr_html_(self) -> str:
        return iframe(self._contents)
