"""A hub in a process of its own, whose processes are killed while sessions come and go.

The seed is printed; BASCULE_TEST_SEED repeats one, BASCULE_TEST_KILLS sets how many there are.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from bascule.core.errors import BasculeError
from bascule.link.sessions import HubSession, SessionCalls
from bascule.runtime import CloudRuntime
from tests.cli.processes import BASCULE, environment
from tests.contracts.runtime import gone

TOKEN: Final = "an-admin-token-for-tests"
SESSIONS: Final = 8
"""Sessions that are started and stopped in turn."""
TIMEOUT: Final = 60.0

Stage = Literal["starting", "acting", "pausing", "resuming", "stopping"]
STAGES: Final[Sequence[Stage]] = ("starting", "acting", "pausing", "resuming", "stopping")
"""Each kind of kill comes at each of these."""


class Serving:
    """`bascule serve`, which can be killed and started again on the same state."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.state = directory / "state"
        self.run = directory / "run"
        self._log = directory / "hub.log"
        self._env = environment(
            **settings,
            BASCULE_TOKEN=TOKEN,
            BASCULE_STATE_DIR=str(self.state),
            BASCULE_RUN_DIR=str(self.run),
        )
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_dead(self) -> bool:
        return self._process is None or self._process.returncode is not None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*BASCULE, "serve", "--port", "0"),
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        self.url = (await self._process.stdout.readline()).decode().strip()
        assert self.url.startswith("http://"), self.said()

    async def stop(self) -> None:
        """As somebody who types Ctrl-C."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
            await self._process.wait()

    async def ended(self) -> None:
        assert self._process is not None
        await self._process.wait()

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-8000:]


class Victims(ABC):
    """Who can be killed, and what has to be gone in the end, for one kind of spawner."""

    names: Sequence[str]
    """Besides the hub."""

    @abstractmethod
    async def find(self, name: str, session_id: str, hub: Serving) -> Sequence[int]:
        """Processes of that name, if there are any just now."""

    @abstractmethod
    async def left(self, session_id: str) -> Sequence[object]:
        """What there still is of a session that has stopped, files apart."""


class Ordeal:
    """Starts, uses and stops sessions, with one kill each time."""

    def __init__(self, hub: Serving, victims: Victims, *, kills: int) -> None:
        seed = int(os.environ.get("BASCULE_TEST_SEED") or random.randrange(1 << 32))
        self._kills = int(os.environ.get("BASCULE_TEST_KILLS") or kills)
        print(f"BASCULE_TEST_SEED={seed}")  # noqa: T201
        self._chance = random.Random(seed)
        self._hub = hub
        self._victims = victims
        self._ids: dict[int, str] = {}
        self._written: dict[str, dict[str, str]] = {}
        """By session: files whose writing was answered, and what is in them."""
        self._reached: dict[Stage, asyncio.Event] = {}

    async def undergo(self) -> None:
        await self._hub.start()
        names = ("hub", *self._victims.names)
        for number in range(self._kills):
            await self._one(number, names[number % len(names)])
        await self._ensure_all_agrees()

    async def _one(self, number: int, victim: str) -> None:
        stage = self._chance.choice(STAGES)
        after = self._chance.uniform(0, 0.15 if stage == "starting" else 0.005)
        self._reached = {each: asyncio.Event() for each in STAGES}
        living = asyncio.create_task(self._live(number))
        reaching = asyncio.create_task(self._reached[stage].wait())
        await asyncio.wait({living, reaching}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({living}, timeout=after)
        killed = await self._kill(victim, number)
        print(f"{number}: killed {killed} {after * 1000:.0f} ms into {stage}")  # noqa: T201
        try:
            await living
        except BasculeError as error:
            print(f"   {type(error).__name__}: {error.message[:120]!r}")  # noqa: T201
        reaching.cancel()
        if killed == "hub":
            await self._hub.ended()
        await self._settle(number)

    async def _live(self, number: int) -> None:
        """One start, a file, a pause, one stop."""
        async with SessionCalls(self._hub.url, TOKEN) as calls:
            self._reached["starting"].set()
            session = await self._begun(calls, number)
            await calls.until_ready(session.id)
            self._reached["acting"].set()
            async with CloudRuntime(self._hub.url, TOKEN, session_id=session.id) as runtime:
                await runtime.connect()
                name, text = f"file-{number}", f"{number}\n" * 1000
                await runtime.write(name, text)
                self._written[session.id][name] = text
            self._reached["pausing"].set()
            await calls.pause(session.id)
            self._reached["resuming"].set()
            await calls.resume(session.id)
            self._reached["stopping"].set()
            await calls.stop(session.id)

    async def _begun(self, calls: SessionCalls, number: int) -> HubSession:
        which = number % SESSIONS
        if which in self._ids:
            return await calls.resume(self._ids[which])
        made = await calls.create({"name": f"session {which}"}, key=f"key-{which}")
        self._ids[which] = made.id
        self._written.setdefault(made.id, {})
        return made

    async def _kill(self, wanted: str, number: int) -> str:
        """The one that is asked for, or the next where there is none of it just now."""
        found: Sequence[int] = ()
        session_id = self._ids.get(number % SESSIONS, "")
        names = (*self._victims.names, "hub")
        for victim in names[names.index(wanted) :]:
            if found := await self._find(victim, session_id):
                break
        pid = self._chance.choice(sorted(found))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return f"{victim}, which had just ended"
        await gone(pid)
        return victim

    async def _find(self, victim: str, session_id: str) -> Sequence[int]:
        if victim == "hub":
            return [self._hub.pid]
        return await self._victims.find(victim, session_id, self._hub) if session_id else []

    async def _settle(self, number: int) -> None:
        """Afterwards the session can be stopped, whatever happened, and nothing of it is left."""
        if self._hub.is_dead:
            await self._hub.start()
        async with asyncio.timeout(TIMEOUT), SessionCalls(self._hub.url, TOKEN) as calls:
            session = self._ids.get(number % SESSIONS) or (await self._begun(calls, number)).id
            stopped = await calls.stop(session)
            assert stopped.state in ("stopped", "failed"), stopped
        await self._ensure_at_rest(session)

    async def _ensure_at_rest(self, session_id: str) -> None:
        assert await self._victims.left(session_id) == []
        sockets = [each for each in self._hub.run.rglob("*") if each.is_socket()]
        assert [each for each in sockets if session_id in each.parts] == []
        workspace = self._hub.state / "sessions" / session_id / "workspace"
        for name, text in self._written[session_id].items():
            assert (workspace / name).read_text() == text, name

    async def _ensure_all_agrees(self) -> None:
        """Rows and processes; then that removing them leaves nothing at all."""
        async with SessionCalls(self._hub.url, TOKEN) as calls:
            rows = await calls.sessions()
            assert {row.id for row in rows} == set(self._ids.values())
            for row in rows:
                await self._ensure_at_rest(row.id)
            assert sum(map(len, self._written.values())) > self._kills // 4
            for row in rows:
                await calls.remove(row.id)
        await self._hub.stop()
        for kind in ("sessions", "secrets", "archives"):
            assert list((self._hub.state / kind).iterdir()) == []
        assert [each for each in self._hub.run.rglob("*") if not each.is_dir()] == []
