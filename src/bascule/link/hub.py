"""Access to a hub's windows from another process or machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import bascule
from bascule.core.actions import Action
from bascule.core.contracts import OnProgress, WindowLink
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    HubUnreachable,
    LinkError,
    MessageTooLarge,
    NoSuchWindow,
    UsageError,
)
from bascule.core.identity import EventId
from bascule.core.observations import Observation
from bascule.core.windows import Window, WindowId
from bascule.wire import (
    decode_observation,
    decode_progress,
    encode_action,
    error_from_wire,
    to_json,
)

from .hub_calls import HubCalls
from .receipts import Receipts

_CANCEL: Final = 12.0
"""Seconds in which a window has ended a cancelled action, or is given up on."""
_ENVELOPE: Final = 1024
"""Bytes around an action on its way to a window."""


class _Waiting:
    """A caller that waits for an observation."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self.answered: asyncio.Future[Mapping[str, Any]] = (
            asyncio.get_running_loop().create_future()
        )
        self.on_progress = on_progress

    def fail(self, error: BasculeError) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)
            self.answered.exception()  # told to whoever waits, if anybody does


class HubLink(WindowLink):
    """Connects to the hub at `url`: actions over one socket, other calls over HTTP.

    The socket is made again when it breaks; whoever waited is told by `HubUnreachable`.
    """

    def __init__(self, url: str, token: str, *, client: str = "") -> None:
        # Not at the head: it costs 0.2 s, and every runtime is imported with this one.
        from .socketio import SocketClient

        self._calls = HubCalls(url, token)
        self._socket = SocketClient(
            url,
            token,
            namespace="/runtime",
            client=client or f"bascule-python/{bascule.__version__}",
            handlers={
                "oh_event": self._observation_came,
                "oh_progress": self._progress_came,
                "oh_failed": self._failure_came,
                "window.status": self._status_came,
            },
            on_connected=self._greeted,
            on_lost=self._lost,
        )
        self._waiting: dict[EventId, _Waiting] = {}
        self._receipts = Receipts(self._confirm)
        self._limit = 0
        self._window_change: asyncio.Future[None] | None = None

    async def connect(self) -> None:
        await self._socket.connect()

    async def aclose(self) -> None:
        for waiting in self._waiting.values():
            waiting.fail(UsageError("The runtime was closed"))
        await self._receipts.aclose()
        await self._socket.aclose()
        self._notify_change()
        await self._calls.aclose()

    async def windows(self) -> Sequence[Window]:
        return await self._calls.windows()

    async def watch(self) -> AsyncIterator[Sequence[Window]]:
        """The present windows, and again after each possible change."""
        while True:
            await self._socket.wait_connected()
            change = self._next_change()
            yield await self._calls.windows()
            await change

    async def act(
        self,
        window_id: WindowId,
        action: Action,
        *,
        on_progress: OnProgress | None = None,
        age: float = 0.0,
    ) -> Observation:
        event = encode_action(action)
        if on_progress is not None:
            event["progress"] = True
        if age:
            event["age"] = age
        self._ensure_fits(event)
        waiting = self._waiting[action.id] = _Waiting(on_progress)
        try:
            await self._socket.emit("oh_event", {"window_id": window_id, "event": event})
            observation = await waiting.answered
        except asyncio.CancelledError:
            await self._cancel(window_id, action.id)
            raise
        finally:
            if self._waiting.get(action.id) is waiting:
                del self._waiting[action.id]
        self._receipts.add(window_id, action.id)
        return decode_observation(observation)

    async def changed(self) -> None:
        await self._next_change()

    async def returned(self, window_id: WindowId) -> None:
        while True:
            await self._socket.wait_connected()
            change = self._next_change()
            with suppress(NoSuchWindow, HubUnreachable):
                if (await self._calls.window(window_id)).status == "healthy":
                    return
            await change

    # Events -------------------------------------------------------------------------------

    async def _greeted(self, hello: Mapping[str, Any]) -> None:
        self._limit = int(hello.get("limits", {}).get("message_bytes", 0))
        self._notify_change()

    def _lost(self) -> None:
        error = HubUnreachable(
            f"The connection to the hub at {self._calls.url} broke", url=self._calls.url, sent=True
        )
        for waiting in self._waiting.values():
            waiting.fail(error)
        self._notify_change()

    async def _observation_came(self, data: Mapping[str, Any]) -> object:
        waiting = self._waiting.get(data.get("cause", ""))
        if waiting is not None and not waiting.answered.done():
            waiting.answered.set_result(data)
        return {"received": True}

    async def _progress_came(self, data: Mapping[str, Any]) -> None:
        waiting = self._waiting.get(data.get("cause", ""))
        if waiting is not None and waiting.on_progress is not None:
            waiting.on_progress(decode_progress(data))

    async def _failure_came(self, data: Mapping[str, Any]) -> None:
        waiting = self._waiting.get(data.get("cause", ""))
        if waiting is not None:
            waiting.fail(error_from_wire(data))

    async def _status_came(self, _data: Mapping[str, Any]) -> None:
        self._notify_change()

    # --------------------------------------------------------------------------------------

    def _ensure_fits(self, event: Mapping[str, Any]) -> None:
        size = len(to_json(event)) + _ENVELOPE
        if self._limit and size > self._limit:
            raise MessageTooLarge(
                f"The action has {size} bytes and the hub takes {self._limit}", limit=self._limit
            )

    async def _confirm(self, window_id: WindowId, ids: Sequence[EventId]) -> None:
        """Confirm received observations; a window keeps unconfirmed ones."""
        with suppress(LinkError, UsageError, AccessDenied):
            await self._socket.emit("oh_received", {"window_id": window_id, "ids": list(ids)})

    async def _cancel(self, window_id: WindowId, action_id: EventId) -> None:
        """Make the window end the action, and wait for that."""
        with suppress(LinkError, UsageError):
            asked = {"window_id": window_id, "id": action_id}
            await self._socket.call("oh_cancel", asked, timeout=_CANCEL)

    def _next_change(self) -> asyncio.Future[None]:
        if self._window_change is None:
            self._window_change = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._window_change)

    def _notify_change(self) -> None:
        if self._window_change is not None:
            self._window_change.set_result(None)
            self._window_change = None
