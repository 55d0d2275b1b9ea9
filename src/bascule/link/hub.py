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
    NoSuchWindow,
    UsageError,
)
from bascule.core.identity import EventId
from bascule.core.observations import Observation
from bascule.core.tracing import TRACEPARENT, TRACEPARENT_FIELD
from bascule.core.windows import Window, WindowId
from bascule.wire import (
    decode_observation,
    decode_progress,
    encode_action,
    error_from_wire,
)

from .hub_calls import HubCalls
from .receipts import Receipts

_CANCEL_TIMEOUT: Final = 12.0
"""Seconds to wait for a window to end a cancelled action."""


class _PendingAction:
    """A caller that waits for an observation."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self.observation: asyncio.Future[Mapping[str, Any]] = (
            asyncio.get_running_loop().create_future()
        )
        self.on_progress = on_progress

    def fail(self, error: BasculeError) -> None:
        if not self.observation.done():
            self.observation.set_exception(error)
            self.observation.exception()  # marks it as retrieved: else asyncio logs an error


class HubLink(WindowLink):
    """Connects to the hub at `url`: actions over one socket, other calls over HTTP.

    The socket reconnects when it breaks; pending calls then raise `HubUnreachable`.
    """

    def __init__(self, url: str, token: str, *, client: str = "") -> None:
        # Imported here: the import takes 0.2 s, and every import of a runtime imports this module.
        from .socketio import SocketClient

        self._calls = HubCalls(url, token)
        self._socket = SocketClient(
            url,
            token,
            namespace="/runtime",
            client=client or f"bascule-python/{bascule.__version__}",
            handlers={
                "oh_event": self._on_observation,
                "oh_progress": self._on_progress,
                "oh_failed": self._on_failure,
                "window.status": self._on_status,
            },
            on_connected=self._on_connected,
            on_lost=self._on_lost,
        )
        self._pending: dict[EventId, _PendingAction] = {}
        self._receipts = Receipts(self._confirm)
        self._window_change: asyncio.Future[None] | None = None

    async def connect(self) -> None:
        await self._socket.connect()

    async def aclose(self) -> None:
        for pending in self._pending.values():
            pending.fail(UsageError("The runtime was closed"))
        await self._receipts.aclose()
        await self._socket.aclose()
        self._notify_change()
        await self._calls.aclose()

    async def windows(self) -> Sequence[Window]:
        return await self._calls.windows()

    async def watch(self) -> AsyncIterator[Sequence[Window]]:
        """Yield the current windows, and again after each possible change."""
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
        if traceparent := TRACEPARENT.get():
            event[TRACEPARENT_FIELD] = traceparent
        pending = self._pending[action.id] = _PendingAction(on_progress)
        try:
            await self._socket.emit("oh_event", {"window_id": window_id, "event": event})
            observation = await pending.observation
        except asyncio.CancelledError:
            await self._cancel(window_id, action.id)
            raise
        finally:
            if self._pending.get(action.id) is pending:
                del self._pending[action.id]
        self._receipts.add(window_id, action.id)
        return decode_observation(observation)

    async def wait_for_change(self) -> None:
        await self._next_change()

    async def wait_until_healthy(self, window_id: WindowId) -> None:
        while True:
            await self._socket.wait_connected()
            change = self._next_change()
            with suppress(NoSuchWindow, HubUnreachable):
                if (await self._calls.window(window_id)).status == "healthy":
                    return
            await change

    # Events -------------------------------------------------------------------------------

    async def _on_connected(self, _hello: Mapping[str, Any]) -> None:
        self._notify_change()

    def _on_lost(self) -> None:
        error = HubUnreachable(
            f"The connection to the hub at {self._calls.url} was lost",
            url=self._calls.url,
            sent=True,
        )
        for pending in self._pending.values():
            pending.fail(error)
        self._notify_change()

    async def _on_observation(self, data: Mapping[str, Any]) -> object:
        pending = self._pending.get(data.get("cause", ""))
        if pending is not None and not pending.observation.done():
            pending.observation.set_result(data)
        return {"received": True}

    async def _on_progress(self, data: Mapping[str, Any]) -> None:
        pending = self._pending.get(data.get("cause", ""))
        if pending is not None and pending.on_progress is not None:
            pending.on_progress(decode_progress(data))

    async def _on_failure(self, data: Mapping[str, Any]) -> None:
        pending = self._pending.get(data.get("cause", ""))
        if pending is not None:
            pending.fail(error_from_wire(data))

    async def _on_status(self, _data: Mapping[str, Any]) -> None:
        self._notify_change()

    # --------------------------------------------------------------------------------------

    async def _confirm(self, window_id: WindowId, ids: Sequence[EventId]) -> None:
        """Confirm received observations; a window keeps unconfirmed ones."""
        with suppress(LinkError, UsageError, AccessDenied):
            await self._socket.emit("oh_received", {"window_id": window_id, "ids": list(ids)})

    async def _cancel(self, window_id: WindowId, action_id: EventId) -> None:
        """Make the window end the action, and wait for its reply."""
        with suppress(LinkError, UsageError):
            request = {"window_id": window_id, "id": action_id}
            await self._socket.call("oh_cancel", request, timeout=_CANCEL_TIMEOUT)

    def _next_change(self) -> asyncio.Future[None]:
        if self._window_change is None:
            self._window_change = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._window_change)

    def _notify_change(self) -> None:
        if self._window_change is not None:
            self._window_change.set_result(None)
            self._window_change = None
