"""Fits on a Dask cluster: ``KernelRidge().fit_files("rows/*.parquet", "y", engine=kmill.dask.Engine(client))``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dask.distributed import Client, as_completed, wait
from dask.distributed import TimeoutError as Late

from . import _cluster


class Engine(_cluster.Engine):
    """The workers of a Dask cluster.

    Each worker makes the whole fit and shares the passes over the rows with the others, so every worker must see the files under the
    same paths and have the package. The model has the bits that one process finds, however many workers there are, and also
    where workers die meanwhile.

    Parameters
    ----------
    client : dask.distributed.Client
        The client of the cluster.
    workers : int, optional
        Workers that take part. None is all of them.
    threads : int, optional
        Threads of each. None is what Dask gives a worker.
    memory : int or str, optional
        Memory budget of each. None is 0.6 of what Dask gives the smallest worker.
    states : path, optional
        A folder that all workers see, in which they meet; a fit that was broken off goes on from there. None is the process of
        the client, which the workers must reach.
    host : str, optional
        The address of the client that workers reach. None is the address by which the client reaches the scheduler.
    """

    def __init__(self, client: Client, workers: int | None = None, **run: Any):
        super().__init__(workers, **run)
        self._client = client

    def _worker_info(self) -> list[dict[str, Any]]:
        workers = list(self._client.scheduler_info(n_workers=-1)["workers"].values())
        if not workers:
            raise RuntimeError("the Dask cluster has no workers yet: client.wait_for_workers(n) waits for them")
        return workers

    def _workers(self) -> int:
        return self.workers or len(self._worker_info())

    def _threads(self) -> int | None:
        return self.threads or min(worker["nthreads"] for worker in self._worker_info())

    def _memory(self, estimator: Any) -> int | str | None:
        limits = [worker["memory_limit"] for worker in self._worker_info() if worker.get("memory_limit")]
        return super()._memory(estimator) or (int(0.6 * min(limits)) if limits else None)

    def _host(self) -> str:
        from distributed.utils import get_ip

        scheduler = self._client.scheduler.address
        return "127.0.0.1" if "://127.0.0.1" in scheduler or scheduler.startswith("inproc") else get_ip()

    def _run(self, task: Callable[[], Any], count: int) -> Any:
        # a task that is lost with its worker is started again elsewhere
        futures = [self._client.submit(_call, task, number, pure=False) for number in range(count)]
        error: BaseException | None = None
        try:
            for future in as_completed(futures):
                if future.status == "finished":
                    # the others end in this moment too: their workers would tell of an error, were they cut off before
                    with suppress(Late):
                        wait(futures, timeout=1)
                    return future.result()
                error = error or future.exception()
        finally:
            self._client.cancel(futures)
        raise error or RuntimeError("the Dask cluster has cancelled the fit")


def _call(task: Callable[[], Any], _: int) -> Any:
    return task()
