"""One open page: the events sent to it, and the timelines and terminals it follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import socketio

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.changes import Topic
from bascule.hub.identity import Identity
from bascule.hub.sessions.sandbox_client import SandboxClient
from bascule.hub.sessions.service import Sessions
from bascule.hub.sessions.tasks import Tasks
from bascule.hub.socketio_server import PAGE
from bascule.hub.window_timelines import WindowTimelines
from bascule.wire import error_to_wire

_MAX_BATCH_ENTRIES: Final = 500
"""Maximum number of entries in one message, so that no message is large."""

_MAX_QUEUED_CHARACTERS: Final = 4 << 20
"""Maximum characters queued for a terminal: enough for a long pasted text."""
_MESSAGE_WEIGHT: Final = 100
"""Characters that each message counts in addition to its text."""

TimelineUpdates = AsyncGenerator[tuple[str, Sequence[Mapping[str, Any]]], None]
"""Batches of timeline entries as they arrive, each with the timeline's epoch."""
Describe = Callable[[Topic, str], tuple[str, object]]
"""Returns the event that reports a change: its name and its data."""


class Viewer(Closable):
    """Sends one message at a time and waits until it has been written to the socket.

    Changes that happen meanwhile are combined, so a slow page lags but queues nothing in the hub.
    """

    def __init__(
        self,
        server: socketio.AsyncServer,
        sid: str,
        identity: Identity,
        *,
        sign_in: bytes,
        sessions: Sessions,
        timelines: WindowTimelines,
    ) -> None:
        self.identity = identity
        self.sign_in = sign_in
        self._server = server
        self._sid = sid
        self._sessions = sessions
        self._timelines = timelines
        self._tasks = Tasks()
        self._subscription_lock = asyncio.Lock()
        """Held by the request that changes which timelines and terminals are followed."""
        self._changed: dict[tuple[Topic, str], None] = {}
        self._wake = asyncio.Event()
        self._keys: dict[tuple[str, str], UntypedKeys] = {}
        self.known_sessions: set[str] = set()
        """Sessions that the page has been told of."""

    async def aclose(self) -> None:
        await self._tasks.aclose()

    async def send(self, event: str, data: object) -> None:
        await self._server.emit(event, data, to=self._sid, namespace=PAGE)
        eio_sid = self._server.manager.eio_sid_from_sid(self._sid, PAGE)
        socket = self._server.eio.sockets.get(eio_sid)
        if socket is not None:
            await socket.queue.join()  # until Engine.IO has sent the message

    # State ----------------------------------------------------------------------------------

    def changed(self, topic: Topic, subject: str) -> None:
        self._changed[topic, subject] = None
        self._wake.set()

    def send_changes(self, hello: Callable[[], object], describe: Describe) -> None:
        """Send `hello`, then an event for each change, with the state at the time of sending."""
        self._tasks.start("changes", self._send_changes(hello, describe))

    async def _send_changes(self, hello: Callable[[], object], describe: Describe) -> None:
        await self.send("hello", hello())
        while True:
            await self._wake.wait()
            self._wake.clear()
            changed, self._changed = self._changed, {}
            for topic, subject in changed:
                await self.send(*describe(topic, subject))

    # Timelines ------------------------------------------------------------------------------

    async def watch(self, kind: str, place_id: str, *, after: int, epoch: str) -> None:
        """Follow a timeline; replaces an earlier subscription to the same timeline."""
        follow = self._follow_session if kind == "session" else self._follow_window
        async with self._subscription_lock:
            await self._tasks.cancel(("watch", kind, place_id))
            self._tasks.start(("watch", kind, place_id), follow(place_id, after, epoch))

    async def unwatch(self, kind: str, place_id: str) -> None:
        async with self._subscription_lock:
            await self._tasks.cancel(("watch", kind, place_id))

    def end_timeline(self, session_id: str) -> None:
        """Stop following the timeline of a session that the user may not see any more."""
        self._tasks.end(("watch", "session", session_id))

    async def _follow_session(self, place_id: str, after: int, epoch: str) -> None:
        await self._follow(
            {"kind": "session", "id": place_id},
            self._sessions.timeline(self.identity, SessionId(place_id), after=after, epoch=epoch),
        )

    async def _follow_window(self, place_id: str, after: int, epoch: str) -> None:
        await self._follow(
            {"kind": "window", "id": place_id},
            self._timelines.follow(WindowId(place_id), after=after, epoch=epoch),
        )

    async def _follow(self, place: Mapping[str, str], timeline: TimelineUpdates) -> None:
        ended: dict[str, Any] = {}
        try:
            async with aclosing(timeline) as updates:
                async for epoch, entries in updates:
                    await self._send_entries(place, epoch, entries)
        except BasculeError as error:
            ended = error_to_wire(error)
        await self.send("timeline.ended", {**place, "error": ended})

    async def _send_entries(
        self, place: Mapping[str, str], epoch: str, entries: Sequence[Mapping[str, Any]]
    ) -> None:
        for start in range(0, max(len(entries), 1), _MAX_BATCH_ENTRIES):
            batch = entries[start : start + _MAX_BATCH_ENTRIES]
            await self.send("timeline", {**place, "epoch": epoch, "entries": batch})

    # Terminals ------------------------------------------------------------------------------

    async def open_terminal(
        self, session_id: str, name: str, *, columns: int, rows: int, start: int | None
    ) -> Mapping[str, Any]:
        """Open the terminal and send its output from byte `start`; None: all buffered output."""
        client = await self._sessions.sandbox_client(self.identity, SessionId(session_id))
        opened = await client.open_terminal(name, columns=columns, rows=rows)
        begin = opened["start"] if start is None or start > opened["end"] else start
        key = session_id, name
        async with self._subscription_lock:
            await self._leave(key)
            # A resume takes seconds, in which the owner may have taken back the access.
            self._sessions.get(self.identity, SessionId(session_id))
            self._keys[key] = UntypedKeys()
            self._tasks.start(("output", key), self._show(client, session_id, name, begin))
            self._tasks.start(("keys", key), self._type(client, session_id, name))
        return opened

    def type(self, session_id: str, name: str, keys: Mapping[str, Any]) -> None:
        """Queue keystrokes in the order of the calls. Drops keystrokes when the queue is full."""
        queue = self._keys.get((session_id, name))
        if queue is not None:
            queue.put(keys)

    async def leave_terminal(self, session_id: str, name: str) -> None:
        """Stop following a terminal; it keeps running."""
        async with self._subscription_lock:
            await self._leave((session_id, name))

    def end_terminals(self, session_id: str) -> None:
        """Stop following the terminals of a session that the user may not use any more."""
        for key in [each for each in self._keys if each[0] == session_id]:
            self._tasks.end(("output", key))
            self._tasks.end(("keys", key))
            del self._keys[key]

    async def _leave(self, key: tuple[str, str]) -> None:
        await self._tasks.cancel(("output", key))
        await self._tasks.cancel(("keys", key))
        self._keys.pop(key, None)

    async def _show(self, client: SandboxClient, session_id: str, name: str, start: int) -> None:
        place = {"session_id": session_id, "name": name}
        reason = "The session is gone or does not answer"
        try:
            async with aclosing(client.terminal_output(name, start=start)) as frames:
                async for kind, frame in frames:
                    if kind == "output":
                        output = {"offset": frame["offset"], "data": frame["data"]}
                        await self.send("terminal.output", {**place, **output})
                    elif kind == "ended":
                        reason = "Its shell has ended"
        except BasculeError as error:
            reason = error.message
        await self.send("terminal.ended", {**place, "why": reason})

    async def _type(self, client: SandboxClient, session_id: str, name: str) -> None:
        queue = self._keys[session_id, name]
        try:
            while True:
                await client.type(name, await queue.get())
        except BasculeError:
            queue.close()  # the output has ended too; `_show` reports it


class UntypedKeys:
    """A bounded queue of keystrokes not yet sent to the terminal; drops keystrokes when full."""

    def __init__(self, max_weight: int = _MAX_QUEUED_CHARACTERS) -> None:
        self._max_weight = max_weight
        self._queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._weight = 0
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    def put(self, keys: Mapping[str, Any]) -> None:
        weight = _weight_of(keys)
        if not self._is_closed and self._weight + weight <= self._max_weight:
            self._weight += weight
            self._queue.put_nowait(keys)

    async def get(self) -> Mapping[str, Any]:
        keys = await self._queue.get()
        self._weight -= _weight_of(keys)
        return keys

    def close(self) -> None:
        self._is_closed = True
        self._queue = asyncio.Queue()


def _weight_of(keys: Mapping[str, Any]) -> int:
    return _MESSAGE_WEIGHT + len(str(keys.get("data", "")))
