"""Questions of windows that wait for an answer."""

from __future__ import annotations

import pytest

from bascule.core.errors import AlreadyAnswered, InvalidRequest
from bascule.core.windows import WindowId
from bascule.hub.approvals import Approvals
from bascule.hub.changes import Changes

HERE, THERE = WindowId("here"), WindowId("there")


def test_the_first_answer_wins_wherever_it_comes_from() -> None:
    told: list[str] = []
    changes = Changes()
    changes.subscribe(lambda topic, _: told.append(topic))
    approvals = Approvals(changes)
    approvals.ask(HERE, {"id": "q"})
    approvals.answer(HERE, "q", "once", "ann")
    assert approvals.pending() == []
    with pytest.raises(AlreadyAnswered, match="ann has answered"):
        approvals.answer(HERE, "q", "deny", "bob")
    approvals.ask(HERE, {"id": "r"})
    approvals.settle(HERE, "r", "its user")
    with pytest.raises(AlreadyAnswered, match="its user has answered"):
        approvals.answer(HERE, "r", "deny", "bob")
    assert told == ["approvals"] * 4


def test_a_question_ends_with_its_window_and_with_its_time() -> None:
    now = 1_000_000_000.0
    approvals = Approvals(Changes(), clock=lambda: now)
    approvals.ask(HERE, {"id": "q"})
    approvals.ask(THERE, {"id": "q", "expires": "2001-09-09T01:46:50+00:00"})
    approvals.withdraw(HERE)
    assert [each["window_id"] for each in approvals.pending()] == [THERE]
    now += 11
    assert approvals.pending() == []
    with pytest.raises(AlreadyAnswered, match="nobody asks"):
        approvals.answer(THERE, "q", "once", "ann")


def test_an_answer_is_one_of_three_words() -> None:
    approvals = Approvals(Changes())
    approvals.ask(HERE, {"id": "q"})
    with pytest.raises(InvalidRequest, match="not 'maybe'"):
        approvals.answer(HERE, "q", "maybe", "ann")
