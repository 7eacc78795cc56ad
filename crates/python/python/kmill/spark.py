"""An engine that runs fits on a Spark cluster: ``KernelRidge().fit_files("rows/*.parquet", "y", engine=kmill.spark.Engine(session, workers=4))``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from . import _cluster


class Engine(_cluster.Engine):
    """An engine that runs a fit as tasks of a Spark cluster.

    Each task runs the whole fit and shares the passes over the rows with the others, so every executor must find the files under the same
    paths and have kmill installed. The model is bit-identical to that of one process, also if executors die during the fit.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session of the cluster.
    workers : int, optional
        Number of tasks. None is ``spark.sparkContext.defaultParallelism``.
    threads : int, optional
        Threads per task. None is ``spark.task.cpus``.
    memory : int or str, optional
        Memory budget per task. It is outside the Java heap: reserve it with ``spark.executor.memoryOverhead``. None is half of the memory
        of the machine.
    states : path, optional
        A folder that all executors can access, through which they exchange sums; an interrupted fit continues from it. None uses the
        driver.
    host : str, optional
        The address of the driver for the executors. None is ``spark.driver.host``.
    """

    def __init__(self, session: SparkSession, workers: int | None = None, **run: Any):
        super().__init__(workers, **run)
        self._context = session.sparkContext

    def _workers(self) -> int:
        return self.workers or self._context.defaultParallelism

    def _threads(self) -> int | None:
        return self.threads or int(self._context.getConf().get("spark.task.cpus", "1"))

    def _host(self) -> str:
        return self._context.getConf().get("spark.driver.host") or super()._host()

    def _run(self, task: Callable[[], Any], count: int) -> Any:
        def part(number: int, _: Iterator[int]) -> Iterator[Any]:
            fitted = task()
            # all tasks have the same model, so one is enough
            yield fitted if number == 0 else None

        results = self._context.parallelize(range(count), count).mapPartitionsWithIndex(part).collect()
        return next(fitted for fitted in results if fitted is not None)
