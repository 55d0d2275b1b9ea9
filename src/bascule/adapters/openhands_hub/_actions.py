"""Runs actions of OpenHands V0 in a session and answers in the form that OpenHands' client
expects."""

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
from bascule.hub.sessions.service import Sessions
from bascule.runtime.verbs import DEFAULT_TIMEOUT, with_timeout
from bascule.serving.refusals import Refused
from bascule.wire import decode_action, error_observation, reply_envelope

from ._commands import commands_in
from ._start import ADVICE, STRICT

_HISTORY_LINES: Final = 10_040
"""Lines that the terminal of OpenHands keeps: history and screen."""
_OUTPUT_LIMIT: Final = 2_000_000
"""Characters of output to request: enough for `_HISTORY_LINES` lines of usual length."""


async def act_in_session(
    sessions: Sessions, who: Identity, session_id: SessionId, event: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Run the action in `event` and return the encoded observation.

    A failure of the action becomes an observation, because after an HTTP error the client would
    give the agent no answer. Raises `Refused` if the session is missing, unreachable or not
    running.
    """
    variables = sessions.get(who, session_id).spec.environment
    is_strict = variables.get(STRICT, "") not in ("", "0")
    try:
        action = with_timeout(decode_action(event), DEFAULT_TIMEOUT)
        if is_strict and isinstance(action, CmdRun):
            seen = await _act_strictly(sessions, who, session_id, action)
        else:
            seen = await sessions.act(who, session_id, action)
    except (NoSuchSession, AccessDenied) as error:
        raise Refused(404, error) from error
    except (InvalidState, LinkError, SandboxDied) as error:
        raise Refused(502, error) from error
    except BasculeError as error:
        seen = error_observation(error, None)
    if isinstance(seen, CmdOutput) and seen.metadata.timed_out and variables.get(ADVICE):
        seen = _with_advice(seen, unquote(variables[ADVICE]))
    if isinstance(seen, Error) and _is_hidden(event):
        seen = _hidden_output(seen, event)
    return reply_envelope(event, seen)


async def _act_strictly(
    sessions: Sessions, who: Identity, session_id: SessionId, action: CmdRun
) -> Observation:
    """Run the action as OpenHands' own shell does: refuse several commands in one action, and
    return only as many lines of output as the terminal of OpenHands keeps."""
    found = [] if action.is_input else await asyncio.to_thread(commands_in, action.command)
    if len(found) > 1:
        listed = "\n".join(f"({n}) {each}" for n, each in enumerate(found, 1))
        raise InvalidAction(
            "Cannot execute multiple commands at once. Send them one by one, or chain them with "
            f"&& or ; into one:\n{listed}"
        )
    seen = await sessions.act(who, session_id, replace(action, output_limit=_OUTPUT_LIMIT))
    if not isinstance(seen, CmdOutput):
        return seen
    lines = seen.content.splitlines(keepends=True)
    if len(lines) <= _HISTORY_LINES:
        return seen
    note = f"[Previous command outputs are truncated. Showing the last {_HISTORY_LINES} lines.]\n"
    return replace(
        seen,
        content="".join(lines[-_HISTORY_LINES:]),
        metadata=replace(seen.metadata, prefix=note + seen.metadata.prefix),
    )


def _with_advice(seen: CmdOutput, advice: str) -> CmdOutput:
    """`seen` with `advice` about the running program. The reason for the timeout stays."""
    why = seen.metadata.suffix.partition(" seconds.")[0]
    suffix = f"{why} seconds. {advice}]"
    return replace(seen, metadata=replace(seen.metadata, suffix=suffix))


def _is_hidden(event: Mapping[str, Any]) -> bool:
    args = event.get("args")
    return isinstance(args, Mapping) and bool(args.get("hidden"))


def _hidden_output(seen: Error, event: Mapping[str, Any]) -> CmdOutput:
    """An error as the output of a hidden command. The client sets `hidden` on the observation,
    which an error observation does not support."""
    return CmdOutput(
        content=seen.content,
        command=str(event["args"].get("command", "")),
        hidden=True,
        metadata=CmdMetadata(exit_code=-1, state="idle"),
        cause=seen.cause,
    )
