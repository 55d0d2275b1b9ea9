"""Finds the session that a user names by id or name."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from bascule.core.errors import NoSuchSession, UsageError

if TYPE_CHECKING:
    from bascule.link.sessions import HubSession


def choose_session(sessions: Sequence[HubSession], which: str) -> HubSession:
    """The session with the id `which`, else the only session whose name is `which` or whose id
    starts with it.

    Raises `NoSuchSession`, or `UsageError` if several sessions match.
    """
    matching = [each for each in sessions if which == each.id] or [
        each for each in sessions if which and (which == each.name or each.id.startswith(which))
    ]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise NoSuchSession(f"there is no session {which!r}; {_hint(sessions, which)}")
    named = ", ".join(f"{each.name or 'unnamed'} ({each.id})" for each in matching)
    raise UsageError(f"{which!r} matches {len(matching)} sessions: {named}. Use the id of one")


def ensure_free(sessions: Sequence[HubSession], name: str) -> None:
    """Raise `UsageError` if a session has that name, because commands select sessions by name."""
    taken = [each for each in sessions if each.name == name]
    if taken:
        raise UsageError(
            f"--name {name}: a session with this name exists ({taken[0].id}, "
            f"{taken[0].state}); choose another name, or remove that session with `bascule "
            "session rm`"
        )


def _hint(sessions: Sequence[HubSession], which: str) -> str:
    names = {each.name for each in sessions if each.name}
    if near := get_close_matches(which, names):
        return f"did you mean {' or '.join(map(repr, near))}?"
    return "`bascule session list` lists the sessions" if sessions else "the hub has no sessions"
