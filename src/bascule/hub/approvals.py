"""Questions of windows and sessions that wait for an answer. Plain data, no I/O."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bascule.core.errors import AlreadyAnswered, InvalidRequest, QuotaExceeded
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.wire import to_json

from .changes import HubChanges
from .registry import Host

ANSWERS: Final = ("once", "workspace", "always", "deny")
_DEFAULT_ANSWERS: Final = ("once", "workspace", "deny")
"""The answers to a question without `choices`, as windows of earlier versions ask it."""
_MAX_QUESTIONS: Final = 1000
"""Maximum number of pending questions of all windows and sessions together."""
MAX_QUESTIONS_EACH: Final = 20
"""Maximum number of pending questions of one window or session."""
MAX_AGENT_QUESTIONS: Final = 5
"""Maximum number of pending questions of agents in one session or beside one window. They count
apart, so that an agent cannot take the room for questions of the window or session itself."""
MAX_QUESTION_BYTES: Final = 256 << 10
"""Maximum bytes of a question as JSON. The extension's `PUBLISHED_BYTES` is lower."""
_MAX_BYTES_EACH: Final = 20 * (64 << 10)
"""Maximum bytes of all pending questions of one window or session."""

Question = Mapping[str, Any]
PlaceId = WindowId | SessionId
"""Id of the window or session that asks."""
_Key = tuple[str, str]
"""The `PlaceId`, and the question's id."""

OnAnswer = Callable[[Question, str, str], Awaitable[None]]
"""Called with a question, the answer and the name of the person who gave it."""


@dataclass(frozen=True, slots=True, eq=False)
class AskingSession:
    """A session whose sandbox asks."""

    session_id: SessionId
    on_answer: OnAnswer
    owner: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AskingAgent:
    """An agent that a program outside of the hub runs, in a session or beside a window."""

    session_id: str
    window_id: str
    """One of the two is empty."""
    on_answer: OnAnswer
    owner: str = ""


Questioner = Host | AskingSession | AskingAgent
"""Asks questions, and must receive the answers: a host of a window, a session, or an agent."""


@dataclass(frozen=True, slots=True)
class _Pending:
    question: Question
    asker: Questioner
    size: int


