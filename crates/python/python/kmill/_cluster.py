"""What the engines of clusters have in common.

Every worker makes the same fit on the same files and shares the passes over the rows with the others: it claims lots of rows, gives
their sums, and takes the sums of all. The workers meet at the driver, or in a folder that they all see. A worker that is lost costs
what it had claimed; one that comes late takes what is there. The model has the bits that one process finds.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from ._place import Server


def fit_worker(estimator: Any, paths: list[str], arguments: dict[str, Any], states: Any, patience: float, threads: int | None) -> Any:
    """What every worker does: the whole fit, with shared passes. Returns the fitted estimator."""
    if threads is not None and getattr(estimator, "n_jobs", None) is None and "n_jobs" in estimator.get_params():
        estimator.set_params(n_jobs=threads)
    return estimator.fit_files(paths, **arguments, states=states, patience=patience)


class Engine:
    """A cluster that makes fits. See :mod:`kmill.dask`, :mod:`kmill.ray` and :mod:`kmill.spark`."""

    def __init__(self, workers: int | None = None, threads: int | None = None, memory: int | str | None = None,
                 states: str | os.PathLike[str] | None = None, host: str | None = None):
        self.workers, self.threads, self.memory, self.states, self.host = workers, threads, memory, states, host

    def fit(self, estimator: Any, paths: list[str], arguments: dict[str, Any], patience: float) -> Any:
        """Returns the estimator, fitted on files by the workers."""
        arguments = {**arguments, "memory": arguments["memory"] if arguments["memory"] is not None else self._memory(estimator)}
        make = partial(fit_worker, estimator, paths, arguments, patience=patience, threads=self._threads())
        if self.states is not None:
            fitted = self._run(partial(make, states=os.fspath(self.states)), self._workers())
        else:
            count = self._workers()
            with Server(self.host or self._host(), count) as place:
                fitted = self._run(partial(make, states=place), count)
        fitted.set_params(**estimator.get_params(deep=False))
        return fitted

    def _memory(self, estimator: Any) -> int | str | None:
        """The budget of a worker, where neither the call nor the estimator says one."""
        return None if getattr(estimator, "memory", None) is not None else self.memory

    def _threads(self) -> int | None:
        return self.threads

    def _workers(self) -> int:
        return self.workers or 1

    def _host(self) -> str:
        """An address of the driver that workers reach."""
        return socket.gethostbyname(socket.gethostname())

    def _run(self, task: Callable[[], Any], count: int) -> Any:
        """Runs so many copies of a task on the cluster, and returns what the first to succeed returns."""
        raise NotImplementedError
