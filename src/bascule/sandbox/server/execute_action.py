"""`POST /execute_action`: one action in, one observation out.

Every action takes this path, so it is plain ASGI for speed: parse, execute and answer in one task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from bascule.core.actions import Action
from bascule.core.contracts import OnProgress
from bascule.core.errors import BasculeError, InvalidAction, UnknownKind
from bascule.core.identity import EventId
from bascule.core.observations import Error, Observation
from bascule.core.tracing import TRACEPARENT_FIELD, Tracing, valid_traceparent
from bascule.sandbox.executor import Sandbox
from bascule.serving.asgi import ClientDisconnected, Receive, Scope, Send, read_body, send_json
from bascule.serving.connection import CONNECTION, Connection
from bascule.serving.refusals import Refused
from bascule.wire import (
    decode_action,
    error_observation,
    from_json,
    parcel,
    reply_envelope,
    to_json,
)

from .inflight import InFlight
from .metrics import SandboxMetrics
from .replies import error_body, send_parcel
from .sse import encoded, send_on, start_events
from .sse import event as sse_event
from .stream import Backlog
from .system import SystemInfo

CANCEL_HEADER = b"x-bascule-cancel"
"""Value `interrupt`: cancel the action if this client disconnects. Without the header a command
continues, because OpenHands' clients disconnect from long commands and read the result later."""

_TRACEPARENT = TRACEPARENT_FIELD.encode()
_PARCEL = parcel.MEDIA_TYPE.encode()


class ExecuteAction:
    def __init__(
        self,
        sandbox: Sandbox,
        *,
        in_flight: InFlight,
        metrics: SandboxMetrics,
        system: SystemInfo,
        lag: int,
        tracing: Tracing | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._in_flight = in_flight
        self._metrics = metrics
        self._system = system
        self._lag = lag
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _request_in(await read_body(receive))
        self._system.touch()
        try:
            action = decode_action(request)
        except UnknownKind as error:
            unknown = error_observation(error, None)
            await send_json(send, to_json(reply_envelope(request, unknown)))
            return
        # An integer id is not unique, because each client counts from 0. It is treated as no id.
        action_id = action.id if isinstance(request.get("id"), str) else None
        headers: Mapping[bytes, bytes] = scope["bascule.headers"]
        call = _ActionCall(
            request,
            action,
            action_id,
            time.perf_counter(),
            headers.get(b"accept"),
            headers.get(_TRACEPARENT, b"") if self._tracing is not None else b"",
        )
        connection: Connection = scope[CONNECTION]
        if connection.transport.is_closing():
            raise ClientDisconnected
        if action_id is not None and headers.get(CANCEL_HEADER) == b"interrupt":
            connection.when_lost = lambda: self._in_flight.cancel_soon(action_id)
        try:
            if call.accept == b"text/event-stream":
                await self._answer_with_events(call, send)
            else:
                await self._answer(call, send)
        finally:
            connection.when_lost = None
            self._system.touch()

    async def _answer(self, call: _ActionCall, send: Send) -> None:
        observation = await self._act(call)
        event = reply_envelope(call.request, observation)
        if call.accept == _PARCEL and len(observation.content) >= parcel.MIN_PARCEL_LENGTH:
            packed = parcel.pack(event)
            self._count(call, observation, sum(map(len, packed)))
            await send_parcel(send, packed)
        else:
            body = to_json(event)
            self._count(call, observation, len(body))
            await send_json(send, body)

    async def _answer_with_events(self, call: _ActionCall, send: Send) -> None:
        """Send output as it is produced, then the observation or the error."""
        backlog = Backlog(self._lag)
        await start_events(send)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send_on(send, encoded(backlog.items)))
            try:
                observation = await self._act(call, backlog.take)
            except BasculeError as error:
                last = sse_event("error", error_body(error))
            except Refused as refused:
                last = sse_event("error", error_body(refused.error))
            else:
                body = to_json(reply_envelope(call.request, observation))
                self._count(call, observation, len(body))
                last = sse_event("observation", body)
            finally:
                backlog.finish()
        await send({"type": "http.response.body", "body": last})

    async def _act(self, call: _ActionCall, on_progress: OnProgress | None = None) -> Observation:
        if self._tracing is None:
            return await self._run(call, on_progress)
        kind = call.action.kind
        with self._tracing.span(
            f"execute {kind}",
            "server",
            parent=valid_traceparent(call.traceparent.decode("latin-1")),
            attributes={"bascule.action": kind},
        ) as span:
            observation = await self._run(call, on_progress)
            span.set_observation(observation)
            return observation

    async def _run(self, call: _ActionCall, on_progress: OnProgress | None) -> Observation:
        work = self._sandbox.act(call.action, on_progress=on_progress)
        return await self._in_flight.run(call.action_id, work)

    def _count(self, call: _ActionCall, observation: Observation, size: int) -> None:
        outcome = observation.error_id if isinstance(observation, Error) else observation.kind
        seconds = time.perf_counter() - call.started
        self._metrics.answered(call.action.kind, outcome, seconds=seconds, size=size)


class _ActionCall(NamedTuple):
    request: Mapping[str, Any]
    action: Action
    action_id: EventId | None
    started: float
    """Time by `time.perf_counter`."""
    accept: bytes | None
    traceparent: bytes
    """Empty if actions are not traced."""


def _request_in(body: bytes) -> Mapping[str, Any]:
    try:
        payload = from_json(body)
    except InvalidAction as error:
        raise Refused(400, error) from error
    if not isinstance(payload, dict) or not isinstance(payload.get("action"), dict):
        raise InvalidAction('The body must be {"action": {…}}, with the event as the inner object')
    request: Mapping[str, Any] = payload["action"]
    return request
