"""Ours over HTTP: the action server in a process of its own, asked by `RemoteRuntime` or barely."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import sys

import uvloop

import bascule
from bascule.runtime.remote import RemoteRuntime
from benchmarks.peers.http import (
    BareHttpSubject,
    Connection,
    HttpShell,
    ServerProcess,
    free_port,
    post,
    request,
)
from benchmarks.peers.serve import serve
from benchmarks.peers.subject import Answer, Cells, Files, Server, Subject


class Launched(Server):
    """The server part that both clients share."""

    starts_with_first_command = True

    def __init__(self) -> None:
        self._key = secrets.token_hex(16)
        self._names = map("shell-{}".format, itertools.count())
        self._running: ServerProcess | None = None
        self._extra: ServerProcess | None = None

    def versions(self) -> dict[str, str]:
        return {"bascule": bascule.__version__}

    @property
    def server_pid(self) -> int | None:
        return None if self._running is None else self._running.pid

    @property
    def port(self) -> int:
        assert self._running is not None
        return self._running.port

    async def start_server(self) -> tuple[int, float]:
        self._extra = self._launch()
        return self._extra.pid, self._extra.seconds

    async def stop_server(self) -> None:
        if self._extra is not None:
            self._extra.stop()

    def _launch(self) -> ServerProcess:
        port = free_port()
        command = [sys.executable, "-m", "bascule", "sandbox", str(port)]
        command += ["--working-dir", os.getcwd(), "--no-enable-browser"]
        return ServerProcess(command, {"SESSION_API_KEY": self._key, "BASCULE_LOG": "error"}, port)

    def _close_shell(self, name: str) -> None:
        """Over a connection of its own: one that was kept may have been idle for too long."""
        connection = Connection(self.port)
        connection.ask(request("DELETE", f"/shells/{name}", b"", {"X-Session-API-Key": self._key}))
        connection.close()


class BasculeRemote(Launched, Subject[str], Files, Cells):
    name = "bascule-http"

    async def start(self) -> None:
        self._running = self._launch()
        self._runtime = RemoteRuntime(f"http://127.0.0.1:{self.port}", self._key)
        await self._runtime.connect()
        await self._runtime.run("true")

    async def stop(self) -> None:
        if self._running is not None:
            await self._runtime.aclose()
            self._running.stop()

    async def open(self) -> str:
        return next(self._names)

    async def run(self, shell: str, command: str, timeout: float) -> Answer:
        seen = await self._runtime.run(command, shell=shell, timeout=timeout, output_limit=0)
        return Answer(seen.content, seen.exit_code)

    async def close(self, shell: str) -> None:
        self._close_shell(shell)

    async def read(self, path: str) -> str:
        return (await self._runtime.read(path)).content

    async def write(self, path: str, text: str) -> None:
        await self._runtime.write(path, text)

    async def edit(self, path: str, old: str, new: str) -> None:
        await self._runtime.edit(path, "str_replace", old_str=old, new_str=new)

    async def run_cell(self, code: str) -> str:
        return (await self._runtime.run_ipython(code)).content

    async def end_kernel(self) -> None:
        await self.run_cell("exit")


class BasculeBare(Launched, BareHttpSubject):
    name = "bascule-http-bare"

    async def start(self) -> None:
        self._running = self._launch()
        shell = await self.open()
        await self.run(shell, "true", 60)
        await self.close(shell)

    async def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    async def open(self) -> HttpShell:
        return HttpShell(next(self._names), Connection(self.port))

    async def close(self, shell: HttpShell) -> None:
        shell.connection.close()
        self._close_shell(shell.name)

    def request(self, shell: HttpShell, command: str, timeout: float) -> bytes:
        arguments = {"command": command, "shell": shell.name, "output_limit": 0}
        content = {"action": {"action": "run", "args": arguments, "timeout": timeout}}
        return post("/execute_action", content, {"X-Session-API-Key": self._key})

    def parse(self, body: bytes) -> Answer:
        seen = json.loads(body)
        return Answer(seen["content"], seen["extras"]["metadata"]["exit_code"])


if __name__ == "__main__":
    serve(BasculeBare() if "bare" in sys.argv[1:] else BasculeRemote(), uvloop.run)
