"""An engine that runs fits on a Dask cluster: ``KernelRidge().fit_files("rows/*.parquet", "y", engine=kmill.dask.Engine(client))``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dask.distributed import Client, as_completed, wait
from dask.distributed import TimeoutError as WaitTimeout

from . import _cluster


class Engine(_cluster.Engine):
    """An engine that runs a fit on the workers of a Dask cluster.

    Each worker runs the whole fit and shares the passes over the rows with the others, so every worker must find the files under the same
    paths and have kmill installed. The model is bit-identical to that of one process, for any number of workers, and also if workers die
    during the fit.

    Parameters
    ----------
    client : dask.distributed.Client
        The client of the cluster.
    workers : int, optional
        Number of workers to use. None is all workers.
    threads : int, optional
        Threads per worker. None is the smallest number of threads that Dask assigns to a worker.
    memory : int or str, optional
        Memory budget per worker. None is 0.6 of the smallest memory limit of a worker.
    states : path, optional
        A folder that all workers can access, through which they exchange sums; an interrupted fit continues from it. None uses the process
        of the client, which the workers must be able to reach.
    host : str, optional
        The address of the client for the workers. None is the address by which the client reaches the scheduler.
    """

    def __init__(self, client: Client, workers: int | None = None, **run: Any):
        super().__init__(workers, **run)
        self._client = client

    def _worker_info(self) -> list[dict[str, Any]]:
        workers = list(self._client.scheduler_info(n_workers=-1)["workers"].values())
        if not workers:
            raise RuntimeError("the Dask cluster has no workers yet; call client.wait_for_workers(n) first")
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
        # Dask restarts a task on another worker if its worker is lost
        futures = [self._client.submit(_call, task, number, pure=False) for number in range(count)]
        error: BaseException | None = None
        try:
            for future in as_completed(futures):
                if future.status == "finished":
                    # the other tasks are about to end; their workers would log an error if they were cancelled now
                    with suppress(WaitTimeout):
                        wait(futures, timeout=1)
                    return future.result()
                error = error or future.exception()
        finally:
            self._client.cancel(futures)
        raise error or RuntimeError("the Dask cluster cancelled the fit; see the log of its scheduler")


def _call(task: Callable[[], Any], _: int) -> Any:
    return task()
