"""Hub transport: reaches a window through a hub, for programs that were not started
by a window's run or debug session."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from bascule.core.contracts import OutputProgress, WindowLink
from bascule.core.editor_actions import BridgeRequest
from bascule.core.editor_observations import BridgeAnswered
from bascule.core.errors import (
    BasculeError,
    BridgeClosed,
    BridgeError,
    BridgeProtocol,
    BridgeRefused,
    BridgeUnavailable,
    LinkError,
    NotAllowed,
    UnknownRequest,
)
from bascule.core.identity import new_id
from bascule.core.observations import Error, Observation
from bascule.core.window_choice import choose
from bascule.core.windows import WindowId
from bascule.link.hub import HubLink
from bascule.wire.bridge import (
    Cancel,
    Event,
    Message,
    Piece,
    Request,
    RequestId,
    Response,
    encode,
    error_from_wire,
)

from .transport import TransportReceiver

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT: Final = 5.0
"""Seconds for a hub to answer; the hub may be far away."""
_CLOSE_TIMEOUT: Final = 1.0
_TRANSLATED: Final = {
    "access.denied": BridgeRefused,
    "capability.missing": UnknownRequest,
    "consent.denied": NotAllowed,
    "workspace.untrusted": NotAllowed,
}
"""The bridge error for each error code with which a hub or window may refuse any action."""


class HubTransport:
    """Connects to a window of the hub at `url`, on an event loop in its own thread.

    `window` is an id, path or name, as for `VSCodeRuntime`; if empty, there must be exactly one
    window. Each request is an action of kind `bridge`, so the window's user is asked to allow the
    token's holder. Events are not transported.
    """

    kind = "hub"

    def __init__(
        self,
        url: str,
        token: str,
        *,
        window: str = "",
        link: Callable[[], WindowLink] | None = None,
    ) -> None:
        self._new_link = link or (lambda: HubLink(url, token, client="vscode_bridge"))
        self._selector = window
        self._url = url
        self._loop: asyncio.AbstractEventLoop
        self._closing: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._tasks: dict[RequestId, asyncio.Task[None]] = {}
        self._actions: dict[RequestId, str] = {}
        self._link: WindowLink
        self._window: WindowId
        self._receiver: TransportReceiver

    def start(self, receiver: TransportReceiver) -> None:
        self._receiver = receiver
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="vscode-bridge", daemon=True
        )
        self._thread.start()

    def send(self, message: Message) -> None:
        encode(message)  # only a check: raises if the message is too large or not JSON
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, message)

    def close(self) -> None:
        if self._closing is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closing.set)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_TIMEOUT)

    # On the loop --------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._new_link() as self._link:
                await self._find()
                self._receiver.connected(is_same_peer=False)
                await self._closing.wait()
                for task in list(self._tasks.values()):
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        except BridgeError as error:
            self._receiver.ended(error)

    async def _find(self) -> None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await self._link.connect()
                self._window = choose(await self._link.windows(), self._selector).id
        except TimeoutError as error:
            raise BridgeUnavailable(f"The hub at {self._url} does not answer") from error
        except BasculeError as error:
            raise _as_bridge_error(error, BridgeUnavailable) from error

    def _take(self, message: Message) -> None:
        match message:
            case Request(id):
                action = BridgeRequest(message.type, message.params)
                self._actions[id] = action.id
                task = self._loop.create_task(self._ask(id, action))
                self._tasks[id] = task
                task.add_done_callback(lambda _: self._forget(id))
            case Cancel(id) if id in self._tasks:
                self._tasks[id].cancel()
            case Piece(id, value) if id in self._actions:
                # A hub has no message for a piece of a request. So the piece is sent as a request
                # with an id that nobody waits for.
                params = {"id": self._actions[id], "value": value}
                request = Request(f"{id} {new_id()}", "$/progress", params)
                self._take(request)
            case Event(event):
                logger.warning("the event %s is not sent: a hub transmits no events", event)

    async def _ask(self, id: RequestId, action: BridgeRequest) -> None:
        pieces = _Pieces(lambda value: self._receiver.received(Piece(id, value)))
        try:
            observation = await self._link.act(self._window, action, on_progress=pieces.take)
            response = Response(id, _answer(observation))
        except BridgeError as error:
            response = Response(id, error=error)
        except BasculeError as error:
            response = Response(id, error=_as_bridge_error(error, BridgeClosed))
        self._receiver.received(response)

    def _forget(self, id: RequestId) -> None:
        self._tasks.pop(id, None)
        self._actions.pop(id, None)


class _Pieces:
    """Splits streamed output into lines and decodes each as JSON."""

    def __init__(self, on_value: Callable[[Any], None]) -> None:
        self._on_value = on_value
        self._unfinished_line = b""

    def take(self, progress: OutputProgress) -> None:
        *lines, self._unfinished_line = (self._unfinished_line + progress.data).split(b"\n")
        for line in lines:
            self._on_value(json.loads(line))


def _answer(observation: Observation) -> Any:
    if isinstance(observation, BridgeAnswered):
        if observation.error is not None:
            raise error_from_wire(observation.error)
        return observation.result
    if isinstance(observation, Error):
        error_class = _TRANSLATED.get(observation.error_id)
        if error_class is not None:
            raise error_class(observation.content)
        raise error_from_wire({"code": observation.error_id, "message": observation.content})
    raise BridgeProtocol(f"The window answered with {observation.kind!r}")


def _as_bridge_error(error: BasculeError, otherwise: type[BridgeError]) -> BridgeError:
    error_class = _TRANSLATED.get(error.code, otherwise)
    if isinstance(error, LinkError) and error_class is BridgeClosed:
        return BridgeClosed(f"{error.message}; the request may have taken effect")
    return error_class(error.message)
