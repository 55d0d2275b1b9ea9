"""SWE-ReX's shells in one session: each is a named shell of the session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from bascule.core.actions import CmdRun, Interrupt
from bascule.core.errors import BasculeError, CommandInvalid
from bascule.core.observations import CmdOutput
from bascule.hub.sessions.session_runtime import SessionRuntime
from bascule.runtime.program_run import run_program
from bascule.runtime.verbs import NO_LIMIT, expect

from ._messages import BashCommand, BashInterrupt, CreateBashSession, RexError
from ._text import decoded

_CONTROL_SEQUENCES: Final = re.compile(r"\x1b[@-_][0-?]*[ -/]*[@-~]")
_PREFIX: Final = "swerex-"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,50}")
_MAX_SHELLS: Final = 100
_START_TIMEOUT: Final = 30.0
"""Minimum seconds to source the files of a new shell. The client's default is one second."""
_KILL_TIMEOUT: Final = 10.0
_SYNTAX_ERROR_STATUS: Final = 2


class RexShells:
    """The shells that clients of SWE-ReX have created in one session."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    async def create(
        self, runtime: SessionRuntime, request: CreateBashSession
    ) -> Mapping[str, Any]:
        name = request.session
        if name in self._open:
            raise RexError("SessionExistsError", f"session {name} already exists")
        if not _NAME.fullmatch(name) or len(self._open) >= _MAX_SHELLS:
            raise RexError(
                "builtins.ValueError",
                f"The session {name!r} cannot be created: a name has 1 to 50 letters, digits, `.`, "
                f"`_` and `-`, and there may be {_MAX_SHELLS}",
            )
        self._open.add(name)
        try:
            words = " ; ".join(["true", *(f"source {path}" for path in request.startup_source)])
            seconds = max(request.startup_timeout, _START_TIMEOUT)
            seen = await self._act(runtime, name, words, seconds)
            if seen.metadata.state != "done":
                raise _timeout(words, seconds)
        except BaseException:
            self._open.discard(name)
            raise
        return {"output": _plain(seen.content), "session_type": "bash"}

    async def run(self, runtime: SessionRuntime, request: BashCommand) -> Mapping[str, Any]:
        self._ensure_open(request.session)
        if request.is_interactive_command or request.is_interactive_quit or request.expect:
            raise RexError(
                "SwerexException",
                "Bascule does not support `expect` and interactive commands of SWE-ReX",
            )
        try:
            seen = await self._act(runtime, request.session, request.command, request.timeout)
        except CommandInvalid as error:
            raise RexError("BashIncorrectSyntaxError", error.message) from error
        if seen.metadata.state == "refused":
            raise RexError(
                "SwerexException",
                f"The shell {request.session} still runs another command; interrupt that first",
            )
        if seen.metadata.state == "running":
            raise _timeout(request.command, request.timeout)
        output, status = _plain(seen.content), seen.metadata.exit_code
        if status == _SYNTAX_ERROR_STATUS:
            await _ensure_valid_syntax(runtime, request.command)
        if request.check == "raise" and status != 0:
            raise RexError(
                "NonZeroExitCodeError",
                f"{request.error_msg}: "
                * bool(request.error_msg)
                + f"Command {request.command!r} failed with exit code {status}. "
                f"Here is the output:\n{output!r}",
            )
        return _observation(output, None if request.check == "ignore" else status)

    async def interrupt(self, runtime: SessionRuntime, request: BashInterrupt) -> Mapping[str, Any]:
        """Interrupt the running command, and kill it if it does not end."""
        self._ensure_open(request.session)
        output = ""
        for attempt in range(request.n_retry + 1):
            kills = attempt == request.n_retry
            await runtime.act(Interrupt(_PREFIX + request.session, kill=kills))
            seconds = _KILL_TIMEOUT if kills else max(request.timeout, 0.1)
            seen = await self._act(runtime, request.session, "", seconds)
            output += _plain(seen.content)
            if seen.metadata.state != "running":
                return _observation(output.strip(), 0)
        raise RexError("CommandTimeoutError", "Failed to interrupt session")

    async def close(self, runtime: SessionRuntime, name: str) -> None:
        self._ensure_open(name)
        await runtime.act(Interrupt(_PREFIX + name, kill=True))
        await self._act(runtime, name, "exit", _KILL_TIMEOUT)
        self._open.discard(name)

    async def close_all(self, runtime: SessionRuntime) -> None:
        for name in tuple(self._open):
            await self.close(runtime, name)

    def _ensure_open(self, name: str) -> None:
        if name not in self._open:
            raise RexError("SessionDoesNotExistError", f"session {name!r} does not exist")

    async def _act(
        self, runtime: SessionRuntime, name: str, command: str, timeout: float | None
    ) -> CmdOutput:
        action = CmdRun(
            command,
            shell=_PREFIX + name,
            timeout=NO_LIMIT if timeout is None else timeout,
            blocking=True,
            output_limit=0,
        )
        return expect(await runtime.act(action), CmdOutput)


def _observation(output: str, status: int | None) -> Mapping[str, Any]:
    return {
        "output": output,
        "exit_code": status,
        "failure_reason": "",
        "expect_string": "",
        "session_type": "bash",
    }


def _timeout(command: str, seconds: float | None) -> RexError:
    return RexError(
        "CommandTimeoutError", f"timeout after {seconds} seconds while running command {command!r}"
    )


async def _ensure_valid_syntax(runtime: SessionRuntime, command: str) -> None:
    """Raise the client's error if the command ended with status 2 because bash could not parse
    it."""
    with suppress(BasculeError):  # a rule may forbid the check; the status alone is an answer too
        checked = await run_program(runtime, ["bash", "-n", "-c", command], timeout=_START_TIMEOUT)
        if checked.exit_code not in (0, None):
            said = await decoded(checked.stderr, errors="backslashreplace")
            raise RexError(
                "BashIncorrectSyntaxError",
                f"Error (exit code {checked.status}) while checking bash command \n{command!r}\n"
                f"---- Stderr ----\n{said}",
            )


def _plain(text: str) -> str:
    return _CONTROL_SEQUENCES.sub("", text).replace("\r\n", "\n")
