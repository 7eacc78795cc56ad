"""Fits on a Spark cluster: ``KernelRidge().fit_files("rows/*.parquet", "y", engine=kmill.spark.Engine(session, workers=4))``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from . import _cluster


class Engine(_cluster.Engine):
    """Tasks of a Spark cluster.

    Each task makes the whole fit and shares the passes over the rows with the others, so every executor must see the files under the
    same paths and have the package. The model has the bits that one process finds, also where executors die meanwhile.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session.
    workers : int, optional
        Tasks that take part. None is ``spark.sparkContext.defaultParallelism``.
    threads : int, optional
        Threads of each. None is ``spark.task.cpus``.
    memory : int or str, optional
        Memory budget of each. It is no part of the Java heap: leave room for it by ``spark.executor.memoryOverhead``.
    states : path, optional
        A folder that all executors see, in which they meet; a fit that was broken off goes on from there. None is the driver.
    host : str, optional
        The address of the driver that executors reach. None is ``spark.driver.host``.
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
            # all have the same model
            yield fitted if number == 0 else None

        found = self._context.parallelize(range(count), count).mapPartitionsWithIndex(part).collect()
        return next(fitted for fitted in found if fitted is not None)
