"""Sends requests to a window and matches the replies. Works with every transport."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from bascule.core.errors import (
    BridgeCancelled,
    BridgeClosed,
    BridgeError,
    BridgeTimeout,
)
from bascule.wire.bridge import (
    PING,
    Cancel,
    Event,
    Message,
    Piece,
    Request,
    RequestId,
    Response,
)

from .transport import Transport

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 2.0
"""Seconds to wait beyond a request's timeout. The window itself enforces and reports the
timeout."""
_PING_TIMEOUT: Final = 1.0
"""Seconds that `is_available` waits for an answer."""
_MAX_EARLY_VALUES: Final = 256
"""Maximum number of values that are added to a request before there is a connection. The oldest
values are dropped."""
_REPEATABLE: Final = frozenset(
    {
        PING,
        "vscode/chatModels",
        "vscode/getChatHistory",
        "vscode/activeEditor",
        "vscode/diagnostics",
    }
)
"""Requests without side effects, which may be sent twice."""

_NO_VALUE: Final = object()

OnProgress = Callable[[Any], None]
Listener = Callable[[str, Mapping[str, Any]], None]


class _State(Enum):
    IDLE = auto()
    """Not started, or ended. The next request starts the transport."""
    OPENING = auto()
    CONNECTED = auto()
    LOST = auto()
    CLOSED = auto()


class _Pending:
    """A request without a reply so far. `settle` is called once, with the reply or an error."""

    def __init__(
        self, client: BridgeClient, request: Request, on_progress: OnProgress | None
    ) -> None:
        self.request = request
        self.on_progress = on_progress
        self.is_sent = False
        self.is_open = False
        """Whether added values can be sent now. Otherwise they wait in `early`."""
        self.early: deque[Any] | None = None
        self._client = client

    def settle(self, result: Any, error: BridgeError | None) -> None:
        raise NotImplementedError

    def withdraw(self) -> None:
        """Stop waiting for the reply, and cancel the request in the window if it was sent."""
        if self._client.drop(self) and self.is_sent:
            self._client.post(Cancel(self.request.id))


class _BlockingRequest(_Pending):
    """A request whose caller blocks. A `SimpleQueue` is the fastest way to wake the caller."""

    def __init__(
        self, client: BridgeClient, request: Request, on_progress: OnProgress | None
    ) -> None:
        super().__init__(client, request, on_progress)
        self.settled: SimpleQueue[tuple[Any, BridgeError | None]] = SimpleQueue()

    def settle(self, result: Any, error: BridgeError | None) -> None:
        self.settled.put((result, error))


class PendingReply(_Pending, Future[Any]):
    """The future reply to a request. Cancelling it cancels the request in the window."""

    def __init__(
        self, client: BridgeClient, request: Request, on_progress: OnProgress | None
    ) -> None:
        _Pending.__init__(self, client, request, on_progress)
        Future.__init__(self)

    def cancel(self) -> bool:
        # Withdraw first: `Future.cancel` runs callbacks. An event loop's future would call this
        # method again and send from the loop's thread.
        self.withdraw()
        return super().cancel()

    def add(self, value: Any) -> None:
        """Send the window another value for the request while it is pending."""
        self._client.add(self, value)

    def settle(self, result: Any, error: BridgeError | None) -> None:
        if not self.set_running_or_notify_cancel():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)


class BridgeClient:
    """A `Bridge` over a transport, which the first request starts.

    The transport reconnects a lost connection. The client then sends an unanswered request again
    with the same id if this is safe: the window remembers the request, or the request has no side
    effects. Other requests fail with `BridgeClosed`.
    """

    def __init__(self, transport: Transport, *, grace: float = _GRACE_SECONDS) -> None:
        self._transport = transport
        self._grace = grace
        self._lock = threading.RLock()
        self._state = _State.IDLE
        self._pending: dict[RequestId, _Pending] = {}
        self._listeners: list[Listener] = []
        self._prefix = os.urandom(4).hex()
        """Makes request ids unique among the clients of one run."""
        self._numbers = itertools.count(1)

    @property
    def kind(self) -> str:
        return self._transport.kind

    def is_available(self) -> bool:
        answer = self.begin(PING)
        try:
            answer.result(_PING_TIMEOUT)
        except TimeoutError:
            answer.cancel()
            return False
        except BridgeError as error:
            return error.code in ("bridge.unknown_type", "bridge.remote")  # the window answered
        return True

    def begin(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> PendingReply:
        answer = PendingReply(self, self._request(type, params, timeout), on_progress)
        self._begin(answer)
        return answer

    def request(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        waiting = _BlockingRequest(self, self._request(type, params, timeout), on_progress)
        try:
            self._begin(waiting)
            limit = None if timeout is None else timeout + self._grace
            result, error = waiting.settled.get(timeout=limit)
        except Empty:
            waiting.withdraw()
            raise _timeout_error(type, timeout) from None
        except BaseException:
            waiting.withdraw()
            raise
        if error is not None:
            raise error
        return result

    async def arequest(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        import asyncio  # imported here: most scripts do not need it

        # Send in a thread, because sending blocks while the window is slow to read.
        beginning = asyncio.ensure_future(
            asyncio.to_thread(self.begin, type, params, timeout=timeout, on_progress=on_progress)
        )
        try:
            return await self._wait_for(await asyncio.shield(beginning), timeout)
        except asyncio.CancelledError:
            beginning.add_done_callback(_cancel_in_thread)
            raise

    async def _wait_for(self, answer: PendingReply, timeout: float | None) -> Any:
        import asyncio

        reply = asyncio.wrap_future(answer)
        limit = None if timeout is None else timeout + self._grace
        done, _ = await asyncio.wait({reply}, timeout=limit)
        if done and not answer.cancelled():
            return reply.result()
        if not done:
            await asyncio.to_thread(answer.cancel)
            raise _timeout_error(answer.request.type, timeout)
        raise BridgeCancelled("The request was cancelled")

    def send_event(self, event: str, body: Mapping[str, Any]) -> None:
        with self._lock:
            is_starting = self._state in (_State.IDLE, _State.OPENING)
        if is_starting:
            self.is_available()  # starts the transport and waits for it
        self.post(Event(event, body))

    tell = send_event
    """Old name of `send_event`."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        with self._lock:
            self._listeners = [*self._listeners, listener]

        def stop() -> None:
            with self._lock:
                self._listeners = [each for each in self._listeners if each is not listener]

        return stop

    def close(self) -> None:
        with self._lock:
            if self._state is _State.CLOSED:
                return
            self._state = _State.CLOSED
            waiting = self._take_all()
        self._transport.close()
        for each in waiting:
            each.settle(None, _closed_error())

    # Beginning ----------------------------------------------------------------------------

    def _request(
        self, type: str, params: Mapping[str, Any] | None, timeout: float | None
    ) -> Request:
        values = dict(params or {})
        if timeout is not None:
            values["timeout"] = round(timeout * 1000)
        return Request(f"{self._prefix}-{next(self._numbers)}", type, values)

    def _begin(self, pending: _Pending) -> None:
        with self._lock:
            state = self._state
            if state is not _State.CLOSED:
                self._pending[pending.request.id] = pending
                pending.is_sent = state is _State.CONNECTED
            if state is _State.IDLE:
                self._state = _State.OPENING
        if state is _State.CLOSED:
            pending.settle(None, _closed_error())
        elif state is _State.CONNECTED:
            self._send(pending)
        elif state is _State.IDLE:
            self._transport.start(self)

    # Called by pending requests -----------------------------------------------------------

    def drop(self, pending: _Pending) -> bool:
        """Stop waiting for a reply. Returns False if the request was settled or dropped before."""
        with self._lock:
            return self._pending.pop(pending.request.id, None) is not None

    def add(self, answer: PendingReply, value: Any) -> None:
        with self._lock:
            if answer.request.id not in self._pending:
                return
            if not answer.is_open:
                answer.early = answer.early or deque(maxlen=_MAX_EARLY_VALUES)
                answer.early.append(value)
                return
        self.post(Piece(answer.request.id, value))

    def post(self, message: Message) -> None:
        """Send a message that needs no answer. Without a connection, the message is dropped."""
        with self._lock:
            if self._state is not _State.CONNECTED:
                return
        self._transport.send(message)

    # Called by the transport --------------------------------------------------------------

    def connected(self, *, is_same_peer: bool) -> None:
        with self._lock:
            if self._state is _State.CLOSED:
                return
            self._state = _State.CONNECTED
            waiting = list(self._pending.values())
            to_send = [each for each in waiting if is_same_peer or _may_be_sent(each)]
            for each in to_send:
                each.is_sent = True
        for each in waiting:
            if each in to_send:
                self._send(each)
            else:
                self._settle(each.request.id, None, _forgotten_error())

    def received(self, message: Message) -> None:
        match message:
            case Response(id, result, error):
                self._settle(id, result, error)
            case Piece(id, value):
                self._progress(id, value)
            case Event(event, body):
                self._call_listeners(event, body)
            case _:
                logger.warning(
                    "the window sent a message that only scripts send: %s", type(message).__name__
                )

    def lost(self) -> None:
        with self._lock:
            if self._state is _State.CONNECTED:
                self._state = _State.LOST
            for each in self._pending.values():
                each.is_open = False

    def ended(self, error: BridgeError) -> None:
        with self._lock:
            if self._state is _State.CLOSED:
                return
            self._state = _State.IDLE
            waiting = self._take_all()
        for each in waiting:
            each.settle(None, error)

    def _send(self, pending: _Pending) -> None:
        try:
            self._transport.send(pending.request)
        except BridgeError as error:
            self._settle(pending.request.id, None, error)
            return
        while (value := self._next_early(pending)) is not _NO_VALUE:
            self.post(Piece(pending.request.id, value))

    def _next_early(self, pending: _Pending) -> Any:
        with self._lock:
            if pending.early:
                return pending.early.popleft()
            pending.is_open = self._state is _State.CONNECTED
            return _NO_VALUE

    def _settle(self, id: RequestId, result: Any, error: BridgeError | None) -> None:
        with self._lock:
            pending = self._pending.pop(id, None)
        # An unknown id is no error: the request was cancelled or answered before.
        if pending is not None:
            pending.settle(result, error)

    def _progress(self, id: RequestId, value: Any) -> None:
        pending = self._pending.get(id)
        if pending is None or pending.on_progress is None:
            return
        try:
            pending.on_progress(value)
        except Exception:  # an error of the script; this thread serves other requests too
            logger.exception("a listener for the progress of %s failed", pending.request.type)

    def _call_listeners(self, event: str, body: Mapping[str, Any]) -> None:
        for listener in self._listeners:
            try:
                listener(event, body)
            except Exception:  # as above
                logger.exception("a listener for the event %s failed", event)

    def _take_all(self) -> list[_Pending]:
        waiting, self._pending = list(self._pending.values()), {}
        return waiting


def _may_be_sent(pending: _Pending) -> bool:
    return not pending.is_sent or pending.request.type in _REPEATABLE


def _closed_error() -> BridgeClosed:
    return BridgeClosed("This bridge was closed; make another")


def _forgotten_error() -> BridgeClosed:
    return BridgeClosed(
        "The window was lost before it answered, and the reconnected window does not know the "
        "request, which may have taken effect"
    )


def _timeout_error(type: str, timeout: float | None) -> BridgeTimeout:
    return BridgeTimeout(
        f"The window did not answer {type} in {timeout:g} seconds",
        timeout=timeout,
    )


def _cancel_in_thread(beginning: asyncio.Future[PendingReply]) -> None:
    if not beginning.cancelled() and beginning.exception() is None:
        answer = beginning.result()
        beginning.get_loop().run_in_executor(None, answer.cancel)
