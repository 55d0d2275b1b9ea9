"""A fake VS Code window: speaks the window protocol and runs actions in a sandbox.

The fake sends a hub the messages of docs/extension-protocol.md over a real socket.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from bascule.core.actions import Action
from bascule.core.contracts import Closable, OnProgress, OutputProgress
from bascule.core.editor_actions import BridgeRequest
from bascule.core.errors import (
    BasculeError,
    HubUnreachable,
    LinkError,
    MessageTooLarge,
    OutcomeUnknown,
    UsageError,
)
from bascule.core.identity import EventId
from bascule.core.observations import Observation
from bascule.core.windows import ACTION_LIFE
from bascule.link.http import HttpClient
from bascule.link.socketio import SocketClient
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.inflight import InFlight
from bascule.sandbox.settings import SandboxSettings
from bascule.wire import (
    decode_action,
    encode_observation,
    encode_progress,
    error_from_wire,
    error_observation,
    from_json,
    to_json,
)

from .bridge import FakeEditor, answer_action
from .review import FakeReview

_MAX_PIECE_BYTES: Final = 64 << 10
_ACKNOWLEDGE_TIMEOUT: Final = 10.0


@dataclass(slots=True)
class _Entry:
    host_id: str
    observation: Mapping[str, Any] | None = None
    has_ended: bool = False
    is_acknowledged: bool = False


class Journal:
    """The actions that a window has begun, and their observations. A journal outlives hosts, as
    the extension's file does. A host that is created with the journal of another host is the same
    window after a reload."""

    def __init__(self) -> None:
        self.window_id = str(uuid4())
        self.window_key = secrets.token_urlsafe(32)
        self.begun: dict[EventId, _Entry] = {}
        self.has_ended = asyncio.Event()
        """An event that is set whenever an action ends. A caller that waits for the next end clears
        the event first."""

    def begin(self, action_id: EventId, host_id: str) -> None:
        self.begun[action_id] = _Entry(host_id)

    def end(self, action_id: EventId, observation: Mapping[str, Any]) -> None:
        if (entry := self.begun.get(action_id)) is not None:
            entry.observation = observation
            entry.has_ended = True
            self.has_ended.set()

    def received(self, action_id: EventId) -> None:
        """The sender has the observation: drop the observation, but remember that the action was
        done."""
        entry = self.begun.get(action_id)
        if entry is not None and entry.has_ended:
            entry.observation = None

    def acknowledged(self, action_id: EventId) -> None:
        if (entry := self.begun.get(action_id)) is not None:
            entry.is_acknowledged = True

    def unsent(self) -> list[Mapping[str, Any]]:
        return [
            entry.observation
            for entry in self.begun.values()
            if entry.observation is not None and not entry.is_acknowledged
        ]


class FakeWindow(Closable):
    """A window on a hub, from `connect` to `aclose`; it reconnects as the extension does.

    `editor_is_dead` simulates a killed browser: the socket stays open, but health checks get no
    answer and registration fails. `done` lists the ids of the executed actions in the order in
    which they began. `superseded` is set when the hub reports that another host of the window has
    taken over.
    """

    def __init__(
        self,
        hub_url: str,
        token: str,
        settings: SandboxSettings,
        *,
        name: str = "fake",
        journal: Journal | None = None,
        protocol_client: str = "bascule-fake/1",
        editor: FakeEditor | None = None,
    ) -> None:
        self.journal = journal or Journal()
        self.host_id = str(uuid4())
        self.name = name
        self.folder = str(settings.shells.working_dir)
        self.editor_is_dead = False
        self.editor = editor
        """Answers the requests of scripts, if given."""
        self.done: list[EventId] = []
        self.agents: set[str] = set()
        self.superseded = asyncio.Event()
        self.on_merge: Callable[[str, Mapping[str, Any]], Awaitable[None]] | None = None
        """Awaited with `began` or `ended` and the message, when a fork is merged."""
        self.review = FakeReview(lambda listed: self._start(self._emit("review.changed", listed)))
        """Pending changes of agents. They do not outlive the host."""
        # Real windows have their own way to language servers.
        self._settings = replace(settings, language_servers=False)
        self._checkpoints = _CheckpointNumbers()
        self._sandbox: Sandbox
        self._in_flight = InFlight()
        self._http = HttpClient(
            hub_url,
            headers={"Authorization": f"Bearer {token}"},
            unreachable=HubUnreachable,
        )
        self._socket = SocketClient(
            hub_url,
            token,
            namespace="/window",
            client=protocol_client,
            handlers={
                "oh_event": self._on_action,
                "oh_cancel": self._on_cancel,
                "oh_received": self._on_received,
                "health": self._on_health,
                "review.show": self._on_review_show,
                "review.answer": self._on_review_answer,
                "superseded": self._superseded,
                "merge.began": self._merge_began,
                "merge.ended": self._merge_ended,
            },
            on_connected=self._register,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def id(self) -> str:
        return self.journal.window_id

    @property
    def is_connected(self) -> bool:
        return self._socket.is_connected

    async def connect(self) -> None:
        self._sandbox = await asyncio.to_thread(Sandbox, self._settings)
        self._sandbox.watcher = self._checkpoints
        try:
            await self._socket.connect()
        except BaseException:
            await self.aclose()
            raise

    async def wait_connected(self) -> None:
        await self._socket.wait_connected()

    async def wait_ended(self) -> None:
        """Wait until the hub disconnects this window; raises the hub's error."""
        await self._socket.wait_refused()

    async def aclose(self) -> None:
        """End the host and every process it started; the journal stays."""
        await self._socket.aclose()
        await self._http.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sandbox.aclose()

    # Registering --------------------------------------------------------------------------

    async def _register(self, hello: Mapping[str, Any]) -> None:
        if self.editor_is_dead:
            raise HubUnreachable("The editor does not answer; this host cannot register")
        body = {
            "nonce": hello["nonce"],
            "window_id": self.journal.window_id,
            "window_key": self.journal.window_key,
            "host_id": self.host_id,
            "name": self.name,
            "folders": [{"name": self.name, "path": self.folder}],
            "vscode_version": "1.0.0",
            "extension_version": "0.0.0",
            "platform": "linux",
            "app": "fake",
            "remote": "local",
            "capabilities": sorted(self._capabilities),
            "reviews_merges": True,
        }
        reply = await self._http.request(
            "POST",
            "/api/vscode/register",
            body=to_json(body),
            headers={"Content-Type": "application/json"},
            timeout=10,
        )
        if reply.status != 200:
            raise error_from_wire(from_json(reply.body))
        for observation in self.journal.unsent():
            self._start(self._send(observation))
        if self.review.files:
            self._start(self._emit("review.changed", self.review.listed()))

    @property
    def _capabilities(self) -> frozenset[str]:
        return self._sandbox.capabilities | ({"bridge"} if self.editor is not None else set())

    async def _on_health(self, _data: object = None) -> object:
        if self.editor_is_dead:
            await asyncio.Event().wait()
        started = time.perf_counter()
        await asyncio.to_thread(os.stat, self.folder)
        return {"ok": True, "milliseconds": (time.perf_counter() - started) * 1000}

    async def _superseded(self, _data: object = None) -> None:
        """Cancel running actions without an answer: the hub uses the other host instead."""
        self.superseded.set()
        for task in self._tasks:
            task.cancel()

    async def _merge_began(self, merge: Mapping[str, Any]) -> object:
        if self.on_merge is not None:
            await self.on_merge("began", merge)
        return {}

    async def _merge_ended(self, merge: Mapping[str, Any]) -> None:
        if self.on_merge is not None:
            await self.on_merge("ended", merge)

    # Actions ------------------------------------------------------------------------------

    async def _on_action(self, event: Mapping[str, Any]) -> None:
        """Contains no await, so that actions begin in the order in which they arrived."""
        action_id = EventId(event["id"])
        self.agents.add(event["agent"])
        entry = self.journal.begun.get(action_id)
        if entry is None and float(event.get("age") or 0) > ACTION_LIFE:
            error = OutcomeUnknown("The window may have forgotten an action that is so old")
            self._answer(action_id, error_observation(error, action_id))
        elif entry is None:
            self.journal.begin(action_id, self.host_id)
            self.done.append(action_id)
            self._start(self._do(action_id, event))
        elif entry.observation is not None:
            self._start(self._send(entry.observation))
        elif entry.has_ended:
            error = OutcomeUnknown("The action ran, but its observation is no longer stored")
            self._answer(action_id, error_observation(error, action_id))
        elif entry.host_id != self.host_id:
            error = OutcomeUnknown("The window was reloaded while it did this")
            self._answer(action_id, error_observation(error, action_id))

    async def _do(self, action_id: EventId, event: Mapping[str, Any]) -> None:
        def on_progress(progress: OutputProgress) -> None:
            for start in range(0, len(progress.data), _MAX_PIECE_BYTES):
                piece = progress.data[start : start + _MAX_PIECE_BYTES]
                frame = encode_progress(
                    OutputProgress(progress.shell, progress.offset + start, piece)
                )
                self._start(self._emit("oh_progress", {"cause": action_id, **frame}))

        try:
            action = decode_action(event)
            watched = on_progress if event.get("progress") else None
            if isinstance(action, BridgeRequest) and self.editor is not None:
                work = answer_action(self.editor, action, on_progress=watched)
            else:
                work = self._sandbox.act(action, on_progress=watched)
            observation = await self._in_flight.run(action_id, work)
        except BasculeError as error:
            observation = error_observation(error, action_id)
        self._answer(action_id, observation)

    def _answer(self, action_id: EventId, observation: Observation) -> None:
        event = encode_observation(observation)
        if (number := self._checkpoints.found.pop(action_id, None)) is not None:
            event["checkpoint"] = number
        self.journal.end(action_id, event)
        self._start(self._send(event))

    async def _send(self, observation: Mapping[str, Any]) -> None:
        """Send an observation. Each reconnect sends it again until the hub acknowledges it."""
        try:
            await self._socket.call("oh_event", observation, timeout=_ACKNOWLEDGE_TIMEOUT)
        except MessageTooLarge as error:
            action_id = EventId(observation["cause"])
            self._answer(action_id, error_observation(_too_large(error), action_id))
            return
        except (LinkError, UsageError):
            return
        self.journal.acknowledged(observation["cause"])

    async def _emit(self, event: str, data: object) -> None:
        try:
            await self._socket.emit(event, data)
        except (LinkError, UsageError):
            return

    async def _on_received(self, data: Mapping[str, Any]) -> None:
        for action_id in data["ids"]:
            self.journal.received(EventId(action_id))

    async def _on_review_show(self, data: Mapping[str, Any]) -> object:
        return self.review.show(data)

    async def _on_review_answer(self, data: Mapping[str, Any]) -> object:
        return self.review.answer(data)

    async def _on_cancel(self, data: Mapping[str, Any]) -> object:
        return {"known": await self._in_flight.cancel(EventId(data["id"]))}

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _CheckpointNumbers:
    """Remembers the checkpoint of each action until its observation is sent."""

    def __init__(self) -> None:
        self.found: dict[EventId, int] = {}

    def began(self, _action: Action, on_progress: OnProgress | None) -> OnProgress:
        return on_progress or (lambda _: None)

    def ended(self, observation: Observation, _seconds: float, checkpoint: int | None) -> None:
        if checkpoint is not None and observation.cause is not None:
            self.found[observation.cause] = checkpoint

    def failed(self, _action_id: EventId, _seconds: float, _why: str) -> None:
        pass


def _too_large(error: MessageTooLarge) -> MessageTooLarge:
    return MessageTooLarge(f"{error.message}; ask for less of it")
