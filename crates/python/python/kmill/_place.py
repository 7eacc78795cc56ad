"""The store on the driver through which the workers of a cluster exchange sums, and the TCP server through which they reach it.

A message has the lengths of a short text and of its content, the text, the content, and a message authentication code (HMAC-SHA256). The
code also covers the number of the message and the nonces of both ends: without the key nobody can create, change, omit or replay a message.
Data from the port is never interpreted as code, as a pickle or as a path.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

#: The methods of a place that workers may call.
METHODS = ("create", "replace", "read", "has", "remove", "names", "put", "get")

#: Maximum size of the text and of the content of a message, in bytes: the sums of 20,000 features in float64 take 3.2 GB.
MAX_TEXT, MAX_CONTENT = 1 << 12, 1 << 33

#: Seconds in which a connection must prove that it has the key, and in which a driver must accept a connection.
AUTH_TIMEOUT, CONNECT_TIMEOUT = 10.0, 60.0

#: Connections in addition to one for each worker: for restarted workers, and for connections without the key.
SPARE_CONNECTIONS = 32

_LENGTHS = struct.Struct(">HQ")
_NONCE = _CODE = 32


class Place:
    """A store of texts and files by name, in a folder of the driver; calls are serialised by a lock."""

    def __init__(self, folder: str):
        self._folder, self._texts, self._lock = Path(folder), dict[str, bytes](), threading.Lock()

    def call(self, method: str, name: str = "", content: bytes = b"") -> Any:
        """Calls a method and returns its result.

        Raises ValueError for an unknown method or an invalid name.
        """
        if method != "names" and (not re.fullmatch(r"[A-Za-z0-9.-]{1,255}", name) or name in (".", "..")):
            raise ValueError(f"the name {name[:60]!r} is invalid: a name of letters, digits, '-' and '.' was expected")
        path = self._folder / name
        with self._lock:
            match method:
                case "create":
                    return self._texts.setdefault(name, content) is content
                case "replace":
                    self._texts[name] = content
                case "read":
                    return self._texts.get(name)
                case "has":
                    return name in self._texts or path.exists()
                case "remove":
                    self._texts.pop(name, None)
                    path.unlink(missing_ok=True)
                case "names":
                    return [*self._texts, *(path.name for path in self._folder.iterdir())]
                case "put":
                    path.write_bytes(content)
                case "get":
                    return path.read_bytes() if path.exists() else None
                case _:
                    raise ValueError(f"the method {method[:60]!r} is unknown: one of {', '.join(METHODS)} was expected")

    def answer(self, call: str, content: bytes) -> tuple[str, bytes]:
        """Returns the answer to a call, as the text and the content of a message."""
        method, _, name = call.partition(" ")
        try:
            value = self.call(method, name, content)
        except OSError as error:
            return "refused", f"the driver cannot {method} {name}: {error.strerror}".encode()
        except ValueError as error:
            return "refused", str(error).encode()
        if isinstance(value, list):
            return "names", "\n".join(value).encode()
        return ("bytes", value) if isinstance(value, bytes) else (str(value), b"")


#: Decoders of the content of an answer, by its text.
_VALUES: dict[str, Callable[[bytes], Any]] = {
    "None": lambda _: None,
    "True": lambda _: True,
    "False": lambda _: False,
    "bytes": lambda content: content,
    "names": lambda content: content.decode().split("\n") if content else [],
}


class Channel:
    """An authenticated connection. Every failure raises OSError, after which the connection must be closed."""

    def __init__(self, end: socket.socket):
        # with Nagle's algorithm a part of a message waits 40 ms for the acknowledgement of the previous part
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._end, self._file = end, end.makefile("rwb")
        self._keys, self._numbers = [b"", b""], [0, 0]

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
        self._end.close()

    def authenticate(self, key: bytes, driver: bool) -> None:
        """Exchanges nonces, derives the keys of both directions, and verifies that the other end has the key."""
        ours = secrets.token_bytes(_NONCE)
        self._file.write(ours)
        self._file.flush()
        theirs = self._bytes(_NONCE)
        both = ours + theirs if driver else theirs + ours
        keys = [hmac.digest(key, role + both, "sha256") for role in (b"driver", b"worker")]
        self._keys = keys if driver else keys[::-1]
        self.send("")
        self.receive(0, 0)

    def _bytes(self, count: int) -> bytes:
        content = self._file.read(count)
        if len(content) < count:
            raise ConnectionError("the connection was closed")
        return content

    def _code(self, end: int, *parts: bytes) -> bytes:
        """Returns the authentication code of the next message of an end: 0 is this end, 1 the other end."""
        code = hmac.new(self._keys[end], struct.pack(">Q", self._numbers[end]), "sha256")
        self._numbers[end] += 1
        for part in parts:
            code.update(part)
        return code.digest()

    def send(self, text: str, content: bytes = b"") -> None:
        parts = _LENGTHS.pack(len(text.encode()), len(content)), text.encode(), content
        for part in (*parts, self._code(0, *parts)):
            self._file.write(part)
        self._file.flush()

    def receive(self, longest: int = MAX_TEXT, most: int = MAX_CONTENT) -> tuple[str, bytes]:
        lengths = self._bytes(_LENGTHS.size)
        text_size, content_size = _LENGTHS.unpack(lengths)
        if text_size > longest or content_size > most:
            raise ConnectionError(f"a message of {text_size} and {content_size} bytes exceeds the limits of {longest} and {most} bytes")
        text, content = self._bytes(text_size), self._bytes(content_size)
        if not hmac.compare_digest(self._code(1, lengths, text, content), self._bytes(_CODE)):
            raise ConnectionError("a message has an invalid authentication code: it was not sent with the key of this driver, or was replayed")
        return text.decode(errors="replace"), content


class Server:
    """A context manager that serves a place to workers, in threads of the driver."""

    def __init__(self, host: str, workers: int):
        self._folder = tempfile.TemporaryDirectory(prefix="kmill-states-")
        self._place, self._key, self._max_connections = Place(self._folder.name), secrets.token_bytes(32), workers + SPARE_CONNECTIONS
        self._listener = socket.create_server((host, 0), backlog=64)
        self._listener.settimeout(0.2)
        # the connections, each with the time at which it is closed if it is not yet authenticated
        self._connections: dict[socket.socket, float] = {}
        self._open = True
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._open:
            now = time.monotonic()
            self._shut_down([end for end, until in list(self._connections.items()) if until < now])
            # at the limit, new connections wait until an unauthenticated one has timed out
            if len(self._connections) < self._max_connections:
                with suppress(OSError):
                    end, _ = self._listener.accept()
                    self._connections[end] = now + AUTH_TIMEOUT
                    # a thread for each connection, so that a silent one does not block the others
                    threading.Thread(target=self._answer, args=(end,), daemon=True).start()
                    continue
            time.sleep(0.02)

    def _answer(self, end: socket.socket) -> None:
        """Authenticates a worker, and answers its calls until it disconnects."""
        with suppress(OSError, MemoryError), end, closing(Channel(end)) as channel:
            channel.authenticate(self._key, driver=True)
            self._connections[end] = float("inf")
            while True:
                channel.send(*self._place.answer(*channel.receive()))
        del self._connections[end]

    def _shut_down(self, ends: list[socket.socket]) -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> RemotePlace:
        return RemotePlace(self._listener.getsockname()[:2], self._key)

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._listener.close()
        # workers that are still running then get an error
        self._shut_down(list(self._connections))
        self._folder.cleanup()


class RemotePlace:
    """A proxy of the driver's place for workers. It can be pickled."""

    def __init__(self, address: tuple[str, int], key: bytes):
        self._address, self._key = address, key
        self._lock = threading.Lock()
        self._channel: Channel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_address": self._address, "_key": self._key}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_address"], state["_key"])  # type: ignore[misc]

    def __str__(self) -> str:
        return "the driver at {}:{}".format(*self._address)

    def __getattr__(self, method: str) -> Any:
        if method not in METHODS:
            raise AttributeError(method)
        return partial(self._call, method)

    def _call(self, method: str, name: str, content: bytes = b"") -> Any:
        with self._lock:
            try:
                if self._channel is None:
                    end = socket.create_connection(self._address, CONNECT_TIMEOUT)
                    self._channel = Channel(end)
                    self._channel.authenticate(self._key, driver=False)
                    end.settimeout(None)
                self._channel.send(f"{method} {name}", content)
                kind, content = self._channel.receive()
            except OSError as error:
                if self._channel is not None:
                    self._channel.close()
                self._channel = None
                raise ConnectionError(f"{self} cannot be reached: {error}") from None
        if kind not in _VALUES:
            raise ValueError(content.decode(errors="replace"))
        return _VALUES[kind](content)
