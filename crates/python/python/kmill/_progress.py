"""Progress of a job, on stderr or with tqdm."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """A context manager that shows the stages of a job.

    It returns the callback for the engine, or None if ``verbose`` is 0.
    """

    def __init__(self, verbose: int) -> None:
        self._verbose = bool(verbose)
        self._stage = ""
        self._bar: Any = None

    def __enter__(self) -> Any:
        return self._show if self._verbose else None

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _show(self, stage: str, done: int, rows: int | None) -> None:
        if stage != self._stage:
            self._close()
            self._stage = stage
            try:
                from tqdm.auto import tqdm

                self._bar = tqdm(total=rows, desc=stage, unit=" rows", unit_scale=True)
            except ImportError:
                print(f"kmill: {stage}", file=sys.stderr)
        if self._bar is not None:
            self._bar.n = done if rows is None else min(done, rows)
            self._bar.refresh()
