"""Fits on a Ray cluster: ``KernelRidge().fit_files("rows/*.parquet", "y", engine=kmill.ray.Engine(workers=4))``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray

from . import _cluster


class Engine(_cluster.Engine):
    """Tasks of a Ray cluster, to which :func:`ray.init` has connected.

    Each task makes the whole fit and shares the passes over the rows with the others, so every node must see the files under the same
    paths and have the package. The model has the bits that one process finds, also where workers die meanwhile.

    Parameters
    ----------
    workers : int, optional
        Tasks that take part. None is as many as the processors of the cluster allow.
    threads : int
        Processors and threads of each.
    memory : int or str, optional
        Memory budget of each. Without it a worker may take half of its machine.
    states : path, optional
        A folder that all workers see, in which they meet; a fit that was broken off goes on from there. None is this process,
        which the workers must reach.
    host : str, optional
        The address of this process that workers reach. None is that of its Ray node.
    """

    def __init__(self, workers: int | None = None, threads: int = 1, **run: Any):
        super().__init__(workers, threads, **run)

    def _workers(self) -> int:
        return self.workers or max(1, int(ray.cluster_resources().get("CPU", 1) // (self.threads or 1)))

    def _host(self) -> str:
        return ray.util.get_node_ip_address()

    def _run(self, task: Callable[[], Any], count: int) -> Any:
        remote = ray.remote(num_cpus=self.threads, max_retries=3)(_call)
        left = [remote.remote(task) for _ in range(count)]
        error: BaseException | None = None
        while left:
            done, left = ray.wait(left, num_returns=1)
            try:
                fitted = ray.get(done[0])
            except Exception as failed:  # noqa: BLE001 - another task may succeed; the first error is raised where none does
                error = error or failed
                continue
            for other in left:
                ray.cancel(other, force=True)
            return fitted
        raise error or RuntimeError("the Ray cluster has run no task")


def _call(task: Callable[[], Any]) -> Any:
    return task()
