"""Questions of windows that wait for an answer."""

from __future__ import annotations

import pytest

from bascule.core.errors import AlreadyAnswered, InvalidRequest, QuotaExceeded
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.approvals import Approvals, AskingAgent, AskingSession
from bascule.hub.changes import HubChanges
from bascule.hub.registry import Host

HERE, THERE = WindowId("here"), WindowId("there")


def host(window_id: WindowId, name: str = "host") -> Host:
    return Host(name, f"sid of {name}", window_id, "owner", 1)


def test_the_first_answer_wins_wherever_it_comes_from() -> None:
    told: list[str] = []
    changes = HubChanges()
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


def test_a_question_ends_with_its_window_or_its_timeout() -> None:
    now = 1_000_000_000.0
    approvals = Approvals(HubChanges(), clock=lambda: now)
    here = host(HERE)
    approvals.ask(here, {"id": "q"})
    approvals.ask(host(THERE), {"id": "q", "expires": "2001-09-09T01:46:50+00:00"})
    approvals.withdraw(here)
    assert [each["window_id"] for each in approvals.pending()] == [THERE]
    now += 11
    assert approvals.pending() == []
    with pytest.raises(AlreadyAnswered, match="no longer open"):
        approvals.answer(THERE, "q", "once", "ann")


@pytest.mark.parametrize(
    ("question", "admitted"),
    [
        ({}, {"once", "workspace", "deny"}),
        ({"choices": ["once", "always", "deny"]}, {"once", "always", "deny"}),
        ({"choices": ["once", "deny", "maybe"]}, {"once", "deny"}),
        ({"choices": ["once", "always", "deny"], "is_whole": False}, {"deny"}),
    ],
)
def test_only_an_offered_answer_is_accepted(
    question: dict[str, object], admitted: set[str]
) -> None:
    approvals = Approvals(HubChanges())
    for answer in ("once", "workspace", "always", "deny", "maybe"):
        approvals.ask(host(HERE), {"id": "q", **question})
        if answer in admitted:
            approvals.answer(HERE, "q", answer, "ann")
        else:
            with pytest.raises(InvalidRequest, match=f"not '{answer}'"):
                approvals.answer(HERE, "q", answer, "ann")
            assert len(approvals.pending()) == 1, "the question is still open"


def test_a_session_asks_like_a_window() -> None:
    async def answered(*_: object) -> None: ...

    approvals = Approvals(HubChanges())
    session = AskingSession(SessionId("s"), answered)
    approvals.ask(session, {"id": "q"})
    approvals.ask(host(HERE), {"id": "q"})
    assert [(each.get("session_id"), each.get("window_id")) for each in approvals.pending()] == [
        ("s", None),
        (None, HERE),
    ]
    asker, asked = approvals.answer(SessionId("s"), "q", "once", "ann")
    assert (asker, asked["id"]) == (session, "q")
    approvals.ask(session, {"id": "r"})
    approvals.withdraw(session)
    assert [each["id"] for each in approvals.pending()] == ["q"]


def test_the_answer_goes_to_the_host_that_asked() -> None:
    """A window that is open in two tabs has two; a newer one may have registered since."""
    approvals = Approvals(HubChanges())
    asking, newer = host(HERE, "asking"), host(HERE, "newer")
    approvals.ask(asking, {"id": "q"})
    approvals.ask(newer, {"id": "r"})
    approvals.withdraw(newer)
    assert approvals.answer(HERE, "q", "once", "ann")[0] is asking


def test_a_repeated_question_is_listed_once() -> None:
    approvals = Approvals(HubChanges())
    before, after = host(HERE, "before"), host(HERE, "after")
    approvals.ask(before, {"id": "q"})
    approvals.ask(after, {"id": "q"})
    approvals.withdraw(before)
    assert len(approvals.pending()) == 1


def test_a_question_of_100_kilobytes_waits_and_one_past_the_limit_is_refused_with_the_reason() -> (
    None
):
    approvals = Approvals(HubChanges())
    approvals.ask(host(HERE), {"id": "large", "detail": "│ echo harmless\n" * 7000})
    with pytest.raises(InvalidRequest, match=r"262,1\d\d bytes; 262,144 is the maximum"):
        approvals.ask(host(HERE), {"id": "huge", "detail": "x" * (256 << 10)})
    assert [each["id"] for each in approvals.pending()] == ["large"]


def test_questions_of_agents_leave_room_for_those_of_their_session_and_window() -> None:
    async def answered(*_: object) -> None: ...

    approvals = Approvals(HubChanges())
    large = {"detail": "x" * (240 << 10)}
    for place in (AskingAgent("s", "", answered), AskingAgent("", "here", answered)):
        for number in range(5):
            approvals.ask(place, {"id": f"agents {number}", **large})
        with pytest.raises(QuotaExceeded, match="At most 5 questions of agents"):
            approvals.ask(place, {"id": "agents 5"})
    session = AskingSession(SessionId("s"), answered)
    for number in range(20):
        approvals.ask(session, {"id": f"q{number}", "detail": "x" * (60 << 10)})
        approvals.ask(host(HERE), {"id": f"q{number}", "detail": "x" * (60 << 10)})
    with pytest.raises(QuotaExceeded, match="At most 20 questions of this"):
        approvals.ask(session, {"id": "q20"})


def test_large_questions_of_one_window_leave_room_for_those_of_others() -> None:
    approvals = Approvals(HubChanges())
    large = {"detail": "x" * (250 << 10)}
    for number in range(5):
        approvals.ask(host(HERE), {"id": str(number), **large})
    approvals.ask(host(HERE), {"id": "0", **large})  # said again, it takes no more room
    with pytest.raises(QuotaExceeded, match="1,310,720 bytes of questions of this window"):
        approvals.ask(host(HERE), {"id": "5", **large})
    approvals.ask(host(THERE), {"id": "0", **large})
    assert len(approvals.pending()) == 6
