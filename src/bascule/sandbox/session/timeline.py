"""`/session/timeline`: every action of the session and its observation, as they happen."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.actions import Action
from bascule.core.contracts import OnProgress, OutputProgress
from bascule.core.identity import EventId
from bascule.core.observations import Observation
from bascule.core.timeline import Timeline, TimelineEntry
from bascule.core.timeline_reader import TimelineReader
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.requests import json_response, number
from bascule.sandbox.server.sse import HEARTBEAT, Events, send_events
from bascule.sandbox.server.sse import event as sse_event
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.connection import CONNECTION
from bascule.wire import encode_action, encode_observation, to_json
from bascule.wire.timeline import encode_entry, output_data, size_of, whole

_BATCH_SECONDS: Final = 0.02
"""Seconds for which events are batched for clients without output. These clients record actions,
and single events would take CPU time from the actions of a busy session."""


class SessionTimeline:
    """Watches a sandbox and streams its actions and observations to subscribers.

    Events are stored as objects and encoded as JSON when they are sent, so actions do not wait for
    the encoding.
    """

    def __init__(self, working_dir: str = "") -> None:
        self._working_dir = working_dir
        self._timeline = Timeline()
        self._followings: set[TimelineReader] = set()

    def table(self) -> list[BaseRoute]:
        return [
            Route("/session/timeline", self, methods=["GET"]),
            Route("/session/timeline/last", self.last, methods=["GET"]),
        ]

    def watch(self, sandbox: Sandbox) -> None:
        sandbox.watcher = self

    def finish(self) -> None:
        for following in tuple(self._followings):
            following.finish()

    # As a watcher of the sandbox ------------------------------------------------------------

    def began(self, action: Action, on_progress: OnProgress | None) -> OnProgress:
        self._timeline.note("action", {"event": action}, size=size_of(_texts(action)))
        cause = str(action.id)

        def progress(piece: OutputProgress) -> None:
            if on_progress is not None:
                on_progress(piece)
            if self._timeline.is_watched:
                data = output_data(cause, piece.data)
                self._timeline.show("output", data, size=len(piece.data))

        return progress

    def ended(self, observation: Observation, seconds: float, checkpoint: int | None) -> None:
        data: dict[str, Any] = {"event": observation, "seconds": seconds}
        if checkpoint is not None:
            data["checkpoint"] = checkpoint
        self._timeline.note("observation", data, size=size_of(_texts(observation)))

    def failed(self, action_id: EventId, seconds: float, why: str) -> None:
        self._timeline.note("failed", {"cause": str(action_id), "seconds": seconds, "message": why})

    # As endpoints -------------------------------------------------------------------------

    async def last(self, _: Request) -> Response:
        """Return the number of the last entry; it includes every action answered so far."""
        return json_response({"epoch": self._timeline.epoch, "n": self._timeline.last})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        after, epoch = number(request, "after") or 0, request.query_params.get("epoch", "")
        output = request.query_params.get("output", "1") != "0"
        with TimelineReader(self._timeline, after=after, epoch=epoch, output=output) as following:
            self._followings.add(following)
            try:
                events = self._events(following, gather=0.0 if output else _BATCH_SECONDS)
                await send_events(scope[CONNECTION], send, events, finish=following.finish)
            finally:
                self._followings.discard(following)

    async def _events(self, following: TimelineReader, *, gather: float) -> Events:
        begin = {
            "epoch": self._timeline.epoch,
            "now": time.time(),
            "working_dir": self._working_dir,
        }
        yield sse_event("begin", to_json(begin))
        async for batch in following.items(heartbeat=HEARTBEAT, gather=gather):
            yield b"".join(sse_event("entry", to_json(_encoded(entry))) for entry in batch or ())


def _encoded(entry: TimelineEntry) -> dict[str, Any]:
    encoded = encode_entry(entry)
    event = encoded.get("event")
    if isinstance(event, Action):
        encoded["event"] = whole(encode_action(event))
    elif isinstance(event, Observation):
        encoded["event"] = whole(encode_observation(event))
    return encoded


def _texts(event: Action | Observation) -> list[object]:
    """Return the value of every field, to estimate the size."""
    return [getattr(event, name) for name in event.__dataclass_fields__]
