"""`POST /execute_action`: one action in, one observation out.

This is the path every action takes, so it is plain ASGI: parse, act, answer, in one task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from bascule.core.actions import Action
from bascule.core.contracts import OnProgress
from bascule.core.errors import BasculeError, InvalidAction, UnknownKind
from bascule.core.identity import EventId
from bascule.core.observations import Error, Observation
from bascule.wire import decode_action, error_observation, from_json, reply_envelope, to_json

from .executor import Sandbox
from .inflight import InFlight
from .listener import CONNECTION, Connection
from .metrics import Metrics
from .replies import Receive, Refused, Scope, Send, error_body, read_body, send_json
from .sse import event, send_frames, start_events
from .stream import Backlog
from .system import SystemInfo

CANCEL_HEADER = b"x-bascule-cancel"
"""`interrupt`: this client wants its action ended when it goes away. Without it a command goes on,
since OpenHands' clients hang up on long commands and come back to read."""


class ExecuteAction:
    def __init__(
        self,
        sandbox: Sandbox,
        *,
        in_flight: InFlight,
        metrics: Metrics,
        system: SystemInfo,
        lag: int,
    ) -> None:
        self._sandbox = sandbox
        self._in_flight = in_flight
        self._metrics = metrics
        self._system = system
        self._lag = lag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _request_in(await read_body(receive))
        started = time.perf_counter()
        self._system.touch()
        try:
            action = decode_action(request)
        except UnknownKind as error:
            body = to_json(reply_envelope(request, error_observation(error, None)))
            await send_json(send, body)
            return
        headers: Mapping[bytes, bytes] = scope["bascule.headers"]
        connection: Connection = scope[CONNECTION]
        asked = request.get("id")
        action_id = action.id if isinstance(asked, str) else None
        if action_id is not None and headers.get(CANCEL_HEADER) == b"interrupt":
            connection.when_lost = lambda: self._in_flight.cancel_soon(action_id)
        try:
            if headers.get(b"accept") == b"text/event-stream":
                await self._answer_with_events(request, action, action_id, send)
            else:
                observation = await self._act(action, action_id)
                body = to_json(reply_envelope(request, observation))
                self._count(action, observation, started, len(body))
                await send_json(send, body)
        finally:
            connection.when_lost = None
            self._system.touch()

    async def _act(
        self, action: Action, action_id: EventId | None, on_progress: OnProgress | None = None
    ) -> Observation:
        work = self._sandbox.act(action, on_progress=on_progress)
        return await self._in_flight.run(action_id, work)

    async def _answer_with_events(
        self, request: Mapping[str, Any], action: Action, action_id: EventId | None, send: Send
    ) -> None:
        """Output while it comes, then the observation, or the error if there is none."""
        started = time.perf_counter()
        backlog = Backlog(self._lag)
        await start_events(send)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send_frames(send, backlog.frames))
            try:
                observation = await self._act(action, action_id, backlog.take)
            except BasculeError as error:
                last = event("error", error_body(error))
            else:
                body = to_json(reply_envelope(request, observation))
                self._count(action, observation, started, len(body))
                last = event("observation", body)
            finally:
                backlog.finish()
        await send({"type": "http.response.body", "body": last})

    def _count(self, action: Action, observation: Observation, started: float, size: int) -> None:
        outcome = observation.error_id if isinstance(observation, Error) else observation.kind
        seconds = time.perf_counter() - started
        self._metrics.answered(action.kind, outcome, seconds=seconds, size=size)


def _request_in(body: bytes) -> Mapping[str, Any]:
    try:
        payload = from_json(body)
    except InvalidAction as error:
        raise Refused(400, error) from error
    if not isinstance(payload, dict) or not isinstance(payload.get("action"), dict):
        raise InvalidAction('The body must be {"action": {…}}, with the event as the inner object')
    request: Mapping[str, Any] = payload["action"]
    return request
