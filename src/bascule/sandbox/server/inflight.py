"""The actions in progress, so that another request can cancel one by its id."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from bascule.core.errors import ActionCancelled, BasculeError, InvalidAction
from bascule.core.identity import EventId
from bascule.serving.refusals import Refused

_Answer = TypeVar("_Answer")

_MAX_CANCELLED_IDS: Final = 1000
"""Maximum number of ids kept of actions that were cancelled before they arrived."""


class _Entry:
    __slots__ = ("ended", "reason", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.reason: BasculeError | None = None
        self.ended: asyncio.Future[None] | None = None


class InFlight:
    """Actions in progress by id, from their arrival to their answer.

    Once `cancel` has returned, the action does not run and never will. If the action arrives later,
    on another connection, `run` refuses it.
    """

    def __init__(self) -> None:
        self._entries: dict[object, _Entry] = {}
        self._cancelled_early: OrderedDict[EventId, None] = OrderedDict()
        self._over: BasculeError | None = None

    def __len__(self) -> int:
        return len(self._entries)

    async def run(self, action_id: EventId | None, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Await `work`. If `cancel`, `cancel_soon` or `end_all` ends it, raises their reason.

        An action without an id cannot be cancelled by `cancel`. An id that is already in progress
        is refused, so that the same action never runs twice at once.
        """
        task = asyncio.current_task()
        assert task is not None
        key: object = work if action_id is None else action_id
        if self._over or action_id in self._cancelled_early or key in self._entries:
            work.close()
            raise self._why_not(action_id)
        entry = self._entries[key] = _Entry(task)
        try:
            return await work
        except asyncio.CancelledError:
            if entry.reason is None:
                raise
            # `_end` cancelled this task. Without `uncancel`, `asyncio.timeout` and `TaskGroup`
            # around it would still see a cancellation.
            task.uncancel()
            raise entry.reason from None
        finally:
            del self._entries[key]
            if entry.ended is not None:
                entry.ended.set_result(None)

    async def cancel(self, action_id: EventId) -> bool:
        """End the action and return once it has ended; False if it was not in progress."""
        entry = self._entries.get(action_id)
        if entry is None:
            self._cancelled_early[action_id] = None
            while len(self._cancelled_early) > _MAX_CANCELLED_IDS:
                self._cancelled_early.popitem(last=False)
            return False
        self._end(entry, ActionCancelled(f"The action {action_id} was cancelled"))
        if entry.ended is None:
            entry.ended = asyncio.get_running_loop().create_future()
        await asyncio.shield(entry.ended)
        return True

    def cancel_soon(self, action_id: EventId) -> None:
        """Cancel the action if it is in progress, without waiting for its end."""
        if (entry := self._entries.get(action_id)) is not None:
            self._end(entry, ActionCancelled(f"The client that sent {action_id} disconnected"))

    def end_all(self, reason: BasculeError) -> None:
        """Cancel every action with `reason`, and refuse later actions with the same reason."""
        self._over = reason
        for entry in self._entries.values():
            self._end(entry, reason)

    def _end(self, entry: _Entry, reason: BasculeError) -> None:
        if entry.reason is None:
            entry.reason = reason
            entry.task.cancel()

    def _why_not(self, action_id: EventId | None) -> Exception:
        if self._over is not None:
            return self._over
        if action_id in self._cancelled_early:
            return ActionCancelled(f"The action {action_id} was cancelled before it arrived")
        return Refused(409, InvalidAction(f"The action {action_id} is already in progress"))
