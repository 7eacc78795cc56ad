"""Fits by several processes, which share a folder or a local cluster, are bit-identical to fits by one process.

Dask is tested if it is installed; ``KMILL_CLUSTERS=ray,spark`` selects other clusters, as ``scripts/cluster`` does.
"""

import multiprocessing
import os
import pickle
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

import kmill
from kmill import _place
from kmill._place import Channel, Place, Server

CLUSTERS = os.environ.get("KMILL_CLUSTERS", "dask").split(",")
SHARED = {"kernel": "gaussian(sigma=2)", "scale": "standard", "random_state": 0}
FITS = {
    "ridge": (kmill.KernelRidge(ranks=[20, 50], lambdas=[1e-6, 1e-3], cv=3, **SHARED), "y"),
    "kpca": (kmill.KernelPCA(n_components=3, rank=50, **SHARED), None),
    "svm": (kmill.SVC(rank=40, **SHARED), "c"),
    "logistic": (kmill.KernelLogisticRegression(rank=40, **SHARED), "c"),
    "kmeans": (kmill.KernelKMeans(n_clusters=3, rank=40, **SHARED), None),
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


def process_ids(pattern):
    """Returns the IDs of the processes whose command line contains a text."""
    lines = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if pattern in line]


def ray_cluster(workers):
    ray = pytest.importorskip("ray")
    import kmill.ray

    ray.init(num_cpus=workers, log_to_driver=False)
    yield kmill.ray.Engine(workers), lambda: process_ids("ray::run_task")
    ray.shutdown()


def spark_cluster(workers):
    pyspark = pytest.importorskip("pyspark.sql")
    import kmill.spark

    session = pyspark.SparkSession.builder.master(f"local-cluster[{workers},1,1024]").config("spark.ui.enabled", "false")
    session = session.config("spark.executorEnv.PYTHONPATH", ":".join(sys.path)).getOrCreate()
    yield kmill.spark.Engine(session, workers), lambda: process_ids("CoarseGrainedExecutorBackend")
    session.stop()


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request):
    yield from {"dask": dask_cluster, "ray": ray_cluster, "spark": spark_cluster}[request.param](2)


@pytest.mark.parametrize("name", FITS)
def test_a_cluster_fit_is_bit_identical_to_one_process(name, rows, cluster, tmp_path):
    start = time.time()
    one = saved(fitted(name, rows), tmp_path)
    between = time.time()
    model = fitted(name, rows, engine=cluster[0])
    print(f"{name}: one process {between - start:.2f} s, two workers {time.time() - between:.2f} s")
    assert saved(model, tmp_path) == one
    # the parameters of the caller are unchanged, although each worker sets its own n_jobs
    assert str(model.get_params()) == str(clone(FITS[name][0]).get_params())


def test_a_killed_worker_does_not_change_the_model(rows, cluster, tmp_path):
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


def test_errors_of_workers_are_raised(rows, cluster):
    with pytest.raises(Exception, match="budget|memory"):
        fitted("ridge", rows, engine=cluster[0], memory="1MiB")
    with pytest.raises(Exception, match="no such file|not.*found"):
        fitted("ridge", rows + "/nothing.parquet", engine=cluster[0])


def _process(rows, states, folder, name):
    saved(fitted("ridge", rows, states=states), folder, name)


def test_processes_share_a_folder(rows, tmp_path):
    context = multiprocessing.get_context("spawn")
    start = [context.Process(target=_process, args=(rows, tmp_path / "states", tmp_path, name)) for name in "ab"]
    for process in start:
        process.start()
    for process in start:
        process.join()
    one = saved(fitted("ridge", rows), tmp_path)
    assert (tmp_path / "a").read_bytes() == one == (tmp_path / "b").read_bytes()
    assert list((tmp_path / "states").iterdir()) == []


def test_other_files_in_the_folder_are_kept(rows, tmp_path):
    states = tmp_path / "states"
    (states / "photographs").mkdir(parents=True)
    (states / "link").symlink_to("nowhere")
    # files of another job, and unrelated files
    kept = ["0123456789abcdef-job", "job", "000001.total", "thesis.tex"]
    for name in kept:
        (states / name).write_text('{"version": "0.0.1", "instruction_set": "", "options": {}, "files": []}')
    assert saved(fitted("ridge", rows, states=states), tmp_path) == saved(fitted("ridge", rows), tmp_path)
    assert sorted(path.name for path in states.iterdir()) == sorted([*kept, "link", "photographs"])


@pytest.fixture
def remote(capfd):
    """Yields the place of an open server, and checks that no server thread raised an exception."""
    with Server("127.0.0.1", 1) as place:
        yield place
    assert "Traceback" not in capfd.readouterr().err


def connect(remote, key=None):
    """Returns an authenticated connection."""
    channel = Channel(socket.create_connection(remote._address, 5))
    channel.authenticate(remote._key if key is None else key, driver=False)
    return channel


def call_raw(channel, call, content=b""):
    channel.send(call, content)
    return channel.receive()


