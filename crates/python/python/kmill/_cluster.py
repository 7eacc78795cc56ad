"""The base class of the engines for Dask, Ray and Spark clusters.

Every worker runs the same fit on the same files and shares the passes over the rows: it claims work units (ranges of rows), publishes their
sums, and reads the total of all workers. The workers communicate through the driver, or through a shared folder. If a worker is lost, its
claimed work units are repeated; a worker that starts late reads the existing totals. The model is bit-identical to that of one process.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from ._place import Server


def fit_worker(estimator: Any, paths: list[str], arguments: dict[str, Any], states: Any, patience: float, threads: int | None) -> Any:
    """Runs the fit on a worker, with shared passes, and returns the fitted estimator."""
    if threads is not None and getattr(estimator, "n_jobs", None) is None and "n_jobs" in estimator.get_params():
        estimator.set_params(n_jobs=threads)
    return estimator.fit_files(paths, **arguments, states=states, patience=patience)


class Engine:
    """A cluster that runs fits. See :mod:`kmill.dask`, :mod:`kmill.ray` and :mod:`kmill.spark`."""

    def __init__(self, workers: int | None = None, threads: int | None = None, memory: int | str | None = None,
                 states: str | os.PathLike[str] | None = None, host: str | None = None):
        self.workers, self.threads, self.memory, self.states, self.host = workers, threads, memory, states, host

    def fit(self, estimator: Any, paths: list[str], arguments: dict[str, Any], patience: float) -> Any:
        """Returns a copy of the estimator that the workers fitted on files."""
        arguments = {**arguments, "memory": arguments["memory"] if arguments["memory"] is not None else self._memory(estimator)}
        task = partial(fit_worker, estimator, paths, arguments, patience=patience, threads=self._threads())
        if self.states is not None:
            fitted = self._run(partial(task, states=os.fspath(self.states)), self._workers())
        else:
            count = self._workers()
            with Server(self.host or self._host(), count) as place:
                fitted = self._run(partial(task, states=place), count)
        fitted.set_params(**estimator.get_params(deep=False))
        return fitted

    def _memory(self, estimator: Any) -> int | str | None:
        """Returns the memory budget of a worker, unless the estimator sets one."""
        return None if getattr(estimator, "memory", None) is not None else self.memory

    def _threads(self) -> int | None:
        return self.threads

    def _workers(self) -> int:
        return self.workers or 1

    def _host(self) -> str:
        """Returns an address of the driver that the workers can reach."""
        return socket.gethostbyname(socket.gethostname())

    def _run(self, task: Callable[[], Any], count: int) -> Any:
        """Runs ``count`` copies of a task on the cluster, and returns the first result."""
        raise NotImplementedError
