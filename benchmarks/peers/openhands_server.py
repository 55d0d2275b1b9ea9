"""OpenHands V1's agent server over HTTP: its bash endpoint starts a new `sh` for each command."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version

from benchmarks.peers.http import (
    BareHttpSubject,
    Connection,
    HttpShell,
    ServerProcess,
    free_port,
    post,
)
from benchmarks.peers.serve import serve
from benchmarks.peers.subject import Answer, Refused, Server


class OpenHandsServer(BareHttpSubject, Server):
    name = "openhands-v1-server"

    def __init__(self) -> None:
        self._server: ServerProcess | None = None
        self._extra: ServerProcess | None = None

    def versions(self) -> dict[str, str]:
        return {"openhands-agent-server": version("openhands-agent-server")}

    async def start(self) -> None:
        self._server = _launch()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    @property
    def server_pid(self) -> int | None:
        return None if self._server is None else self._server.pid

    async def open(self) -> HttpShell:
        assert self._server is not None
        return HttpShell("", Connection(self._server.port))

    async def close(self, shell: HttpShell) -> None:
        shell.connection.close()

    def request(self, shell: HttpShell, command: str, timeout: float) -> bytes:  # noqa: ARG002
        content = {"command": command, "timeout": int(timeout)}
        return post("/api/bash/execute_bash_command", content, {})

    def parse(self, body: bytes) -> Answer:
        seen = json.loads(body)
        if seen.get("exit_code") is None:
            raise Refused(f"no end; {len(seen.get('stdout') or '')} characters seen")
        return Answer((seen["stdout"] or "") + (seen["stderr"] or ""), seen["exit_code"])

    async def start_server(self) -> tuple[int, float]:
        self._extra = _launch()
        return self._extra.pid, self._extra.seconds

    async def stop_server(self) -> None:
        if self._extra is not None:
            self._extra.stop()


def _launch() -> ServerProcess:
    port = free_port()
    command = [sys.executable, "-m", "openhands.agent_server", "--port", str(port)]
    settings = {"OH_ENABLE_VSCODE": "false", "OH_ENABLE_BROWSER": "false"}
    settings |= {"OH_BASH_EVENTS_DIR": os.path.join(os.getcwd(), f"bash-events-{port}")}
    return ServerProcess([*command, "--host", "127.0.0.1"], settings, port)


if __name__ == "__main__":
    serve(OpenHandsServer())
