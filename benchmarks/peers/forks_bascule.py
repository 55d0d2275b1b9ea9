"""Ours: forks of a session, asked of a hub with the spawner `local`."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import bascule
from bascule.hub import Hub, HubSettings
from bascule.link.sessions import SessionCalls
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from benchmarks.peers.checkpoint_subject import make_tree
from benchmarks.peers.serve import respond

TOKEN = "a-token-for-benchmarks"


class LocalForks:
    """From the order of forks until they are ready, and what comparing them takes."""

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="bench-"))

    async def start(self) -> None:
        """There is nothing to start: it would be in the way of other cases."""

    async def stop(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)

    async def hello(self) -> dict[str, Any]:
        versions = {"bascule": bascule.__version__}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def forks(self, files: int, count: int) -> dict[str, Any]:
        """Seconds: of the snapshot, until the first fork and all are ready, and of comparing."""
        tree, place = self._place / f"tree-{files}", self._place / "hub"
        if not tree.exists():
            await asyncio.to_thread(make_tree, tree, files)
        spawner = LocalSpawner(
            LocalSettings(
                sessions_dir=place / "sessions", run_dir=place / "run", state_dir=place / "warden"
            )
        )
        settings = HubSettings(admin_token=TOKEN, state_dir=place)
        async with (
            Hub(settings, spawners={"local": spawner}) as hub,
            SessionCalls(hub.local_url, TOKEN) as calls,
        ):
            source = await calls.create({})
            await calls.until_ready(source.id)
            workspace = place / "sessions" / source.id / "workspace"
            words = ["cp", "-a", f"{tree}/.", str(workspace)]
            await asyncio.to_thread(subprocess.run, words, check=True)
            try:
                return await _measured(calls, source.id, count)
            finally:
                for each in await calls.sessions():
                    await calls.remove(each.id, force=True)


async def _measured(calls: SessionCalls, source: str, count: int) -> dict[str, Any]:
    began = perf_counter()
    made = await calls.fork(source, {"count": count})
    snapshot = perf_counter() - began

    async def ready(session_id: str) -> float:
        await calls.until_ready(session_id)
        return perf_counter() - began

    seconds = await asyncio.gather(*(ready(each.id) for each in made))
    comparing = perf_counter()
    found = await calls.forks(source)
    if [each["count"] for each in found["forks"]] != [0] * count:
        raise RuntimeError("a fork differs from the session that it is a copy of")
    return {
        "snapshot": snapshot,
        "first": min(seconds),
        "all": max(seconds),
        "compared": perf_counter() - comparing,
    }


if __name__ == "__main__":
    respond(LocalForks())
