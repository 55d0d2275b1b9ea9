"""Ours: sandboxes of sessions, as the spawner of kind `local` starts and holds them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import bascule
from bascule.core.errors import CannotIsolate
from bascule.core.observations import CmdOutput
from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.hub import Hub, HubSettings
from bascule.runtime import CloudRuntime
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from benchmarks import processes
from benchmarks.peers.measurements import percentile
from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused

TOKEN = "a-token-for-benchmarks"
SETTLE_SECONDS = 1.0
ABREAST = 10
"""Sessions started at a time when many are to be held."""


class LocalSessions:
    """From the order of a session to the end of its first command, and what idle ones weigh."""

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="bench-"))
        self._settings = LocalSettings(
            sessions_dir=self._place / "sessions",
            run_dir=self._place / "run",
            state_dir=self._place / "warden",
        )
        self._spawner: LocalSpawner | None = None

    async def start(self) -> None:
        """There is nothing to start: it would be in the way of other cases."""

    async def stop(self) -> None:
        if self._spawner is not None:
            await self._end_all()
            await self._spawner.aclose()
        shutil.rmtree(self._place, ignore_errors=True)

    async def hello(self) -> dict[str, Any]:
        versions = {"bascule": bascule.__version__}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def single(self, count: int) -> dict[str, Any]:
        """One after the other: with nothing loaded yet, then `count` by what is."""
        spawner = await self._opened()
        await self._unload()
        cold = await self._first_command(self._plan())
        warm = [await self._first_command(self._plan()) for _ in range(count)]
        memory = await self._weight((await spawner.running())[0].session_id)
        await self._end_all()
        return {"cold": cold, "warm": statistics.median(warm), **memory}

    async def asked(self, count: int) -> dict[str, Any]:
        """As people get one: a session asked of a hub, and a command in it."""
        place = self._place / "hub"
        spawner = LocalSpawner(
            LocalSettings(
                sessions_dir=place / "sessions", run_dir=place / "run", state_dir=place / "warden"
            )
        )
        settings = HubSettings(admin_token=TOKEN, state_dir=place)
        async with Hub(settings, spawners={"local": spawner}) as hub:
            seconds = [await self._asked_once(hub.local_url) for _ in range(count + 1)]
        return {"asked": statistics.median(seconds[1:])}  # the first one loads

    async def _asked_once(self, url: str) -> float:
        began = perf_counter()
        async with CloudRuntime(url, TOKEN, remove=True) as runtime:
            await runtime.connect()
            _ensure_here(await runtime.run("echo here"))
            return perf_counter() - began

    async def burst(self, count: int) -> dict[str, Any]:
        """All at once."""
        plans = [self._plan() for _ in range(count)]
        began = perf_counter()
        seconds = await asyncio.gather(*map(self._first_command, plans))
        whole = perf_counter() - began
        ending = perf_counter()
        await self._end_all()
        return {
            "burst_p50": statistics.median(seconds),
            "burst_p95": percentile(seconds, 95),
            "burst_seconds": whole,
            "end_seconds": perf_counter() - ending,
        }

    async def hold(self, count: int) -> dict[str, Any]:
        """So many that idle, each of which has run a command."""
        before = _available()
        for first in range(0, count, ABREAST):
            plans = [self._plan() for _ in range(first, min(first + ABREAST, count))]
            await asyncio.gather(*map(self._first_command, plans))
        await asyncio.sleep(SETTLE_SECONDS)
        taken = before - _available()
        assert self._spawner is not None
        held = len(await self._spawner.running())
        cpu = await self._cpu()
        await asyncio.sleep(5 * SETTLE_SECONDS)
        idle = (await self._cpu() - cpu) / (5 * SETTLE_SECONDS)
        await self._end_all()
        return {"held": held, "held_each": taken / count, "held_cpu": idle / count}

    async def _opened(self) -> LocalSpawner:
        if self._spawner is None:
            self._spawner = LocalSpawner(self._settings)
            try:
                await self._spawner.open()
            except CannotIsolate as error:
                raise Refused(str(error)) from error
        return self._spawner

    async def _first_command(self, plan: SandboxPlan) -> float:
        spawner = await self._opened()
        began = perf_counter()
        await spawner.start(plan)
        path = plan.run_dir / "sandbox.sock"
        async with RemoteRuntime("http://localhost", plan.key, socket_path=path) as runtime:
            _ensure_here(await runtime.run("echo here"))
        return perf_counter() - began

    async def _unload(self) -> None:
        """End the process that has everything loaded; the next start begins with another."""
        for pid in processes.family(os.getpid(), "-"):
            if b"_zygote_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                watched = os.pidfd_open(pid)
                os.kill(pid, signal.SIGKILL)
                ended = asyncio.Event()
                asyncio.get_running_loop().add_reader(watched, ended.set)
                await ended.wait()
                asyncio.get_running_loop().remove_reader(watched)
                os.close(watched)

    async def _weight(self, session_id: str) -> dict[str, float]:
        """Of one idle session, by two counts: what is its own, and with its share of the rest."""
        await asyncio.sleep(SETTLE_SECONDS)
        pids = _pids_of(session_id)
        assert self._spawner is not None
        usage = await self._spawner.usage((await self._spawner.running())[0].session_id)
        return {
            "own_bytes": usage.memory_bytes,
            "pss_bytes": processes.memory(pids).pss,
            "processes": usage.processes,
        }

    async def _cpu(self) -> float:
        assert self._spawner is not None
        spent = [
            await self._spawner.usage(each.session_id) for each in await self._spawner.running()
        ]
        return sum(usage.cpu_seconds for usage in spent)

    async def _end_all(self) -> None:
        assert self._spawner is not None
        running = await self._spawner.running()
        await asyncio.gather(*(self._spawner.stop(each.session_id) for each in running))

    def _plan(self) -> SandboxPlan:
        session_id = new_session_id()
        directory = self._settings.sessions_dir / session_id
        directory.mkdir(parents=True)
        return SandboxPlan(
            session_id=session_id,
            directory=directory,
            run_dir=self._settings.run_dir / session_id,
            key=f"key-{session_id}",
        )


def _ensure_here(seen: CmdOutput) -> None:
    if seen.content != "here\n":
        raise RuntimeError(f"a session answered {seen.content!r}")


def _pids_of(session_id: str) -> Sequence[int]:
    files = Path("/sys/fs/cgroup").glob(f"**/{session_id}/cgroup.procs")
    return sorted({int(line) for file in files for line in file.read_text().split()})


def _available() -> int:
    """Bytes of memory that could be had, by the kernel's own estimate."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say how much memory is left")


if __name__ == "__main__":
    respond(LocalSessions())
