"""An engine that runs fits on a Ray cluster: ``KernelRidge().fit_files("rows/*.parquet", "y", engine=kmill.ray.Engine(workers=4))``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray

from . import _cluster


class Engine(_cluster.Engine):
    """An engine that runs a fit as tasks of a Ray cluster, to which :func:`ray.init` has connected.

    Each task runs the whole fit and shares the passes over the rows with the others, so every node must find the files under the same
    paths and have kmill installed. The model is bit-identical to that of one process, also if workers die during the fit.

    Parameters
    ----------
    workers : int, optional
        Number of tasks. None is the number of processors of the cluster divided by ``threads``.
    threads : int, default=1
        Processors and threads per task.
    memory : int or str, optional
        Memory budget per task. None is half of the memory of its machine.
    states : path, optional
        A folder that all workers can access, through which they exchange sums; an interrupted fit continues from it. None uses this
        process, which the workers must be able to reach.
    host : str, optional
        The address of this process for the workers. None is the address of its Ray node.
    """

    def __init__(self, workers: int | None = None, threads: int = 1, **run: Any):
        super().__init__(workers, threads, **run)

    def _workers(self) -> int:
        return self.workers or max(1, int(ray.cluster_resources().get("CPU", 1) // (self.threads or 1)))

    def _host(self) -> str:
        return ray.util.get_node_ip_address()

    def _run(self, task: Callable[[], Any], count: int) -> Any:
        remote = ray.remote(num_cpus=self.threads, max_retries=3)(run_task)
        pending = [remote.remote(task) for _ in range(count)]
        error: BaseException | None = None
        while pending:
            done, pending = ray.wait(pending, num_returns=1)
            try:
                fitted = ray.get(done[0])
            except Exception as failure:  # noqa: BLE001 - another task may succeed; if none does, the first error is raised
                error = error or failure
                continue
            for other in pending:
                ray.cancel(other, force=True)
            return fitted
        raise error or RuntimeError("the Ray cluster ran no task; set workers to 1 or more")


def run_task(task: Callable[[], Any]) -> Any:
    return task()
