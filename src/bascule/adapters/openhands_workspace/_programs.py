"""Runs programs in a session with separate stdout and stderr and no terminal.

A Bascule shell has a terminal, which mixes stdout and stderr, and for which programs add colours
and line breaks. So stdout and stderr are redirected to files in the session and then downloaded.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from dataclasses import dataclass
from typing import Final

from bascule.core.actions import CmdRun, Interrupt, RemoveDir
from bascule.core.errors import ActionTimedOut
from bascule.core.observations import CmdOutput
from bascule.hub.sessions.session_runtime import SessionRuntime
from bascule.runtime.verbs import expect

MAX_OUTPUT_BYTES: Final = 12 << 20
"""Maximum bytes of stdout and of stderr. The rest is cut off."""
_KILL_TIMEOUT: Final = 10.0
"""Seconds to wait for a killed program to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """Exit code and output of a program; the exit code is -1 after a timeout."""

    status: int
    out: bytes = b""
    err: bytes = b""
    is_late: bool = False


class ProgramRunner:
    """Runs programs in one session, each in its own subshell, so that programs do not affect each
    other. Background processes continue after their program. Any number of programs may run at a
    time."""

    def __init__(self) -> None:
        self._shells: dict[str, str] = {}
        self._fetching = asyncio.Lock()
        """Only one output at a time is held in memory."""
        self._lost: set[str] = set()
        """Shells that are busy with a program of an earlier hub process, or with a program that did
        not end.
        """

    async def run(
        self,
        runtime: SessionRuntime,
        command: str,
        *,
        directory: str | None = None,
        timeout: float,
        key: str = "",
    ) -> ProgramResult:
        """Run a program to its end. Cancelling ends the program, as `stop` does. Raises an error
        if the program cannot be run."""
        key = key or secrets.token_hex(8)
        files = f"/tmp/.bascule-{secrets.token_hex(8)}"  # noqa: S108 - the name is random
        try:
            status = await self._run_to_end(
                runtime, _wrapped(command, directory, files), timeout=timeout, key=key
            )
            await self._fetching.acquire()
        except BaseException:
            await self._clear(runtime, files, key)
            raise
        try:
            out, err = await _fetched(runtime, files)
        finally:
            try:
                await self._clear(runtime, files, key)
            finally:
                self._fetching.release()
        if status is None:
            return ProgramResult(status=-1, out=out, err=err, is_late=True)
        return ProgramResult(status=status, out=out, err=err)

    async def _clear(self, runtime: SessionRuntime, files: str, key: str) -> None:
        self._shells.pop(key, None)
        await asyncio.shield(runtime.act(RemoveDir(files, recursive=True)))

    async def stop(self, runtime: SessionRuntime, key: str) -> None:
        """End the program with that key, if it runs. Its `run` then returns."""
        if (shell := self._shells.get(key)) is not None:
            await runtime.act(Interrupt(shell, kill=True))

    async def _run_to_end(
        self, runtime: SessionRuntime, command: str, *, timeout: float, key: str
    ) -> int | None:
        """Run a program and return its exit code; None if it was ended after the timeout."""
        while True:
            shell = self._shells[key] = self._free_shell()
            action = CmdRun(command, shell=shell, timeout=timeout, blocking=True)
            seen = expect(await runtime.act(action), CmdOutput)
            if seen.metadata.state != "refused":
                break
            self._lost.add(shell)
        if seen.metadata.state == "done":
            return seen.metadata.exit_code
        await runtime.act(Interrupt(shell, kill=True))
        wait_for_end = CmdRun("", shell=shell, timeout=_KILL_TIMEOUT, blocking=True)
        ended = expect(await runtime.act(wait_for_end), CmdOutput)
        if ended.metadata.state == "running":
            self._lost.add(shell)
            raise ActionTimedOut(f"The program could not be ended after {timeout} seconds")
        return None

    def _free_shell(self) -> str:
        taken = self._lost | set(self._shells.values())
        names = (f"openhands-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)


async def _fetched(runtime: SessionRuntime, files: str) -> tuple[bytes, bytes]:
    """The program's stdout and stderr. The limit is enforced again here, because a program in the
    session could replace `truncate`."""
    out = await runtime.read_start(f"{files}/out", limit=MAX_OUTPUT_BYTES)
    return out, await runtime.read_start(f"{files}/err", limit=MAX_OUTPUT_BYTES)


def _wrapped(command: str, directory: str | None, files: str) -> str:
    """The shell command that runs `command` with its output in `files`. Without a directory,
    the command runs in the shell's start directory, the session's workspace."""
    change_directory = f"cd -- {shlex.quote(directory)} && " if directory else ""
    return (
        f"mkdir -m 700 {files}; ({change_directory}eval {shlex.quote(command)}) "
        f"</dev/null >{files}/out 2>{files}/err; status=$?; "
        f"truncate -s '<{MAX_OUTPUT_BYTES}' {files}/out {files}/err; (exit $status)"
    )
