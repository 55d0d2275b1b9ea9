"""Which session is meant by what somebody types."""

from __future__ import annotations

import pytest

from bascule.cli.session_choice import choose_session
from bascule.core.errors import NoSuchSession, UsageError
from bascule.core.sessions import SessionId
from bascule.link.sessions import HubSession


def session(session_id: str, name: str = "") -> HubSession:
    return HubSession(
        id=SessionId(session_id),
        name=name,
        state="ready",
        stage="",
        cause="",
        vscode_url="",
        metadata={},
    )


SESSIONS = [session("a1b2", "work"), session("a1c3", "workshop"), session("d4")]


@pytest.mark.parametrize(("typed", "found"), [("work", "a1b2"), ("a1c", "a1c3"), ("d4", "d4")])
def test_a_session_is_selected_by_name_id_or_id_prefix(typed: str, found: str) -> None:
    assert choose_session(SESSIONS, typed).id == found


def test_an_ambiguous_session_prefix_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"matches 2 sessions: work \(a1b2\), workshop \(a1c3\)"):
        choose_session(SESSIONS, "a1")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("wrok", "there is no session 'wrok'; did you mean 'work'?"),
        ("nothing-like-it", "`bascule session list` lists the sessions"),
    ],
)
def test_an_unknown_session_name_lists_similar_names(typed: str, said: str) -> None:
    with pytest.raises(NoSuchSession) as caught:
        choose_session(SESSIONS, typed)
    assert said in caught.value.message


def test_a_hub_without_sessions_says_so() -> None:
    with pytest.raises(NoSuchSession, match="the hub has no sessions"):
        choose_session([], "work")
