"""Runs actions of OpenHands V0 in a session and answers in the form its client expects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from bascule.core.actions import CmdRun
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    InvalidAction,
    InvalidState,
    LinkError,
    NoSuchSession,
    SandboxDied,
)
from bascule.core.observations import CmdMetadata, CmdOutput, Error, Observation
from bascule.core.sessions import SessionId
from bascule.hub import Identity
from bascule.hub.replies import Refused
from bascule.hub.sessions.service import Sessions
from bascule.wire import decode_action, error_observation, reply_envelope

from ._commands import commands_in
from ._start import ADVICE, STRICT

_HISTORY: Final = 10_040
"""Lines: what OpenHands' terminal keeps, and the screen below it."""
_ENOUGH: Final = 2_000_000
"""Characters in which so many lines are sure to be found, unless they are unusually long."""


async def act_in_session(
    sessions: Sessions, who: Identity, session_id: SessionId, event: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Do the action in `event` and return the observation, as it travels.

    A failure of the action itself becomes an observation: on an error response the client has no
    answer to give to the agent. Raises `Refused` where the session is what is wrong.
    """
    asked = sessions.get(who, session_id).spec.environment
    is_strict = asked.get(STRICT, "") not in ("", "0")
    try:
        action = decode_action(event)
        if is_strict and isinstance(action, CmdRun):
            seen = await _strictly(sessions, who, session_id, action)
        else:
            seen = await sessions.act(who, session_id, action)
    except (NoSuchSession, AccessDenied) as error:
        raise Refused(404, error) from error
    except (InvalidState, LinkError, SandboxDied) as error:
        raise Refused(502, error) from error
    except BasculeError as error:
        seen = error_observation(error, None)
    if isinstance(seen, CmdOutput) and seen.metadata.timed_out and asked.get(ADVICE):
        seen = _advised(seen, unquote(asked[ADVICE]))
    if isinstance(seen, Error) and _is_hidden(event):
        seen = _hidden(seen, event)
    return reply_envelope(event, seen)


async def _strictly(
    sessions: Sessions, who: Identity, session_id: SessionId, action: CmdRun
) -> Observation:
    """One command at a time, and of its output what its terminal would have kept."""
    found = [] if action.is_input else await asyncio.to_thread(commands_in, action.command)
    if len(found) > 1:
        listed = "\n".join(f"({n}) {each}" for n, each in enumerate(found, 1))
        raise InvalidAction(
            "Cannot execute multiple commands at once. Send them one by one, or chain them with "
            f"&& or ; into one:\n{listed}"
        )
    seen = await sessions.act(who, session_id, replace(action, output_limit=_ENOUGH))
    if not isinstance(seen, CmdOutput):
        return seen
    lines = seen.content.splitlines(keepends=True)
    if len(lines) <= _HISTORY:
        return seen
    note = f"[Previous command outputs are truncated. Showing the last {_HISTORY} lines.]\n"
    return replace(
        seen,
        content="".join(lines[-_HISTORY:]),
        metadata=replace(seen.metadata, prefix=note + seen.metadata.prefix),
    )


def _advised(seen: CmdOutput, advice: str) -> CmdOutput:
    """Why the answer came before the end stays; what to do about it is said in other words."""
    why = seen.metadata.suffix.partition(" seconds.")[0]
    suffix = f"{why} seconds. {advice}]"
    return replace(seen, metadata=replace(seen.metadata, suffix=suffix))


def _is_hidden(event: Mapping[str, Any]) -> bool:
    args = event.get("args")
    return isinstance(args, Mapping) and bool(args.get("hidden"))


def _hidden(seen: Error, event: Mapping[str, Any]) -> CmdOutput:
    """Its client marks the answer to a hidden command as hidden, which an error cannot be."""
    return CmdOutput(
        content=seen.content,
        command=str(event["args"].get("command", "")),
        hidden=True,
        metadata=CmdMetadata(exit_code=-1, state="idle"),
        cause=seen.cause,
    )
