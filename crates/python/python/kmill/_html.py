"""Reports in notebooks: the HTML page of the command's ``--report``, in an iframe."""

from __future__ import annotations

import html
from typing import Any

from . import _kmill


def iframe(contents: str) -> str:
    """Returns an iframe with the page of these contents. The iframe isolates the style of the page from that of the notebook."""
    page = html.escape(_kmill.page(contents))
    return f'<iframe srcdoc="{page}" title="kmill" style="width: 100%; height: 40em; border: 0"></iframe>'


class Report(dict[str, Any]):
    """The report of a fit: a dictionary, which a notebook shows as an HTML page."""

    def __init__(self, entries: dict[str, Any], contents: str) -> None:
        super().__init__(entries)
        self._contents = contents

    def __reduce__(self) -> Any:
        return Report, (dict(self), self._contents)

    def _repr_html_(self) -> str:
        return iframe(self._contents)
