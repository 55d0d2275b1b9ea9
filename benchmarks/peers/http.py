"""The barest HTTP client there is, so that the time measured is the server's."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.subject import Answer, Subject

START_TIMEOUT = 120.0


class Connection:
    """One keep-alive connection. `feed` takes what arrived and returns a whole body, or None."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parts: list[bytes] = []
        self._missing = 0

    def ask(self, request: bytes) -> bytes:
        """Send a request and block until its body is there."""
        self.socket.sendall(request)
        while True:
            if (body := self.feed(self.socket.recv(1 << 18))) is not None:
                return body

    def feed(self, data: bytes) -> bytes | None:
        if not data:
            raise ConnectionError("the server closed the connection")
        if not self._missing:
            data = b"".join(self._parts) + data
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._parts = [head]
                return None
            self._missing = _content_length(head)
            self._parts = []
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing:
            return None
        body = b"".join(self._parts)
        self._parts = []
        return body

    def close(self) -> None:
        self.socket.close()


def post(path: str, content: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    """A whole request with a JSON body."""
    headers = {"Content-Type": "application/json", **headers}
    return request("POST", path, json.dumps(content).encode(), headers)


def request(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass(slots=True)
class HttpShell:
    name: str
    connection: Connection
    requests: dict[str, bytes] = field(default_factory=dict)


class BareHttpSubject(Subject[HttpShell]):
    """Shells behind a server, one connection each, asked without any client library."""

    @abstractmethod
    def request(self, shell: HttpShell, command: str, timeout: float) -> bytes: ...

    @abstractmethod
    def parse(self, body: bytes) -> Answer: ...

    async def run(self, shell: HttpShell, command: str, timeout: float) -> Answer:
        return self.parse(shell.connection.ask(self.request(shell, command, timeout)))

    async def open_all(self, count: int) -> list[HttpShell]:
        shells = [await self.open() for _ in range(count)]
        await self.together(shells, "true", 1)
        return shells

    async def together(self, shells: Sequence[HttpShell], command: str, each: int) -> int:
        wrong = 0
        requests = {s.connection.socket.fileno(): self.request(s, command, 60) for s in shells}
        waiting = {s.connection.socket.fileno(): s.connection for s in shells}
        left = dict.fromkeys(waiting, each)
        with select.epoll() as poll:
            for fd, connection in waiting.items():
                poll.register(fd, select.EPOLLIN)
                connection.socket.sendall(requests[fd])
            while waiting:
                for fd, _ in poll.poll():
                    connection = waiting[fd]
                    if (body := connection.feed(connection.socket.recv(1 << 16))) is None:
                        continue
                    answer = self.parse(body)
                    wrong += not answer.is_silent_success
                    left[fd] -= 1
                    if left[fd]:
                        connection.socket.sendall(requests[fd])
                    else:
                        poll.unregister(fd)
                        del waiting[fd]
        return wrong


class ServerProcess:
    """A server started as a command, timed until it answers `GET /alive` with 200."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], port: int) -> None:
        began = time.perf_counter()
        self.port = port
        self._process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL
        )
        self.pid = self._process.pid
        while not _is_alive(port):
            if self._process.poll() is not None:
                status = self._process.returncode
                raise RuntimeError(f"the server ended with {status}; .bench/logs has its words")
            if time.perf_counter() - began > START_TIMEOUT:
                self.stop()
                raise TimeoutError(f"no answer from /alive in {START_TIMEOUT:.0f} s")
            time.sleep(0.001)  # The resolution of the figure: nobody can be told from outside.
        self.seconds = time.perf_counter() - began

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_alive(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET /alive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            return b" 200 " in connection.recv(4096).split(b"\r\n")[0]
    except OSError:
        return False


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ConnectionError(f"an answer without a length: {head[:200]!r}")
