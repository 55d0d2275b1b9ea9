"""Which caller waits for which action: the answer goes to the caller that asked last.

The hub queues nothing. What cannot be handed over fails at once, and whoever asked sends it again
under the same id; the window does an id once.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bascule.core.errors import BasculeError, InvalidAction, InvalidRequest
from bascule.core.identity import EventId
from bascule.core.windows import WindowId

from .registry import Host

Event = Mapping[str, Any]
OnEnd = Callable[[str, str, float], None]
"""Told the kind, the outcome and the seconds of every action that ends."""


class Asker(ABC):
    """A caller that waits for an answer: a runtime's socket, or code in this process."""

    agent: str
    """The name of its token."""
    agent_id: str
    """The id of its token; see `Identity.token_id`."""

    @abstractmethod
    async def answer(self, observation: Event) -> None: ...

    @abstractmethod
    async def progress(self, frame: Event) -> None: ...

    @abstractmethod
    async def fail(self, action_id: EventId, error: BasculeError) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A running action and its caller."""

    id: EventId
    kind: str
    window_id: WindowId
    host: Host
    asker: Asker
    wants_progress: bool = False
    since: float = field(default_factory=time.monotonic)


class Switchboard:
    """Running actions by id."""

    def __init__(self, *, limit: int, on_end: OnEnd) -> None:
        self._asks: dict[EventId, Ask] = {}
        self._limit = limit
        self._on_end = on_end

    def __len__(self) -> int:
        return len(self._asks)

    def host_of(self, window_id: WindowId, asker: Asker) -> Host | None:
        """The healthy host that runs the latest action of this agent in the window."""
        found = [
            ask.host
            for ask in self._asks.values()
            if ask.window_id == window_id
            and ask.asker.agent_id == asker.agent_id
            and ask.host.is_healthy
        ]
        return found[-1] if found else None

    def begin(self, ask: Ask) -> None:
        """Wait for the answer to `ask`, in place of an earlier caller of the same action.

        Raises `InvalidAction` if the id is already running for another caller or in another
        window: knowing an id must not give access to another caller's answer.
        """
        before = self._asks.get(ask.id)
        if before is not None and not _is_same(before, ask):
            raise InvalidAction(
                f"The action {ask.id} is already running for another caller", id=ask.id
            )
        if before is None and len(self._asks) >= self._limit:
            raise InvalidRequest(
                f"{self._limit} actions are waiting for answers; wait until some are answered"
            )
        self._asks[ask.id] = ask

    async def answer(self, window_id: WindowId, observation: Event) -> bool:
        """Pass an observation to its caller; False if nobody waits."""
        ask = self._find(window_id, observation.get("cause"))
        if ask is None:
            return False
        self._end(ask, _outcome(observation))
        await ask.asker.answer(observation)
        return True

    async def progress(self, window_id: WindowId, frame: Event) -> None:
        ask = self._find(window_id, frame.get("cause"))
        if ask is not None and ask.wants_progress:
            await ask.asker.progress(frame)

    async def fail_host(self, host: Host, error: BasculeError) -> None:
        """Fail all actions that were sent to this host."""
        await self._fail([ask for ask in self._asks.values() if ask.host is host], error)

    async def fail_all(self, error: BasculeError) -> None:
        await self._fail(list(self._asks.values()), error)

    def leave(self, asker: Asker) -> Sequence[Ask]:
        """The caller is gone. Its actions continue; asking again finds the answer."""
        left = [each for each in self._asks.values() if each.asker is asker]
        for ask in left:
            self._end(ask, "left")
        return left

    def is_awaited(self, action_id: EventId) -> bool:
        """Whether a caller waits for this action."""
        return action_id in self._asks

    def asked_by(self, asker: Asker) -> list[EventId]:
        """The running actions of this caller."""
        return [ask.id for ask in self._asks.values() if ask.asker is asker]

    def drop(self, action_id: EventId, asker: Asker) -> Ask | None:
        """Stop waiting for an action; returns it if it was this caller's."""
        ask = self._asks.get(action_id)
        if ask is None or ask.asker is not asker:
            return None
        self._end(ask, "cancelled")
        return ask

    def _find(self, window_id: WindowId, cause: object) -> Ask | None:
        ask = self._asks.get(EventId(cause)) if isinstance(cause, str) else None
        # Another window's answer is nobody's: it would be one window speaking for another.
        return ask if ask is not None and ask.window_id == window_id else None

    async def _fail(self, asks: list[Ask], error: BasculeError) -> None:
        for ask in asks:
            self._end(ask, error.code)
        for ask in asks:
            await ask.asker.fail(ask.id, error)

    def _end(self, ask: Ask, outcome: str) -> None:
        if self._asks.get(ask.id) is ask:
            del self._asks[ask.id]
            self._on_end(ask.kind, outcome, time.monotonic() - ask.since)


def _is_same(before: Ask, ask: Ask) -> bool:
    return before.window_id == ask.window_id and before.asker.agent_id == ask.asker.agent_id


def _outcome(observation: Event) -> str:
    """A metric label: the kind of the observation, or the error's code if it is known."""
    kind = observation.get("observation")
    if kind == "error":
        extras = observation.get("extras")
        kind = extras.get("error_id") if isinstance(extras, Mapping) else None
    return kind if isinstance(kind, str) and len(kind) < 40 else "error"
