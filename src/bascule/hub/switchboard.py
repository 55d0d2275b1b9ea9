"""Maps running actions to their callers: an answer goes to the caller that sent the action last.

The hub stores no actions for later. An action that cannot be sent fails at once, and its caller
sends it again under the same id. A window runs each id only once.
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

from .action_trace import ActionTrace
from .registry import Host

Event = Mapping[str, Any]
OnEnd = Callable[[str, str, float], None]
"""Called when an action ends, with its kind, its outcome and its duration in seconds."""


class Caller(ABC):
    """A caller that waits for an answer: a runtime's socket, or code in this process."""

    agent: str
    """The name of the caller's token."""
    agent_id: str
    """The id of the caller's token; see `Identity.agent_id`."""

    @abstractmethod
    async def answer(self, observation: Event) -> None: ...

    @abstractmethod
    async def progress(self, frame: Event) -> None: ...

    @abstractmethod
    async def fail(self, action_id: EventId, error: BasculeError) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class PendingAction:
    """A running action and its caller."""

    id: EventId
    kind: str
    window_id: WindowId
    host: Host
    caller: Caller
    wants_progress: bool = False
    trace: ActionTrace | None = None
    since: float = field(default_factory=time.monotonic)
    """Monotonic time at which the action was sent."""


class Switchboard:
    """Running actions by id."""

    def __init__(self, *, limit: int, on_end: OnEnd) -> None:
        self._pending: dict[EventId, PendingAction] = {}
        self._limit = limit
        self._on_end = on_end

    def __len__(self) -> int:
        return len(self._pending)

    def host_of(self, window_id: WindowId, caller: Caller) -> Host | None:
        """The healthy host that runs the latest action of this agent in the window."""
        found = [
            action.host
            for action in self._pending.values()
            if action.window_id == window_id
            and action.caller.agent_id == caller.agent_id
            and action.host.is_healthy
        ]
        return found[-1] if found else None

    def begin(self, action: PendingAction) -> None:
        """Register an action that waits for an answer. If the same action waits already, its new
        caller replaces the earlier one.

        Raises `InvalidAction` if the id is already running for another caller or in another
        window: knowing an id must not give access to another caller's answer.
        """
        earlier = self._pending.get(action.id)
        if earlier is not None and not _has_same_caller(earlier, action):
            raise InvalidAction(
                f"The action {action.id} is already running for another caller", id=action.id
            )
        if earlier is None and len(self._pending) >= self._limit:
            raise InvalidRequest(
                f"{self._limit} actions are waiting for answers; wait until some are answered"
            )
        self._pending[action.id] = action
        if earlier is not None and earlier.trace is not None:
            earlier.trace.end("sent_again")

    async def answer(self, window_id: WindowId, observation: Event) -> bool:
        """Pass an observation to its caller; False if no caller waits for it."""
        action = self._find(window_id, observation.get("cause"))
        if action is None:
            return False
        self._end(action, _outcome(observation))
        await action.caller.answer(observation)
        return True

    async def progress(self, window_id: WindowId, frame: Event) -> None:
        action = self._find(window_id, frame.get("cause"))
        if action is not None and action.wants_progress:
            await action.caller.progress(frame)

    async def fail_host(self, host: Host, error: BasculeError) -> None:
        """Fail all actions that were sent to this host."""
        await self._fail(
            [action for action in self._pending.values() if action.host is host], error
        )

    async def fail_all(self, error: BasculeError) -> None:
        await self._fail(list(self._pending.values()), error)

    def leave(self, caller: Caller) -> Sequence[PendingAction]:
        """Remove a disconnected caller; returns its actions.

        They continue, and a caller that sends the same id again gets the answer.
        """
        actions = [each for each in self._pending.values() if each.caller is caller]
        for action in actions:
            self._end(action, "left")
        return actions

    def is_awaited(self, action_id: EventId) -> bool:
        """Whether a caller waits for this action."""
        return action_id in self._pending

    def actions_of(self, caller: Caller) -> list[EventId]:
        """The running actions of this caller."""
        return [action.id for action in self._pending.values() if action.caller is caller]

    def drop(self, action_id: EventId, caller: Caller) -> PendingAction | None:
        """Stop waiting for an action of this caller, and return it. None if nobody waits for it."""
        action = self._pending.get(action_id)
        if action is None or action.caller is not caller:
            return None
        self._end(action, "cancelled")
        return action

    def _find(self, window_id: WindowId, cause: object) -> PendingAction | None:
        action = self._pending.get(EventId(cause)) if isinstance(cause, str) else None
        # A window must not answer an action that was sent to another window.
        return action if action is not None and action.window_id == window_id else None

    async def _fail(self, actions: list[PendingAction], error: BasculeError) -> None:
        for action in actions:
            self._end(action, error.code)
        for action in actions:
            await action.caller.fail(action.id, error)

    def _end(self, action: PendingAction, outcome: str) -> None:
        if self._pending.get(action.id) is action:
            del self._pending[action.id]
            if action.trace is not None:
                action.trace.end(outcome)
            self._on_end(action.kind, outcome, time.monotonic() - action.since)


def _has_same_caller(earlier: PendingAction, action: PendingAction) -> bool:
    return (
        earlier.window_id == action.window_id and earlier.caller.agent_id == action.caller.agent_id
    )


def _outcome(observation: Event) -> str:
    """A metric label: the kind of the observation, or the error's code if it is known."""
    kind = observation.get("observation")
    if kind == "error":
        extras = observation.get("extras")
        kind = extras.get("error_id") if isinstance(extras, Mapping) else None
    return kind if isinstance(kind, str) and len(kind) < 40 else "error"
