"""Fits by several processes: in a folder, and on clusters of this machine, with the bytes of one process.

Dask is tried where it is installed; ``KMILL_CLUSTERS=ray,spark`` tries others, as ``scripts/cluster`` does.
"""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

import kmill
from kmill._cluster import Place, Server

CLUSTERS = os.environ.get("KMILL_CLUSTERS", "dask").split(",")
USUAL = {"kernel": "gaussian(sigma=2)", "scale": "standard", "random_state": 0}
FITS = {
    "ridge": (kmill.KernelRidge(ranks=[20, 50], lambdas=[1e-6, 1e-3], cv=3, **USUAL), "y"),
    "kpca": (kmill.KernelPCA(n_components=3, rank=50, **USUAL), None),
    "svm": (kmill.SVC(rank=40, **USUAL), "c"),
    "logistic": (kmill.KernelLogisticRegression(rank=40, **USUAL), "c"),
    "kmeans": (kmill.KernelKMeans(n_clusters=3, rank=40, **USUAL), None),
    "metric": (kmill.KernelRidge(kernel="gaussian", metric="diagonal", rank=40, random_state=0), "y"),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A table of several segments, in two files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("rows")
    draw = np.random.default_rng(0)
    for part in range(2):
        x = draw.uniform(size=(60_000, 4))
        y = np.sin(6 * x[:, 0]) + x[:, 1] * x[:, 2]
        columns = {f"x{j}": x[:, j] for j in range(4)} | {"y": y, "c": np.where(y > 0.4, "high", "low")}
        pq.write_table(pa.table(columns), folder / f"{part}.parquet")
    return str(folder)


def fitted(name, rows, **more):
    estimator, target = FITS[name]
    return clone(estimator).fit_files(rows, target, features=["x*"], **more)


def saved(model, folder, name="m"):
    model.save(folder / name)
    return (folder / name).read_bytes()


def dask_cluster(workers):
    distributed = pytest.importorskip("dask.distributed")
    import kmill.dask

    cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    client = distributed.Client(cluster)
    yield kmill.dask.Engine(client), lambda: [worker.pid for worker in cluster.workers.values()]
    client.close()
    cluster.close()


def of_this_machine(pattern):
    """The numbers of processes whose command line holds a text."""
    lines = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if pattern in line]


def ray_cluster(workers):
    ray = pytest.importorskip("ray")
    import kmill.ray

    ray.init(num_cpus=workers, log_to_driver=False)
    yield kmill.ray.Engine(workers), lambda: of_this_machine("ray::task_of")
    ray.shutdown()


def spark_cluster(workers):
    pyspark = pytest.importorskip("pyspark.sql")
    import kmill.spark

    session = pyspark.SparkSession.builder.master(f"local-cluster[{workers},1,1024]").config("spark.ui.enabled", "false")
    session = session.config("spark.executorEnv.PYTHONPATH", ":".join(sys.path)).getOrCreate()
    yield kmill.spark.Engine(session, workers), lambda: of_this_machine("CoarseGrainedExecutorBackend")
    session.stop()


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request):
    yield from {"dask": dask_cluster, "ray": ray_cluster, "spark": spark_cluster}[request.param](2)


@pytest.mark.parametrize("name", FITS)
def test_a_cluster_finds_the_bytes_of_one_process(name, rows, cluster, tmp_path):
    start = time.time()
    one = saved(fitted(name, rows), tmp_path)
    between = time.time()
    model = fitted(name, rows, engine=cluster[0])
    print(f"{name}: one process {between - start:.2f} s, two workers {time.time() - between:.2f} s")
    assert saved(model, tmp_path) == one
    # what the caller asked for is as it was: the threads of a worker are no parameter of the estimator
    assert str(model.get_params()) == str(clone(FITS[name][0]).get_params())


def test_a_worker_that_is_killed_costs_time_only(rows, cluster, tmp_path):
    engine, workers = cluster
    one = saved(fitted("ridge", rows), tmp_path)
    for _ in range(int(os.environ.get("KMILL_KILLS", "1"))):
        killed = []

        def kill(killed=killed):
            time.sleep(random.uniform(0.2, 1.0))
            alive = workers()
            if alive:
                killed.append(random.choice(alive))
                os.kill(killed[0], signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        model = fitted("ridge", rows, engine=engine, patience=3.0)
        thread.join()
        print("killed", killed)
        assert saved(model, tmp_path) == one


def test_an_error_of_the_workers_is_raised(rows, cluster):
    with pytest.raises(Exception, match="budget|memory"):
        fitted("ridge", rows, engine=cluster[0], memory="1MiB")
    with pytest.raises(Exception, match="no such file|not.*found"):
        fitted("ridge", rows + "/nothing.parquet", engine=cluster[0])


def _process(rows, states, folder, name):
    saved(fitted("ridge", rows, states=states), folder, name)


def test_processes_meet_in_a_folder(rows, tmp_path):
    context = multiprocessing.get_context("spawn")
    start = [context.Process(target=_process, args=(rows, tmp_path / "states", tmp_path, name)) for name in "ab"]
    for process in start:
        process.start()
    for process in start:
        process.join()
    one = saved(fitted("ridge", rows), tmp_path)
    assert (tmp_path / "a").read_bytes() == one == (tmp_path / "b").read_bytes()
    assert list((tmp_path / "states").iterdir()) == []


def test_another_job_in_the_folder_is_refused(rows, tmp_path):
    (tmp_path / "states").mkdir()
    # what a process of another job would leave
    place = tmp_path / "states" / "job"
    place.write_text('{"version": "0.0.1", "instruction_set": "", "options": {}, "files": []}')
    with pytest.raises(ValueError, match="another job: it was written by version 0.0.1"):
        fitted("ridge", rows, states=tmp_path / "states")


def test_a_place_answers_who_has_its_key_only(tmp_path):
    place = Place(str(tmp_path))
    assert (place.create("a", b"1"), place.create("a", b"2"), place.read("a")) == (True, False, b"1")
    with Server("127.0.0.1") as remote:
        assert remote.create("a", b"1") and not remote.create("a", b"2")
        remote.put("b", b"sums")
        assert (remote.get("b"), remote.get("c"), sorted(remote.names(""))) == (b"sums", None, ["a", "b"])
        stranger = type(remote)(remote._address, b"0" * 32)
        with pytest.raises((multiprocessing.AuthenticationError, EOFError, OSError)):
            stranger.read("a")
        assert remote.read("a") == b"1"
    with pytest.raises((EOFError, OSError)):
        remote.read("a")