def test_a_place_answers_only_with_the_key(remote):
    assert remote.create("a", b"1") and not remote.create("a", b"2")
    remote.put("b", b"sums")
    assert (remote.get("b"), remote.get("c"), sorted(remote.names(""))) == (b"sums", None, ["a", "b"])
    assert (remote.has("b"), remote.remove("b"), remote.has("b")) == (True, None, False)
    # pickling sends the place to a worker on another machine
    assert pickle.loads(pickle.dumps(remote)).read("a") == b"1"
    with pytest.raises(OSError, match="the driver at 127.0.0.1:.* cannot be reached"):
        type(remote)(remote._address, b"0" * 32).read("a")
    assert remote.read("a") == b"1"


def test_a_worker_gets_an_error_after_the_driver_ended():
    with Server("127.0.0.1", 1) as remote:
        remote.replace("a", b"1")
    for _ in range(2):
        with pytest.raises(OSError, match="cannot be reached"):
            remote.read("a")


@pytest.mark.parametrize("name", ["/etc/hostname", "../outside", "a/b", "a\\b", ".", "..", "", "a b", "a\n", "é", "a\0", "a" * 256])
def test_paths_are_rejected_as_names(remote, name, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    for place in (remote, Place(str(tmp_path / "states"))):
        for method in ("create", "replace", "put"):
            with pytest.raises(ValueError, match="is invalid: a name of letters, digits, '-' and '.' was expected"):
                place.call(method, name, b"x") if isinstance(place, Place) else getattr(place, method)(name, b"x")
        for method in ("read", "has", "remove", "get"):
            with pytest.raises(ValueError, match="is invalid: a name of letters, digits, '-' and '.' was expected"):
                place.call(method, name) if isinstance(place, Place) else getattr(place, method)(name)
    assert outside.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [outside] and remote.names("") == []


@pytest.mark.parametrize("call", ["", "exec a", "__init__ a", "call a", "create", "_folder", "get \x00", "answer a"])
def test_invalid_calls_get_a_one_line_message(remote, call):
    channel = connect(remote)
    kind, sentence = call_raw(channel, call, b"x")
    assert kind == "refused" and b"was expected" in sentence and b"\n" not in sentence and b"Traceback" not in sentence
    # the connection still answers the next call
    assert call_raw(channel, "has a") == ("False", b"")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_invalid_messages_close_the_connection(remote, tmp_path):
    code = b"\0" * 32
    for bytes_sent in [
        b"GET / HTTP/1.0\r\n\r\n",
        pickle.dumps(Evil(tmp_path / "ran")),
        b"n" * 32 + struct.pack(">HQ", 5, 1 << 62),  # a length that would exhaust the memory
        b"n" * 32 + struct.pack(">HQ", 0, 0) + code,  # a code made without the key
        b"n" * 32 + struct.pack(">HQ", 8, 0) + b"remove a" + code,
    ]:
        with socket.create_connection(remote._address, 5) as end:
            assert len(end.recv(32)) == 32
            end.sendall(bytes_sent)
            with suppress(ConnectionResetError):
                end.shutdown(socket.SHUT_WR)
                while end.recv(100):
                    pass
    # authenticated, then a message that is too long, or that has an invalid code
    for spoil in (lambda parts: [struct.pack(">HQ", 5, 1 << 62)], lambda parts: [*parts[:-1], code], lambda parts: [parts[0], b"xxx", *parts[2:]]):
        channel = connect(remote)
        parts = []
        file, channel._file = channel._file, SimpleNamespace(write=parts.append, flush=lambda: None)
        channel.send("put", b"x")
        channel._file = file
        file.write(b"".join(spoil(parts)))
        file.flush()
        with pytest.raises(OSError, match="closed|reset"):
            channel.receive()
    assert remote.names("") == [] and list(tmp_path.iterdir()) == []


def test_replayed_messages_are_rejected(remote):
    sent = []

    def recorded():
        channel = connect(remote)
        file = channel._file
        channel._file = SimpleNamespace(write=lambda part: sent.append(part) or file.write(part), flush=file.flush, read=file.read)
        return channel

    channel = recorded()
    assert call_raw(channel, "create a", b"1") == ("True", b"")
    message, sent[:] = b"".join(sent), []
    channel._file.write(message)
    channel._file.flush()
    with pytest.raises(OSError):
        channel.receive()
    # another connection rejects it too
    channel = connect(remote)
    channel._file.write(message)
    channel._file.flush()
    with pytest.raises(OSError):
        channel.receive()
    # the worker's message did not change the place
    assert remote.read("a") == b"1"


def until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def test_the_number_of_connections_is_bounded(monkeypatch):
    # unauthenticated connections do not time out while they are counted, however slow the machine is
    monkeypatch.setattr(_place, "AUTH_TIMEOUT", 3600.0)
    server = Server("127.0.0.1", 1)
    with server as remote:
        assert remote.create("a", b"1")
        unauthenticated = [socket.create_connection(remote._address, 5) for _ in range(2 * server._max_connections)]
        assert until(lambda: len(server._connections) == server._max_connections)
        monkeypatch.setattr(_place, "AUTH_TIMEOUT", 0.1)
        server._connections.update({end: 0.0 for end, until in server._connections.items() if until < float("inf")})
        # a worker connects once unauthenticated connections have timed out; authenticated ones stay open
        assert connect(remote) is not None and remote.read("a") == b"1"
        assert len(server._connections) <= server._max_connections
        for end in unauthenticated:
            end.close()
        assert until(lambda: len(server._connections) == 1)
        for _ in range(100):
            connect(remote).close()
        assert until(lambda: len(server._connections) == 1)
    assert until(lambda: not server._connections)
