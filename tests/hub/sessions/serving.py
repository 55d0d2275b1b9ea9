"""Hubs with sessions, in plain or isolated sandboxes, and a client for them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bascule.core.contracts import Spawner
from bascule.core.sessions import SessionId
from bascule.hub import Identity
from bascule.link.sse import EventReader
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from bascule.runtime.spawn.plain import RECORD, PlainSpawner
from bascule.runtime.spawn.vscode import SharedVSCode
from bascule.wire import from_json
from tests.hub.serving import Client, RunningHub


class SessionHub(RunningHub):
    """A hub with sessions in plain sandboxes, which `open_session_hub` ends."""

    def __init__(
        self, directory: Path, *, vscode: SharedVSCode | None = None, **settings: Any
    ) -> None:
        self.directory = directory
        self._given = settings
        self.vscode = vscode
        super().__init__(directory, spawners=self._make, **settings)

    @property
    def identity(self) -> Identity:
        """An admin of this hub."""
        return Identity(name="admin", owner="admin", scope="admin")

    @staticmethod
    def session(text: str) -> SessionId:
        return SessionId(text)

    def _make(self) -> Mapping[str, Spawner]:
        return {"plain": self.spawner()}

    def spawner(self) -> PlainSpawner:
        run_root = self.directory / "run"
        return PlainSpawner(run_root, allow_unisolated=True, vscode=self.vscode)


@asynccontextmanager
async def open_session_hub(**settings: Any) -> AsyncIterator[SessionHub]:
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="bsc-"))
    made = SessionHub(directory, **settings)
    try:
        async with made:
            yield made
    finally:
        spawner = made.spawner()
        await spawner.open()
        for each in await spawner.running():
            await spawner.stop(each.session_id, grace=0)
        await asyncio.to_thread(shutil.rmtree, directory)


def kill_server(run_dir: Path) -> None:
    """Kill the action server of a plain session with SIGKILL."""
    os.kill(json.loads((run_dir / RECORD).read_text())["pid"], signal.SIGKILL)


class LocalSessionHub(SessionHub):
    """A hub whose sessions run in isolated sandboxes."""

    def _make(self) -> Mapping[str, Spawner]:
        return {"local": LocalSpawner(self.local_settings())}

    def local_settings(self) -> LocalSettings:
        return LocalSettings(
            sessions_dir=self.directory / "sessions",
            run_dir=self.directory / "run",
            state_dir=self.directory / "warden",
            workspace_roots=self._given.get("workspace_roots", ()),
        )


@asynccontextmanager
async def open_local_session_hub(
    directory: Path | None = None, **settings: Any
) -> AsyncIterator[LocalSessionHub]:
    """Open a hub in a new directory, or in `directory`, which the caller removes."""
    made_here = directory is None
    if directory is None:
        directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="bsc-"))
        await asyncio.to_thread(directory.chmod, 0o755)
    hub = LocalSessionHub(directory, **settings)
    try:
        async with hub:
            yield hub
    finally:
        async with LocalSpawner(hub.local_settings()) as spawner:
            await spawner.open()
            for each in await spawner.running():
                await spawner.stop(each.session_id, grace=0)
        if made_here:
            await asyncio.to_thread(shutil.rmtree, directory)


class SessionsClient(Client):
    """Client of a hub's calls for sessions, with one token."""

    async def create(self, body: Mapping[str, Any] | None = None, *, key: str = "") -> Any:
        headers = {"Idempotency-Key": key} if key else {}
        return await self.must("POST", "/api/sessions", body or {}, headers=headers)

    async def ready(self, body: Mapping[str, Any] | None = None) -> str:
        """The id of a new session that is ready."""
        session: str = (await self.create(body))["id"]
        await self.reaches(session, "ready")
        return session

    async def must(self, method: str, where: str, value: object = None, **keywords: Any) -> Any:
        status, answer = await self.ask(method, where, value, **keywords)
        assert status == 200, (status, answer)
        return answer

    async def show(self, session: str) -> Any:
        return await self.must("GET", f"/api/sessions/{session}")

    async def run(self, session: str, command: str) -> str:
        # Blocking: silence on a busy machine would be answered before the command has ended.
        event = {"action": "run", "args": {"command": command, "blocking": True}}
        answer = await self.must("POST", f"/api/sessions/{session}/actions", event)
        content: str = answer["content"]
        return content

    async def events(self, session: str, *, after: int = 0) -> AsyncIterator[tuple[str, Any]]:
        where = f"/api/sessions/{session}/events?after={after}"
        async with self.stream("GET", where) as reply:
            assert reply.status == 200
            reader = EventReader()
            async for chunk in reply.chunks():
                for event in reader.feed(chunk):
                    yield event.name, from_json(event.data)

    async def reaches(self, session: str, state: str) -> Any:
        """Wait until the session is in `state`, and return all events until then."""
        seen = []
        async for name, data in self.events(session):
            seen.append((name, data))
            if name != "state" or data["state"] not in (state, "failed"):
                continue
            now = await self.show(session)
            if now["state"] == state:  # and not only once was
                return seen
            assert now["state"] != "failed", now["cause"]
        raise AssertionError(f"the session never became {state}: {seen}")
