"""Access to the hub's windows for code in the hub's own process, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bascule.core.actions import Action
from bascule.core.contracts import OnProgress, WindowLink
from bascule.core.errors import AccessDenied, BasculeError, LinkError, OutcomeUnknown, UsageError
from bascule.core.identity import EventId
from bascule.core.observations import Observation
from bascule.core.windows import Window, WindowId
from bascule.wire import decode_observation, decode_progress, encode_action

from .disconnects import CALLER_LEFT
from .identity import Identity
from .registry import Registry
from .sockets import Sockets
from .switchboard import Caller, Event


class _WaitingCaller(Caller):
    """A caller that waits for one observation."""

    def __init__(self, identity: Identity, on_progress: OnProgress | None) -> None:
        self.agent = identity.name
        self.agent_id = identity.agent_id
        self.reply: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._on_progress = on_progress

    async def answer(self, observation: Event) -> None:
        if not self.reply.done():
            self.reply.set_result(observation)

    async def progress(self, frame: Event) -> None:
        if self._on_progress is not None and not self.reply.done():
            self._on_progress(decode_progress(frame))

    async def fail(self, action_id: EventId | None, error: BasculeError) -> None:  # noqa: ARG002
        if not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # avoids asyncio's warning if nobody awaits


class InProcessWindows(WindowLink):
    """The windows of a hub in this process, as `identity` may see and use them.

    With `confirms`, `act` confirms each observation to the window, which then deletes its copy.
    Callers that forward observations pass False, because forwarding may fail.

    `disconnected`, or else `CALLER_LEFT`, is set when the caller has disconnected: `act` then fails
    with `OutcomeUnknown`. A started action continues. The window withdraws its question about the
    action unless the same id is sent again.
    """

    def __init__(
        self,
        sockets: Sockets,
        registry: Registry,
        identity: Identity,
        *,
        confirms: bool = True,
        disconnected: asyncio.Event | None = None,
    ) -> None:
        self._confirms = confirms
        self._disconnected = disconnected
        self._sockets = sockets
        self._registry = registry
        self._identity = identity
        self._closed = False

    async def connect(self) -> None:
        self._ensure_open()

    async def windows(self) -> Sequence[Window]:
        self._ensure_open()
        return [each for each in self._registry.windows() if self._identity.may_see(each.owner)]

    async def act(
        self,
        window_id: WindowId,
        action: Action,
        *,
        on_progress: OnProgress | None = None,
        age: float = 0.0,
    ) -> Observation:
        event = encode_action(action)
        return await self.send(window_id, event, on_progress=on_progress, age=age)

    async def send(
        self,
        window_id: WindowId,
        event: Event,
        *,
        on_progress: OnProgress | None = None,
        age: float = 0.0,
    ) -> Observation:
        """Like `act`, for callers that have the encoded form of a valid action already."""
        self._ensure_open()
        action_id = EventId(event["id"])
        flags = ({"progress": True} if on_progress else {}) | ({"age": age} if age else {})
        caller = _WaitingCaller(self._identity, on_progress)
        try:
            async with self._sockets.leases.scope(self._identity):
                await self._sockets.send_action(
                    caller, self._identity, window_id, {**event, **flags}, is_valid=True
                )
                observation = await self._answer(caller)
        except (AccessDenied, asyncio.CancelledError):
            await self._sockets.cancel(caller, action_id)
            raise
        if self._confirms:
            await self._sockets.received(self._identity, window_id, [action_id])
        return decode_observation(observation)

    async def _answer(self, caller: _WaitingCaller) -> Event:
        disconnected = self._disconnected or CALLER_LEFT.get()
        if disconnected is None:
            return await caller.reply
        disconnect = asyncio.create_task(disconnected.wait())
        try:
            futures: set[asyncio.Future[Any]] = {caller.reply, disconnect}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnect.cancel()
        if not caller.reply.done():
            self._sockets.leave(caller)
            raise OutcomeUnknown("The caller disconnected before the window answered")
        return caller.reply.result()

    async def wait_for_change(self) -> None:
        await self._sockets.next_change()

    async def wait_until_healthy(self, window_id: WindowId) -> None:
        while True:
            change = self._sockets.next_change()
            try:
                self._sockets.ensure_visible(self._identity, window_id)
                self._registry.active_host(window_id)
            except (LinkError, UsageError):
                await change
            else:
                return

    async def aclose(self) -> None:
        self._closed = True

    def _ensure_open(self) -> None:
        if self._closed:
            raise UsageError("This link was closed; create a new one")
