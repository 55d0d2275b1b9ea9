"""One proxied request, from its head to the last byte of the response or of the tunnel."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from bascule.core.errors import (
    BasculeError,
    InternalError,
    InvalidRequest,
    MessageTooLarge,
    TargetBroken,
    TargetTimedOut,
    TargetUnreachable,
)
from bascule.core.tracing import TRACEPARENT_FIELD, valid_traceparent
from bascule.serving.refusals import Refused
from bascule.serving.uvicorn_internals import RequestResponseCycle

from .access_control import Admission
from .chunks import LAST_CHUNK, BadChunk, Chunks, framed
from .pages import ProxyReply, error_reply
from .request import RequestHead, outgoing_head
from .response import InvalidResponse, ResponseHead, incoming_head, parse_response_head
from .upstream import UpstreamConnection

if TYPE_CHECKING:
    from .client_connection import ClientConnection
    from .proxy import Proxy

logger = logging.getLogger(__name__)

_TRACEPARENT: Final = TRACEPARENT_FIELD.encode()
_SANDBOX: Final = b"/sandbox/"
_IDEMPOTENT: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})


class _ClientLeft(Exception):
    """The client has disconnected."""


class _StaleConnection(Exception):
    """The server closed the connection before it sent anything."""


class _UnusedEvent(asyncio.Event):
    """A shared event for requests without a body, on which nobody waits."""

    def set(self) -> None:
        pass


_UNUSED_EVENT: Final = _UnusedEvent()


class Exchange(RequestResponseCycle):
    """Proxies one request. Replaces uvicorn's ASGI cycle, so that both can share a connection.

    Callbacks pass the bytes of the response from one transport to the other as they arrive, while
    the task waits for the end. A slow reader pauses the other side, so the buffers stay small.
    """

    def __init__(
        self,
        client: ClientConnection,
        proxy: Proxy,
        request: RequestHead,
        *,
        keep_alive: bool,
    ) -> None:
        super().__init__(
            scope=client.scope,
            transport=client.transport,
            flow=client.flow,
            logger=client.logger,
            access_logger=client.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event() if request.has_body else _UNUSED_EVENT,
            expect_100_continue=client.expect_100_continue,
            keep_alive=keep_alive,
            on_response=client.on_response_complete,
        )
        self.request = request
        self.early = b""
        """Bytes the client sent after an upgrade request."""
        self.session_id = ""
        self.sign_in = b""
        self.is_tunnel = False
        self._endpoint_kind = ""
        """The kind of the endpoint that the request was admitted to; empty before."""
        self._client = client
        self._proxy = proxy
        self._loop = client.loop
        self._upstream: UpstreamConnection | None = None
        self._admission: Admission
        self._response_head: ResponseHead | None = None
        self._buffer = b""
        self._chunks: Chunks | None = None
        self._is_chunked = False
        """Whether the client gets the response's body in chunks."""
        self._remaining = 0
        """Bytes missing from a response with a length."""
        self._is_body_sent = True
        self._is_reusable = True
        """Whether the connection to the target can serve another request."""
        self._body_bytes = 0
        self._is_traced = False
        self._traceparent = b""
        """Replaces the client's header."""
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._response_timer: asyncio.TimerHandle | None = None

    async def run_asgi(self, app: object) -> None:  # noqa: ARG002 - uvicorn defines this signature
        """Run the exchange to its end. If it fails before the response starts, send an error."""
        self._proxy.live.add(self)
        try:
            reply = await self._handle_traced()
        except _ClientLeft:
            reply = None
        except asyncio.CancelledError:
            self._client.direct.abort()
            raise
        except Exception:
            logger.exception("proxying %r failed", self.request.target)
            reply = self._error_reply(
                500, InternalError("Internal error of the hub; its log has the cause")
            )
        finally:
            self._proxy.live.discard(self)
            self._cancel_response_timer()
            if self._upstream is not None:
                self._upstream.close(abruptly=not self.is_tunnel)
        status = 0 if self._response_head is None else self._response_head.status
        if reply is not None and not self.response_started:
            status = reply.status
            self._send(reply)
        self._proxy.traffic.count_request(self._endpoint_kind, status)
        self._finish()

    # Callbacks of the client's connection ---------------------------------------------------

    def client_left(self) -> None:
        self.disconnected = True
        self._end(_ClientLeft())

    def client_erred(self, status: int, error: BasculeError) -> None:
        """End with an error because the client's body is invalid or stopped arriving.

        The connection to the target is aborted, so that the target does not consider the body
        complete.
        """
        self.keep_alive = False
        if self.response_started:
            self._client.direct.abort()
        self._end(Refused(status, error))

    def from_client(self, data: bytes) -> None:
        """Receive bytes of a tunnel, or bytes sent before the tunnel is open."""
        if self.is_tunnel and self._upstream is not None:
            self._send_upstream(self._upstream, data)
        else:
            self.early += data
            self.flow.pause_reading()

    def client_is_full(self) -> None:
        if self._upstream is not None and not self._upstream.transport.is_closing():
            self._upstream.transport.pause_reading()

    def client_is_ready(self) -> None:
        if self._upstream is not None and not self._upstream.transport.is_closing():
            self._upstream.transport.resume_reading()

    def end(self) -> None:
        """Stop at once, because the session ended or its user signed out."""
        self._client.direct.abort()

    # Callbacks of the target's connection ---------------------------------------------------

    def from_target(self, data: bytes) -> None:
        if self._response_head is None:
            self._take_head(data)
        elif not self._done.done():
            self._take_body(data)
        elif self._upstream is not None:
            self._is_reusable = False

    def target_lost(self) -> None:
        answer = self._response_head
        if self.is_tunnel:
            self._end()
        elif answer is None:
            is_stale = not self._buffer
            self._end(
                _StaleConnection() if is_stale else InvalidResponse("it ended within its head")
            )
        elif answer.framing == "close":
            if self._is_chunked:
                self._client.send(LAST_CHUNK)
            self._end()
        else:
            self._end(InvalidResponse("it ended before it was complete"))

    def target_is_full(self) -> None:
        if self.is_tunnel:
            self.flow.pause_reading()

    def target_is_ready(self) -> None:
        if self.is_tunnel:
            self.flow.resume_reading()

    # ----------------------------------------------------------------------------------------

    async def _handle_traced(self) -> ProxyReply | None:
        """Handle the request, with a span if it is for a sandbox and has a `traceparent`."""
        tracing = self._proxy.tracing
        if tracing is None or not self.request.target.startswith(_SANDBOX):
            return await self._handle()
        parent = valid_traceparent(self.request.header(_TRACEPARENT).decode("latin-1"))
        if not parent:
            return await self._handle()
        self._is_traced = True
        with tracing.span("hub proxy", "server", parent=parent):
            return await self._handle()

    async def _handle(self) -> ProxyReply | None:
        try:
            admitted = await self._proxy.access_control.admit(self.request)
            if isinstance(admitted, ProxyReply):
                return admitted
            self._admission = admitted
            self.session_id = admitted.requested.endpoint.session_id
            self._endpoint_kind = admitted.requested.endpoint.kind
            self.sign_in = admitted.sign_in
            lease = self._proxy.leases.open(admitted.token_hash, self.end)
            try:
                if admitted.program_starter is not None:
                    await self._proxy.on_program(admitted.program_starter, self.session_id)
                await self._forward_traced()
            finally:
                lease.close()
        except Refused as refused:
            return self._error_reply(refused.status, refused.error)
        except InvalidResponse as error:
            if self.response_started:
                self._client.direct.abort()  # the only way to show that the response is incomplete
                return None
            return self._error_reply(502, TargetBroken(f"Its answer is not valid HTTP: {error}"))
        except TargetTimedOut as error:
            return self._error_reply(504, error)
        except BasculeError as error:
            return self._error_reply(502, error)
        return None

    async def _forward_traced(self) -> None:
        """Forward the request, with a span below that of `_handle_traced` if there is one."""
        tracing = self._proxy.tracing
        if tracing is None or not self._is_traced:
            await self._forward()
            return
        with tracing.span("sandbox request", "client") as span:
            self._traceparent = span.traceparent.encode()
            await self._forward()
            if self._response_head is not None:
                status = self._response_head.status
                span.set_outcome(str(status), failed=status >= 500)

    async def _forward(self) -> None:
        admission, pool = self._admission, self._proxy.pool
        head = outgoing_head(
            self.request,
            admission.requested,
            admission.target,
            scheme=admission.scheme,
            hidden=admission.hidden,
            authorization=admission.authorization,
            origin=admission.origin,
            traceparent=self._traceparent,
        )
        has_body = self.request.has_body
        pooled = None
        if self._may_repeat and not self.request.is_upgrade:
            pooled = pool.take(admission.target)
        if pooled is not None:
            try:
                await self._exchange(pooled, head, has_body=False)
                return
            except _StaleConnection:
                self._done = self._loop.create_future()
        try:
            await self._exchange(await pool.connect(admission.target), head, has_body=has_body)
        except _StaleConnection:
            raise TargetUnreachable(
                f"It closed the connection without an answer ({admission.target.label})"
            ) from None

    @property
    def _may_repeat(self) -> bool:
        """Whether the request can be sent again if a pooled connection turns out to be closed."""
        return self.request.method in _IDEMPOTENT and not self.request.has_body

    async def _exchange(self, upstream: UpstreamConnection, head: bytes, *, has_body: bool) -> None:
        if self.disconnected:
            upstream.close(abruptly=True)
            raise _ClientLeft
        self._upstream = upstream
        upstream.assign(self)
        if self.flow.write_paused:  # the client has not read an earlier response yet
            upstream.transport.pause_reading()
        self._send_upstream(upstream, head)
        self._start_response_timer(self._proxy.settings.answer_timeout)
        if not has_body:
            await self._done
        else:
            self._is_body_sent = False
            sender = self._loop.create_task(self._send_body(upstream))
            try:
                await self._done
            finally:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)
        self._upstream = None
        is_complete = self._is_reusable and self._is_body_sent and not self.is_tunnel
        if is_complete and self._response_head is not None and self._response_head.keeps_connection:
            self._proxy.pool.give_back(upstream, only_if_none_idle=not self._may_repeat)
        else:
            upstream.close(abruptly=False)

    async def _send_body(self, upstream: UpstreamConnection) -> None:
        """Send the request's body, no faster than the target reads it."""
        is_chunked = bool(self.request.header(b"transfer-encoding"))
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                return
            body = message["body"]
            self._body_bytes += len(body)
            if self._body_bytes > self._proxy.settings.max_upload:
                limit = self._proxy.settings.max_upload
                error = MessageTooLarge(f"The body is larger than {limit} bytes", limit=limit)
                self._end(Refused(413, error))
                return
            pieces = framed([body]) if is_chunked else [body]
            is_last = not message["more_body"]
            if is_last and is_chunked:
                pieces = [*pieces, LAST_CHUNK]
            self._send_upstream(upstream, b"".join(pieces))
            if is_last:
                self._is_body_sent = True
                return
            await upstream.drain()
            self._start_response_timer(self._proxy.settings.answer_timeout)

    def _send_upstream(self, upstream: UpstreamConnection, data: bytes) -> None:
        self._proxy.traffic.to_sessions += len(data)
        upstream.write(data)

    def _take_head(self, data: bytes) -> None:
        try:
            self._buffer += data
            while self._response_head is None:
                end = self._buffer.find(b"\r\n\r\n") + 4
                if end < 4:
                    if len(self._buffer) > self._proxy.settings.max_head:
                        raise InvalidResponse("its head is too long")
                    return
                if end > self._proxy.settings.max_head:
                    raise InvalidResponse("its head is too long")
                head, self._buffer = self._buffer[:end], self._buffer[end:]
                answer = parse_response_head(head, method=self.request.method)
                if answer.status >= 200:
                    self._begin(answer)
                elif answer.status == 101:
                    self._begin_tunnel(answer)
                # Other interim responses, such as 100 and 103, are dropped.
        except InvalidResponse as error:
            self._end(error)

    def _begin(self, answer: ResponseHead) -> None:
        self._response_head = answer
        self._cancel_response_timer()
        self.response_started = True
        self.waiting_for_100_continue = False
        if self.request.is_upgrade:
            self.keep_alive = False  # the start of the next request is uncertain
        head, self._is_chunked = self._head(answer)
        self._remaining = answer.length
        rest, self._buffer = self._buffer, b""
        if answer.framing == "chunked":
            self._chunks = Chunks()
        if answer.framing == "none" or (answer.framing == "length" and not answer.length):
            self._client.send(head)
            self._is_reusable = not rest
            self._end()
        elif rest:
            self._take_body(rest, head)
        else:
            self._client.send(head)

    def _head(self, answer: ResponseHead) -> tuple[bytes, bool]:
        return incoming_head(
            answer,
            self._admission.response_rules,
            method=self.request.method,
            is_http_1_0=self.request.version == "1.0",
            keep_alive=self.keep_alive,
        )

    def _take_body(self, data: bytes, head: bytes = b"") -> None:
        assert self._response_head is not None
        if self._chunks is not None:
            self._take_chunks(data, head)
        elif self._response_head.framing == "length":
            if len(data) > self._remaining:
                data, self._is_reusable = data[: self._remaining], False
            self._remaining -= len(data)
            self._client.send(head + data if head else data)
            if not self._remaining:
                self._end()
        else:
            pieces = framed([data]) if self._is_chunked else [data]
            self._client.send(b"".join([head, *pieces]))

    def _take_chunks(self, data: bytes, head: bytes) -> None:
        assert self._chunks is not None
        try:
            pieces = self._chunks.feed(data)
        except BadChunk as error:
            if head:
                self.response_started = False  # nothing has been sent yet
            self._end(InvalidResponse(str(error)))
            return
        if self._is_chunked:
            pieces = framed(pieces)
            if self._chunks.is_over:
                pieces.append(LAST_CHUNK)
        if head or pieces:
            self._client.send(b"".join([head, *pieces]))
        if self._chunks.is_over:
            self._is_reusable = not self._chunks.after
            self._end()

    def _begin_tunnel(self, answer: ResponseHead) -> None:
        if not self.request.is_websocket or answer.header(b"upgrade").lower() != b"websocket":
            raise InvalidResponse("it switches to a protocol that was not requested")
        self._response_head = answer
        self._cancel_response_timer()
        self.response_started = self.is_tunnel = True
        self.keep_alive = True  # otherwise the head would have `connection: close`
        head, _ = self._head(answer)
        self.keep_alive = False
        head = head[:-2] + b"connection: Upgrade\r\nupgrade: websocket\r\n\r\n"
        rest, self._buffer = self._buffer, b""
        self._client.enable_keepalive()
        assert self._upstream is not None
        self._client.send(head + rest)
        self._upstream.sink = self._client.send
        if self.early:
            self._send_upstream(self._upstream, self.early)
            self.early = b""
        if not self._upstream.is_full:
            self.flow.resume_reading()

    def _start_response_timer(self, seconds: float) -> None:
        if self.response_started:
            return
        self._cancel_response_timer()
        self._response_timer = self._loop.call_later(seconds, self._on_response_timeout, seconds)

    def _cancel_response_timer(self) -> None:
        if self._response_timer is not None:
            self._response_timer.cancel()
            self._response_timer = None

    def _on_response_timeout(self, seconds: float) -> None:
        label = self._admission.target.label
        self._end(TargetTimedOut(f"No answer arrived within {seconds:g} seconds ({label})"))

    def _end(self, error: Exception | None = None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)
            self._done.exception()  # avoids asyncio's warning if nobody awaits the future

    def _error_reply(self, status: int, error: BasculeError) -> ProxyReply:
        if status in (400, 413) or isinstance(error, InvalidRequest):
            self.keep_alive = False
        return error_reply(status, error, is_page=self.request.is_page)

    def _send(self, reply: ProxyReply) -> None:
        self.response_started = True
        if self.request.is_upgrade:
            self.keep_alive = False
        data = reply.encoded(method=self.request.method, keep_alive=self.keep_alive)
        self._client.send(data)

    def _finish(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self._client.hang_up()
        on_response = cast("Any", self.on_response)
        self.on_response = _no_op
        on_response()


def _no_op() -> None:
    pass
