"""The demo of each owner: its session and the progress of its scripted agent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from bascule.core.contracts import Closable, WindowLink
from bascule.core.errors import BasculeError, NoSuchSession
from bascule.core.sessions import SessionId, SessionSpec
from bascule.hub.changes import HubChanges, Topic
from bascule.hub.identity import Identity
from bascule.hub.sessions.rows import SessionRow
from bascule.hub.sessions.service import Sessions
from bascule.hub.sessions.session_request import SessionRequest
from bascule.hub.sockets import Sockets
from bascule.runtime.demo import AGENT, DemoMessage, fix_a_bug

if TYPE_CHECKING:
    from bascule.runtime.vscode import VSCodeRuntime

logger = logging.getLogger(__name__)

NAME: Final = "demo"
_REQUEST_KEY: Final = "bascule: the demo"
"""The `request_key` that identifies an owner's demo session, also after the hub restarts."""
_PAUSE: Final = 2.5
"""Seconds between two steps, so that people can look at the finished step."""

Phase = Literal["resting", "starting", "waiting", "playing", "done", "failed"]
"""resting: not played since the hub started. waiting: until somebody opens VS Code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    session_id: SessionId
    phase: Phase = "resting"
    said: Sequence[DemoMessage] = ()
    cause: str = ""
    """Why the demo failed; empty otherwise."""


class Demos(Closable):
    """One demo for each owner, in a separate session that stays until it is removed.

    The hub runs the agent. Closing the page that started the demo does not stop it; removing the
    session or stopping the hub does.
    """

    def __init__(
        self,
        sessions: Sessions,
        changes: HubChanges,
        *,
        sockets: Sockets,
        link: Callable[[Identity], WindowLink],
    ) -> None:
        self.pause = _PAUSE
        self._sessions = sessions
        self._sockets = sockets
        self._changes = changes
        self._link = link
        self._known: dict[str, Demo] = {}
        """Demos played since the hub started, by owner."""
        self._runs: dict[SessionId, asyncio.Task[None]] = {}
        self._skipped: dict[str, asyncio.Event] = {}
        """Set when an owner skips the pause, by owner."""
        changes.subscribe(self._on_change)

    async def aclose(self) -> None:
        runs = list(self._runs.values())
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    def of(self, who: Identity) -> Demo | None:
        """The owner's demo, if its session exists and this identity may see it."""
        row = self._row(who)
        if row is None:
            return None
        known = self._known.get(row.owner)
        return known if known and known.session_id == row.id else Demo(session_id=row.id)

    async def play(self, who: Identity) -> Demo:
        """Play the demo from the beginning; no effect while it is playing.

        Creates its session if needed, and raises the errors of `Sessions.create`.
        """
        row = self._row(who) or await self._create_session(who)
        if row.id not in self._runs:
            self._known[row.owner] = Demo(session_id=row.id, phase="starting")
            self._changes.publish("demo", row.owner)
            self._runs[row.id] = asyncio.create_task(self._run(row))
            self._runs[row.id].add_done_callback(lambda _: self._runs.pop(row.id))
        return self._known[row.owner]

    def skip(self, who: Identity) -> None:
        """Skip the pause in which the agent lets people look at its last step."""
        self._skip_event(self._existing_row(who).owner).set()

    async def remove(self, who: Identity) -> None:
        """End the demo and remove its session with all files."""
        row = self._existing_row(who)
        await self._sessions.remove(_agent_identity(row.owner), row.id)

    # ----------------------------------------------------------------------------------------

    async def _create_session(self, who: Identity) -> SessionRow:
        if who.scope == "session":
            raise NoSuchSession("Start the demo from the hub's page, not from a session")
        # The window asks about commands, so that people see how they are approved.
        spec = SessionSpec(name=NAME, spawner=self._sessions.default_spawner, window_asks=True)
        return await self._sessions.create(who, SessionRequest(spec=spec, request_key=_REQUEST_KEY))

    async def _run(self, row: SessionRow) -> None:
        try:
            await self._act(row)
        except BasculeError as error:
            self._change(row, phase="failed", cause=error.message)
        except Exception as error:
            logger.exception("the demo in session %s failed", row.id)
            self._change(row, phase="failed", cause=f"It failed: {error!r}; the hub's log has more")

    async def _act(self, row: SessionRow) -> None:
        from bascule.runtime.vscode import VSCodeRuntime  # most hubs never play the demo

        agent = _agent_identity(row.owner)
        await self._sessions.resume(agent, row.id)
        await self._sessions.until_ready(row.id)
        client, _ = await self._sessions.enter(row.id)
        await self._sessions.windows.open(row.id, client)  # raises if VS Code cannot start
        self._change(row, phase="waiting")
        window = await self._sessions.windows.wait_without_limit(row.id)
        self._change(row, phase="playing")
        async with VSCodeRuntime(link=self._link(agent), window=window.id) as runtime:
            await self._play_steps(row, runtime)
        self._change(row, phase="done")

    async def _play_steps(self, row: SessionRow, runtime: VSCodeRuntime) -> None:
        from .person import DemoPerson
        from .trust_steps import DONE, TrustSteps

        def say(said: DemoMessage) -> None:
            self._publish_message(row, said)

        async def pause() -> None:
            await self._wait_until_skipped(row.owner)

        person = DemoPerson(
            row.id,
            runtime.window.id,
            owner=row.owner,
            sessions=self._sessions,
            sockets=self._sockets,
            changes=self._changes,
        )
        trust = TrustSteps(runtime, person, say=say, pause=pause)
        await fix_a_bug(runtime, run=trust.run_allowed_once, say=say, pause=pause)
        await pause()
        await trust.play()
        say(DemoMessage("done", DONE))

    def _publish_message(self, row: SessionRow, said: DemoMessage) -> None:
        before = self._known.get(row.owner)
        self._change(row, said=(*(before.said if before else ()), said))

    async def _wait_until_skipped(self, owner: str) -> None:
        skipped = self._skip_event(owner)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.pause):
                await skipped.wait()
        skipped.clear()

    def _skip_event(self, owner: str) -> asyncio.Event:
        return self._skipped.setdefault(owner, asyncio.Event())

    def _change(self, row: SessionRow, **changes: Any) -> None:
        known = self._known.get(row.owner)
        if known is not None and known.session_id == row.id:  # else the demo was removed
            self._known[row.owner] = replace(known, **changes)
            self._changes.publish("demo", row.owner)

    def _on_change(self, topic: Topic, subject: str) -> None:
        """Cancel and forget a demo whose session was removed."""
        if topic != "session" or self._sessions.owner_of(SessionId(subject)) is not None:
            return
        for owner, demo in tuple(self._known.items()):
            if demo.session_id == subject:
                if run := self._runs.get(demo.session_id):
                    run.cancel()
                del self._known[owner]
                self._changes.publish("demo", owner)

    def _row(self, who: Identity) -> SessionRow | None:
        for row in self._sessions.list(who):
            if (row.owner, row.request_key) == (
                who.owner,
                _REQUEST_KEY,
            ) and not row.is_being_removed:
                return row
        return None

    def _existing_row(self, who: Identity) -> SessionRow:
        row = self._row(who)
        if row is None:
            raise NoSuchSession("You have no demo; start one first")
        return row


def _agent_identity(owner: str) -> Identity:
    return Identity(name=AGENT, owner=owner, scope="agent")
