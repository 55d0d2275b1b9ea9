"""Windows of the hub for code in the hub's own process, without a socket."""

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

from .identity import Identity
from .registry import Registry
from .sockets import Sockets
from .switchboard import Asker, Event


class _Waiting(Asker):
    """A caller that waits for one observation."""

    def __init__(self, identity: Identity, on_progress: OnProgress | None) -> None:
        self.agent = identity.name
        self.agent_id = identity.agent_id
        self.answered: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._on_progress = on_progress

    async def answer(self, observation: Event) -> None:
        if not self.answered.done():
            self.answered.set_result(observation)

    async def progress(self, frame: Event) -> None:
        if self._on_progress is not None and not self.answered.done():
            self._on_progress(decode_progress(frame))

    async def fail(self, action_id: EventId | None, error: BasculeError) -> None:  # noqa: ARG002
        if not self.answered.done():
            self.answered.set_exception(error)
            self.answered.exception()  # told to whoever waits, if anybody does


class InProcessWindows(WindowLink):
    """The windows of a hub in this process, as `identity` may see and use them.

    With `confirms` the window is told that an observation was received, and need not keep it.
    Whoever hands observations on, and may fail at that, does without. `left` is set when the caller
    is gone: `act` fails with `OutcomeUnknown` then. An action that was begun continues, and a
    question about it is withdrawn unless somebody sends the same id again.
    """

    def __init__(
        self,
        sockets: Sockets,
        registry: Registry,
        identity: Identity,
        *,
        confirms: bool = True,
        left: asyncio.Event | None = None,
    ) -> None:
        self._confirms = confirms
        self._left = left
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
        self._ensure_open()
        event = encode_action(action)
        if on_progress is not None:
            event["progress"] = True
        if age:
            event["age"] = age
        waiting = _Waiting(self._identity, on_progress)
        try:
            async with self._sockets.leases.scope(self._identity):
                await self._sockets.hand_over(waiting, self._identity, window_id, event)
                observation = await self._answer(waiting)
        except AccessDenied:
            await self._sockets.cancel(waiting, action.id)
            raise
        except asyncio.CancelledError:
            await self._sockets.cancel(waiting, action.id)
            raise
        if self._confirms:
            await self._sockets.received(self._identity, window_id, [action.id])
        return decode_observation(observation)

    async def _answer(self, waiting: _Waiting) -> Event:
        if self._left is None:
            return await waiting.answered
        leaving = asyncio.create_task(self._left.wait())
        try:
            first: set[asyncio.Future[Any]] = {waiting.answered, leaving}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        if not waiting.answered.done():
            self._sockets.leave(waiting)
            raise OutcomeUnknown("The caller disconnected before the window answered")
        return waiting.answered.result()

    async def changed(self) -> None:
        await self._sockets.next_change()

    async def returned(self, window_id: WindowId) -> None:
        while True:
            change = self._sockets.next_change()
            try:
                self._sockets.ensure_visible(self._identity, window_id)
                self._registry.speaker(window_id)
            except (LinkError, UsageError):
                await change
            else:
                return

    async def aclose(self) -> None:
        self._closed = True

    def _ensure_open(self) -> None:
        if self._closed:
            raise UsageError("This link was closed; make another")
