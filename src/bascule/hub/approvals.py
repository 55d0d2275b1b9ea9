"""Questions of windows that nobody has answered yet. Plain data, no I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bascule.core.errors import AlreadyAnswered, InvalidRequest, QuotaExceeded
from bascule.core.windows import WindowId
from bascule.wire import to_json

from .changes import HubChanges
from .registry import Host

ANSWERS: Final = ("once", "workspace", "deny")
_MOST: Final = 1000
MOST_EACH: Final = 20
"""Questions of one window that wait; it withdraws or answers some before it asks more."""
MAX_QUESTION: Final = 256 << 10
"""Bytes of a question as JSON. `PUBLISHED_BYTES` in the extension's `consent.ts` stays below it."""
_BYTES_EACH: Final = 20 * (64 << 10)
"""Bytes of all questions of one window that wait."""

Question = Mapping[str, Any]
_Key = tuple[WindowId, str]


@dataclass(frozen=True, slots=True)
class _Pending:
    question: Question
    host: Host
    """The one of the window's hosts that asks, and that has to hear the answer."""
    size: int


class Approvals:
    """The open questions of all windows. The first answer removes a question."""

    def __init__(self, changes: HubChanges, *, clock: Callable[[], float] = time.time) -> None:
        self._changes = changes
        self._clock = clock
        self._pending: dict[_Key, _Pending] = {}
        self._answered: dict[_Key, str] = {}

    def ask(self, host: Host, question: Question) -> None:
        """Add a question, or repeat it after a reconnect.

        False if it is too large, or if this window or all windows together have too many open
        questions.

        Raises `InvalidRequest` when the question is too large, `InvalidAction` when JSON cannot
        hold it, and `QuotaExceeded` when too many wait, of this window or of all. Nobody's question
        makes room for another's: a window that floods loses its own.
        """
        key = host.window_id, str(question.get("id"))
        size = len(to_json(question))
        if size > MAX_QUESTION:
            raise InvalidRequest(f"It has {size:,} bytes; {MAX_QUESTION:,} are admitted")
        self.pending()  # those whose time is up take no room
        self._ensure_room(key, size)
        self._pending[key] = _Pending({**question, "window_id": host.window_id}, host, size)
        self._changes.tell("approvals")

    def _ensure_room(self, key: _Key, size: int) -> None:
        others = {each: pending for each, pending in self._pending.items() if each != key}
        of_this = [pending.size for each, pending in others.items() if each[0] == key[0]]
        for what, limit, taken in (
            ("questions of all windows", _MOST, len(others) + 1),
            ("questions of this window", MOST_EACH, len(of_this) + 1),
            ("bytes of this window's questions", _BYTES_EACH, sum(of_this) + size),
        ):
            if taken > limit:
                raise QuotaExceeded(
                    f"{limit:,} {what} may wait for an answer", limit=limit, taken=taken
                )

    def settle(self, window_id: WindowId, question_id: str, by: str) -> None:
        """The question was answered in its window."""
        if self._take(window_id, question_id, by) is not None:
            self._changes.tell("approvals")

    def answer(self, window_id: WindowId, question_id: str, answer: str, by: str) -> Host:
        """Answer a question from the hub; returns the host that must be told.

        Raises `AlreadyAnswered` for whoever comes second.
        """
        if answer not in ANSWERS:
            raise InvalidRequest(f"An answer is one of {', '.join(ANSWERS)}, not {answer!r}")
        pending = self._take(window_id, question_id, by)
        if pending is None:
            who = self._answered.get((window_id, question_id))
            said = f"{who} has answered already" if who else "nobody asks this any more"
            raise AlreadyAnswered(f"Too late: {said}")
        self._changes.tell("approvals")
        return pending.host

    def withdraw(self, host: Host) -> None:
        """Remove all questions of a host that is gone."""
        gone = [key for key, each in self._pending.items() if each.host is host]
        for key in gone:
            del self._pending[key]
        if gone:
            self._changes.tell("approvals")

    def pending(self) -> Sequence[Question]:
        """Open questions, oldest first, without expired ones."""
        now = self._clock()
        late = [key for key, each in self._pending.items() if _expires(each.question) <= now]
        for key in late:
            del self._pending[key]
        return [each.question for each in self._pending.values()]

    def _take(self, window_id: WindowId, question_id: str, by: str) -> _Pending | None:
        pending = self._pending.pop((window_id, question_id), None)
        if pending is not None:
            self._answered[window_id, question_id] = by
            while len(self._answered) > _MOST:
                del self._answered[next(iter(self._answered))]
        return pending


def _expires(question: Question) -> float:
    try:
        return datetime.fromisoformat(str(question.get("expires"))).timestamp()
    except ValueError:
        return float("inf")