class Approvals:
    """The open questions of all windows and sessions. The first answer removes a question."""

    def __init__(self, changes: HubChanges, *, clock: Callable[[], float] = time.time) -> None:
        self._changes = changes
        self._clock = clock
        self._pending: dict[_Key, _Pending] = {}
        self._answered: dict[_Key, str] = {}
        """Who answered the latest questions."""

    def ask(self, asker: Questioner, question: Question) -> None:
        """Add a question. A host repeats its questions after a reconnect; the new copy replaces
        the earlier one.

        Raises `InvalidRequest` if the question is too large, `InvalidAction` if it cannot be
        encoded as JSON, and `QuotaExceeded` if too many are pending, of this asker or of all.
        A new question never displaces another one.
        """
        field, place_id = _kind_and_id(asker)
        key = place_id, str(question.get("id"))
        size = len(to_json(question))
        if size > MAX_QUESTION_BYTES:
            raise InvalidRequest(
                f"The question has {size:,} bytes; {MAX_QUESTION_BYTES:,} is the maximum"
            )
        self.pending()  # removes expired questions, which must not count
        self._ensure_room(key, size, is_agent=isinstance(asker, AskingAgent))
        self._pending[key] = _Pending({**question, field: place_id}, asker, size)
        self._changes.publish("approvals")

    def _ensure_room(self, key: _Key, size: int, *, is_agent: bool) -> None:
        place_id, _ = key
        others = {each: pending for each, pending in self._pending.items() if each != key}
        own_sizes = [
            pending.size
            for (other_place, _), pending in others.items()
            if other_place == place_id and isinstance(pending.asker, AskingAgent) == is_agent
        ]
        limit_each = MAX_AGENT_QUESTIONS if is_agent else MAX_QUESTIONS_EACH
        of_place = f"{'agents in ' if is_agent else ''}this window or session"
        for what, limit, taken in (
            ("questions of all windows and sessions", _MAX_QUESTIONS, len(others) + 1),
            (f"questions of {of_place}", limit_each, len(own_sizes) + 1),
            (
                f"bytes of questions of {of_place}",
                _MAX_BYTES_EACH,
                sum(own_sizes) + size,
            ),
        ):
            if taken > limit:
                raise QuotaExceeded(
                    f"At most {limit:,} {what} may wait for an answer", limit=limit, taken=taken
                )

    def settle(self, place_id: PlaceId, question_id: str, by: str) -> None:
        """Remove a question that was answered in its window, or that is no longer asked."""
        if self._remove(place_id, question_id, by) is not None:
            self._changes.publish("approvals")

    def answer(
        self, place_id: PlaceId, question_id: str, answer: str, by: str
    ) -> tuple[Questioner, Question]:
        """Answer a question; returns the asker, which must receive the answer, and the question.

        Raises `AlreadyAnswered` if the question is no longer pending, and `InvalidRequest` if it
        does not allow this answer; the question then stays pending.
        """
        if answer not in ANSWERS:
            raise InvalidRequest(f"The answer must be one of {', '.join(ANSWERS)}, not {answer!r}")
        self.pending()  # removes expired questions
        found = self._pending.get((place_id, question_id))
        if found is not None and answer not in (allowed := choices_of(found.question)):
            raise InvalidRequest(
                f"This question allows the answers {', '.join(allowed)}, not {answer!r}"
            )
        pending = self._remove(place_id, question_id, by)
        if pending is None:
            answered_by = self._answered.get((place_id, question_id))
            reason = (
                f"{answered_by} has answered already"
                if answered_by
                else "the question is no longer open"
            )
            raise AlreadyAnswered(f"Too late: {reason}")
        self._changes.publish("approvals")
        return pending.asker, pending.question

    def withdraw(self, asker: Questioner) -> None:
        """Remove all questions of a host or agent that is gone, or of a session that ended."""
        gone = [key for key, each in self._pending.items() if each.asker is asker]
        for key in gone:
            del self._pending[key]
        if gone:
            self._changes.publish("approvals")

    def asker_of(self, place_id: PlaceId, question_id: str) -> Questioner | None:
        """The window or session that asks; None if the question is not open."""
        pending = self._pending.get((place_id, question_id))
        return None if pending is None else pending.asker

    def pending(self, may_see: Callable[[str], bool] = lambda _owner: True) -> Sequence[Question]:
        """Open questions of owners that the caller may see, oldest first, without expired ones."""
        now = self._clock()
        expired = [key for key, each in self._pending.items() if _expires(each.question) <= now]
        for key in expired:
            del self._pending[key]
        return [each.question for each in self._pending.values() if may_see(each.asker.owner)]

    def counts(self) -> Mapping[str, int]:
        """The number of open questions of windows and of sessions."""
        self.pending()  # removes expired questions
        windows = sum(isinstance(each.asker, Host) for each in self._pending.values())
        return {"window": windows, "session": len(self._pending) - windows}

    def _remove(self, place_id: PlaceId, question_id: str, by: str) -> _Pending | None:
        pending = self._pending.pop((place_id, question_id), None)
        if pending is not None:
            self._answered[place_id, question_id] = by
            while len(self._answered) > _MAX_QUESTIONS:
                del self._answered[next(iter(self._answered))]
        return pending


def choices_of(question: Question) -> Sequence[str]:
    """The allowed answers to a question. A text that is not shown completely can only be denied."""
    if question.get("is_whole", True) is False:
        return ("deny",)
    choices = question.get("choices")
    if not isinstance(choices, list):
        return _DEFAULT_ANSWERS
    return [each for each in ANSWERS if each in choices]


def _kind_and_id(asker: Questioner) -> tuple[str, PlaceId]:
    """The field of a question that names its place, and the place's id."""
    if isinstance(asker, AskingAgent) and not asker.window_id:
        return "session_id", SessionId(asker.session_id)
    if isinstance(asker, AskingSession):
        return "session_id", asker.session_id
    return "window_id", WindowId(asker.window_id)


def _expires(question: Question) -> float:
    """Unix time at which the question expires; infinity if it has no valid time."""
    try:
        return datetime.fromisoformat(str(question.get("expires"))).timestamp()
    except ValueError:
        return float("inf")
