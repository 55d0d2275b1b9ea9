"""The runtimes that are connected to the hub by Socket.IO, and the messages they send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import socketio

from bascule.core.errors import BasculeError, InvalidAction
from bascule.core.identity import EventId
from bascule.core.windows import WindowId
from bascule.wire import error_to_wire

from .approvals import PlaceId
from .identity import Identity
from .leases import Lease, TokenLeases
from .socketio_server import RUNTIME, Greeter, connecting_identity
from .switchboard import Caller, Event

RECEIVED: Final = {"received": True}
"""Acknowledges a message that must not get lost."""
_MAX_QUEUED: Final = 256
"""Maximum number of queued messages of a runtime. Above it, progress is dropped, but no answer."""


class WindowActions(Protocol):
    """The operations that runtimes request; `Sockets` implements them."""

    async def send_action(
        self, caller: Caller, identity: Identity, window_id: WindowId, event: Mapping[str, Any]
    ) -> None: ...

    async def cancel(self, caller: Caller, action_id: EventId) -> bool: ...

    def leave(self, caller: Caller) -> None: ...

    def end_all(self, caller: Caller) -> None: ...

    async def received(
        self, identity: Identity, window_id: WindowId, ids: Sequence[EventId]
    ) -> None: ...

    async def answer_as(
        self, who: Identity, place_id: PlaceId, question: str, answer: str
    ) -> None: ...


class RuntimeSocket(Caller):
    """A runtime that is connected by a socket."""

    def __init__(self, server: socketio.AsyncServer, sid: str, identity: Identity) -> None:
        self.agent = identity.name
        self.agent_id = identity.agent_id
        self.identity = identity
        self._server = server
        self._sid = sid

    async def answer(self, observation: Event) -> None:
        await self.send("oh_event", observation)

    async def progress(self, frame: Event) -> None:
        if self._queued() < _MAX_QUEUED:
            await self.send("oh_progress", frame)

    async def fail(self, action_id: EventId | None, error: BasculeError) -> None:
        await self.send("oh_failed", {"cause": action_id, **error_to_wire(error)})

    async def send(self, event: str, data: object) -> None:
        await self._server.emit(event, data, to=self._sid, namespace=RUNTIME)

    def _queued(self) -> int:
        eio_sid = self._server.manager.eio_sid_from_sid(self._sid, RUNTIME)
        socket = self._server.eio.sockets.get(eio_sid)
        return 0 if socket is None else int(socket.queue.qsize())


class RuntimeSockets:
    """Every connected runtime."""

    def __init__(
        self,
        server: socketio.AsyncServer,
        greeter: Greeter,
        *,
        leases: TokenLeases,
        actions: WindowActions,
    ) -> None:
        self._server = server
        self._greeter = greeter
        self._leases = leases
        self._actions = actions
        self._runtimes: dict[str, RuntimeSocket] = {}
        self._open_leases: dict[str, Lease] = {}
        """Leases of runtimes, by the ids of their sockets."""
        on = server.on
        on("connect", self._on_connect, namespace=RUNTIME)
        on("disconnect", self._on_disconnect, namespace=RUNTIME)
        on("oh_event", self._on_action, namespace=RUNTIME)
        on("oh_cancel", self._on_cancel, namespace=RUNTIME)
        on("oh_received", self._on_received, namespace=RUNTIME)
        on("approval.answered", self._on_approval_answered, namespace=RUNTIME)

    def __len__(self) -> int:
        return len(self._runtimes)

    async def send(self, event: str, data: object, *, to: Callable[[Identity], bool]) -> None:
        """Send an event to every runtime whose identity `to` accepts."""
        for runtime in list(self._runtimes.values()):
            if to(runtime.identity):
                await runtime.send(event, data)

    async def _on_connect(self, sid: str, environ: Mapping[str, Any], auth: object) -> None:
        identity = connecting_identity(environ, "member", "agent", "admin")
        runtime = self._runtimes[sid] = RuntimeSocket(self._server, sid, identity)
        self._open_leases[sid] = self._leases.open(
            identity.token_hash, lambda: self._actions.end_all(runtime)
        )
        self._greeter.greet(sid, RUNTIME, auth)

    async def _on_disconnect(self, sid: str, _reason: object) -> None:
        if (lease := self._open_leases.pop(sid, None)) is not None:
            lease.close()
        runtime = self._runtimes.pop(sid, None)
        if runtime is not None:
            self._actions.leave(runtime)

    async def _on_action(self, sid: str, data: object) -> object:
        runtime = self._runtimes.get(sid)
        if runtime is None:  # the runtime disconnected before its message was handled
            return None
        event = data.get("event") if isinstance(data, Mapping) else None
        try:
            window_id, event = _window_and_event(data, event)
            await self._actions.send_action(runtime, runtime.identity, window_id, event)
            if sid not in self._runtimes:  # the runtime disconnected before the action was sent
                self._actions.leave(runtime)
        except BasculeError as error:
            cause = event.get("id") if isinstance(event, Mapping) else None
            await runtime.fail(cause, error)
        return RECEIVED

    async def _on_cancel(self, sid: str, data: object) -> object:
        action_id = data.get("id") if isinstance(data, Mapping) else None
        runtime = self._runtimes.get(sid)
        if runtime is None or not isinstance(action_id, str):
            return {"known": False}
        return {"known": await self._actions.cancel(runtime, EventId(action_id))}

    async def _on_received(self, sid: str, data: object) -> None:
        runtime = self._runtimes.get(sid)
        if runtime is None or not isinstance(data, Mapping):
            return
        window_id, ids = data.get("window_id"), data.get("ids")
        if isinstance(window_id, str) and isinstance(ids, list):
            known = [EventId(each) for each in ids if isinstance(each, str)]
            await self._actions.received(runtime.identity, WindowId(window_id), known)

    async def _on_approval_answered(self, sid: str, data: object) -> None:
        runtime = self._runtimes.get(sid)
        if runtime is None or not isinstance(data, Mapping):
            return
        window_id, question = WindowId(str(data.get("window_id"))), str(data.get("id"))
        try:
            await self._actions.answer_as(
                runtime.identity, window_id, question, str(data.get("answer"))
            )
        except BasculeError:
            return  # an agent, or the question was answered already, or its window is gone


def _window_and_event(data: object, event: object) -> tuple[WindowId, Mapping[str, Any]]:
    window_id = data.get("window_id") if isinstance(data, Mapping) else None
    if not isinstance(window_id, str) or not isinstance(event, Mapping):
        raise InvalidAction("`oh_event` needs {window_id, event}, with the action as `event`")
    return WindowId(window_id), event
