"""What the engines of clusters have in common.

Every worker makes the same fit on the same files and shares the passes over the rows with the others: it claims lots of rows, gives
their sums, and takes the sums of all. The workers meet at the driver, or in a folder that they all see. A worker that is lost costs
what it had claimed; one that comes late takes what is there. The model has the bits that one process finds.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

#: The methods of a place that is called over a connection.
_METHODS = ("create", "replace", "read", "has", "remove", "names", "put", "get")


class Place:
    """Texts and files of sums under names, in a folder of the driver; one call at a time."""

    def __init__(self, folder: str):
        self._folder, self._texts, self._lock = Path(folder), dict[str, bytes](), threading.Lock()

    def create(self, name: str, text: bytes) -> bool:
        return self._texts.setdefault(name, text) is text

    def replace(self, name: str, text: bytes) -> None:
        self._texts[name] = text

    def read(self, name: str) -> bytes | None:
        return self._texts.get(name)

    def has(self, name: str) -> bool:
        return name in self._texts or (self._folder / name).exists()

    def remove(self, name: str) -> None:
        self._texts.pop(name, None)
        (self._folder / name).unlink(missing_ok=True)

    def names(self, _: str) -> list[str]:
        return [*self._texts, *(path.name for path in self._folder.iterdir())]

    def put(self, name: str, content: bytes) -> None:
        (self._folder / name).write_bytes(content)

    def get(self, name: str) -> bytes | None:
        path = self._folder / name
        return path.read_bytes() if path.exists() else None

    def answer(self, connection: Any, key: bytes) -> None:
        """Answers the calls of a worker that has the key until it has gone."""
        try:
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
            while True:
                method, *arguments = connection.recv()
                with self._lock:
                    connection.send(getattr(self, method)(*arguments) if method in _METHODS else None)
        except (EOFError, OSError, AuthenticationError):
            connection.close()


def _at_once(connection: Any) -> Any:
    """A connection that sends each part of a message at once: otherwise a long one waits 40 ms for the receipt of its length."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Server:
    """Serves a place to workers, in threads of the driver, for as long as it is open."""

    def __init__(self, host: str):
        self._folder = tempfile.TemporaryDirectory(prefix="kmill-states-")
        self._listener, self._key, self._open = Listener((host, 0), backlog=64), secrets.token_bytes(32), True
        self._place, self._connections = Place(self._folder.name), list[Any]()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._open:
            try:
                connection = _at_once(self._listener.accept())
            except OSError:
                continue  # a worker that went before it was heard, or the end
            self._connections.append(connection)
            # a caller without the key, or one that says nothing, keeps no other waiting
            threading.Thread(target=self._place.answer, args=(connection, self._key), daemon=True).start()

    def __enter__(self) -> RemotePlace:
        return RemotePlace(self._listener.address, self._key)

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._listener.close()
        # workers that are still at it hear that nobody waits for them
        for connection in self._connections:
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
        self._folder.cleanup()


class RemotePlace:
    """The place of a driver as a worker sees it; can be sent to workers."""

    def __init__(self, address: tuple[str, int], key: bytes):
        self._address, self._key = address, key
        self._lock = threading.Lock()
        self._connection: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_address": self._address, "_key": self._key}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_address"], state["_key"])  # type: ignore[misc]

    def __str__(self) -> str:
        return "the driver at {}:{}".format(*self._address)

    def __getattr__(self, method: str) -> Any:
        if method not in _METHODS:
            raise AttributeError(method)
        return partial(self._call, method)

    def _call(self, *call: Any) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = _at_once(Client(self._address, authkey=self._key))
            self._connection.send(call)
            return self._connection.recv()


def work(estimator: Any, paths: list[str], asked: dict[str, Any], states: Any, patience: float, threads: int | None) -> Any:
    """What every worker does: the whole fit, with shared passes. Returns the fitted estimator."""
    if threads is not None and getattr(estimator, "n_jobs", None) is None and "n_jobs" in estimator.get_params():
        estimator.set_params(n_jobs=threads)
    return estimator.fit_files(paths, **asked, states=states, patience=patience)


class Engine:
    """A cluster that makes fits. See :mod:`kmill.dask`, :mod:`kmill.ray` and :mod:`kmill.spark`."""

    def __init__(self, workers: int | None = None, threads: int | None = None, memory: int | str | None = None,
                 states: str | os.PathLike[str] | None = None, host: str | None = None):
        self.workers, self.threads, self.memory, self.states, self.host = workers, threads, memory, states, host

    def fit(self, estimator: Any, paths: list[str], asked: dict[str, Any], patience: float) -> Any:
        """Returns the estimator, fitted on files by the workers."""
        asked = {**asked, "memory": asked["memory"] if asked["memory"] is not None else self._memory(estimator)}
        make = partial(work, estimator, paths, asked, patience=patience, threads=self._threads())
        if self.states is not None:
            fitted = self._run(partial(make, states=os.fspath(self.states)), self._workers())
        else:
            with Server(self.host or self._host()) as place:
                fitted = self._run(partial(make, states=place), self._workers())
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
