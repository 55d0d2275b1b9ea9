"""Ours: sandboxes of sessions as containers, on an engine of the tests' own."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import aiodocker

import bascule
from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.docker import DockerSettings, DockerSpawner
from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused
from tests import dockerd


class DockerSessions:
    """From the order of a session to the end of its first command, with the image there."""

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="bench-"))
        self._opened = ExitStack()
        self._spawner: DockerSpawner | None = None

    async def start(self) -> None:
        """There is nothing to start: it would be in the way of other cases."""

    async def stop(self) -> None:
        if self._spawner is not None:
            await self._spawner.aclose()
        await asyncio.to_thread(self._opened.close)
        shutil.rmtree(self._place, ignore_errors=True)

    async def hello(self) -> dict[str, Any]:
        versions = {"bascule": bascule.__version__, "aiodocker": aiodocker.__version__}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def single(self, count: int) -> dict[str, Any]:
        """One after the other; the first is not counted, since it warms the disk's cache."""
        spawner = await self._open()
        await self._first_command(spawner)
        seconds = [await self._first_command(spawner) for _ in range(count)]
        started, done, ended, memory = zip(*seconds, strict=True)
        return {
            "started": statistics.median(started),
            "first_command": statistics.median(done),
            "end": statistics.median(ended),
            "own_bytes": statistics.median(memory),
        }

    async def _open(self) -> DockerSpawner:
        if self._spawner is None:
            try:
                engine = await asyncio.to_thread(self._opened.enter_context, dockerd.running())
                image = await dockerd.ensure_image(engine.address)
            except dockerd.CannotRun as error:
                await asyncio.to_thread(self._opened.close)  # or the next round waits for its lock
                raise Refused(f"no Docker engine with an image: {error}") from error
            self._spawner = DockerSpawner(
                DockerSettings(
                    sessions_dir=self._place / "sessions",
                    run_dir=self._place / "run",
                    engine=engine.address,
                    image=image,
                )
            )
            await self._spawner.open()
        return self._spawner

    async def _first_command(self, spawner: DockerSpawner) -> tuple[float, float, float, int]:
        plan = self._plan(spawner.settings)
        path = plan.run_dir / "sandbox.sock"
        began = perf_counter()
        await spawner.start(plan)
        started = perf_counter() - began
        async with RemoteRuntime("http://localhost", plan.key, socket_path=path) as runtime:
            seen = await runtime.run("echo here")
        if seen.content != "here\n":
            raise RuntimeError(f"a session answered {seen.content!r}")
        done = perf_counter() - began
        memory = (await spawner.usage(plan.session_id)).memory_bytes
        ending = perf_counter()
        await spawner.stop(plan.session_id)
        return started, done, perf_counter() - ending, memory

    def _plan(self, settings: DockerSettings) -> SandboxPlan:
        session_id = new_session_id()
        return SandboxPlan(
            session_id=session_id,
            directory=settings.sessions_dir / session_id,
            run_dir=settings.run_dir / session_id,
            key=f"key-{session_id}",
        )


if __name__ == "__main__":
    respond(DockerSessions())
