"""OpenHands V0's own client: `local` with its own server, `bascule` with a session of our hub."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused

_ROOT = Path(__file__).parents[2]


class OpenHandsV0:
    """A conversation's runtime per question, made and closed as OpenHands does it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._hub: subprocess.Popen[str] | None = None

    async def start(self) -> None:
        if self._kind == "local":
            # As root it would make users and write to the real home of one.
            os.environ |= {"USER": "bench", "SU_TO_USER": "false", "SKIP_DEPENDENCY_CHECK": "1"}
        else:
            self._start_hub()
        import openhands.core.setup  # noqa: F401  # loading it is nobody's time

    async def stop(self) -> None:
        if self._hub is not None:
            self._hub.terminate()
            self._hub.wait()

    async def hello(self) -> dict[str, Any]:
        versions = {"openhands-ai": version("openhands-ai")}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def work(self, commands: int) -> dict[str, Any]:
        """Seconds until a new runtime answered its first command, and of each one after that; and
        how many of them were answered with something else than they printed."""
        return await asyncio.to_thread(self._work, commands)

    def _work(self, commands: int) -> dict[str, Any]:
        from openhands.core.setup import create_runtime
        from openhands.utils.async_utils import call_async_from_sync

        began = time.perf_counter()
        runtime = create_runtime(self._config(), sid=f"bench-{secrets.token_hex(4)}")
        try:
            call_async_from_sync(runtime.connect, 170)
            wrong = int(not _run(runtime, "echo first"))
            first = time.perf_counter() - began
            trips = []
            for number in range(commands):
                asked = time.perf_counter()
                wrong += int(not _run(runtime, f"echo {number}"))
                trips.append(time.perf_counter() - asked)
        finally:
            runtime.close()
        return {"first": first, "trips": trips, "wrong": wrong}

    def _config(self) -> Any:
        from openhands.core.config import OpenHandsConfig

        config = OpenHandsConfig(runtime="local", workspace_base=os.getcwd(), enable_browser=False)
        config.file_store, config.file_store_path = "local", os.path.join(os.getcwd(), "store")
        if self._kind == "bascule":
            config.runtime, config.workspace_base = "remote", None
            config.sandbox.api_key = os.environ["BASCULE_TOKEN"]
            config.sandbox.remote_runtime_api_url = f"{self._url}/openhands/v0"
            config.sandbox.runtime_container_image = "none"
        return config

    def _start_hub(self) -> None:
        os.environ["BASCULE_TOKEN"] = secrets.token_urlsafe(24)
        self._hub = subprocess.Popen(
            [
                *(_ROOT / ".venv" / "bin" / "bascule", "serve", "--port", "0"),
                *("--state-dir", Path.home() / "hub"),
            ],
            env={**os.environ, "BASCULE_SPAWNERS": "local", "PYTHONPATH": ""},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._hub.stdout is not None
        self._url = self._hub.stdout.readline().strip()
        if not self._url:
            raise Refused("the hub did not start; the worker's log says why")


def _run(runtime: Any, command: str) -> bool:
    """Whether it was answered with what it printed."""
    from openhands.events.action import CmdRunAction

    seen = runtime.run_action(CmdRunAction(command))
    wanted = command.partition(" ")[2]
    return getattr(seen, "exit_code", None) == 0 and bool(seen.content.strip() == wanted)


if __name__ == "__main__":
    respond(OpenHandsV0(sys.argv[1]))
