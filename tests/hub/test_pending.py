"""Questions of windows that wait for an answer."""

from __future__ import annotations

import pytest

from bascule.core.errors import AlreadyAnswered, InvalidRequest
from bascule.core.windows import WindowId
from bascule.hub.approvals import Approvals
from bascule.hub.changes import Changes
from bascule.hub.registry import Host

HERE, THERE = WindowId("here"), WindowId("there")


def host(window_id: WindowId, name: str = "host") -> Host:
    return Host(name, f"sid of {name}", window_id, "owner", 1)


def test_the_first_answer_wins_wherever_it_comes_from() -> None:
    told: list[str] = []
    changes = Changes()
    changes.subscribe(lambda topic, _: told.append(topic))
    approvals = Approvals(changes)
    approvals.ask(host(HERE), {"id": "q"})
    approvals.answer(HERE, "q", "once", "ann")
    assert approvals.pending() == []
    with pytest.raises(AlreadyAnswered, match="ann has answered"):
        approvals.answer(HERE, "q", "deny", "bob")
    approvals.ask(host(HERE), {"id": "r"})
    approvals.settle(HERE, "r", "its user")
    with pytest.raises(AlreadyAnswered, match="its user has answered"):
        approvals.answer(HERE, "r", "deny", "bob")
    assert told == ["approvals"] * 4


def test_a_question_ends_with_its_window_and_with_its_time() -> None:
    now = 1_000_000_000.0
    approvals = Approvals(Changes(), clock=lambda: now)
    here = host(HERE)
    approvals.ask(here, {"id": "q"})
    approvals.ask(host(THERE), {"id": "q", "expires": "2001-09-09T01:46:50+00:00"})
    approvals.withdraw(here)
    assert [each["window_id"] for each in approvals.pending()] == [THERE]
    now += 11
    assert approvals.pending() == []
    with pytest.raises(AlreadyAnswered, match="nobody asks"):
        approvals.answer(THERE, "q", "once", "ann")


def test_an_answer_is_one_of_three_words() -> None:
    approvals = Approvals(Changes())
    approvals.ask(host(HERE), {"id": "q"})
    with pytest.raises(InvalidRequest, match="not 'maybe'"):
        approvals.answer(HERE, "q", "maybe", "ann")


def test_the_host_that_asks_is_the_one_that_hears_the_answer() -> None:
    """A window that is open in two tabs has two; a newer one may have registered since."""
    approvals = Approvals(Changes())
    asking, newer = host(HERE, "asking"), host(HERE, "newer")
    approvals.ask(asking, {"id": "q"})
    approvals.ask(newer, {"id": "r"})
    approvals.withdraw(newer)
    assert approvals.answer(HERE, "q", "once", "ann") is asking


def test_a_question_that_is_asked_again_is_there_once() -> None:
    approvals = Approvals(Changes())
    before, after = host(HERE, "before"), host(HERE, "after")
    approvals.ask(before, {"id": "q"})
    approvals.ask(after, {"id": "q"})
    approvals.withdraw(before)
    assert len(approvals.pending()) == 1
