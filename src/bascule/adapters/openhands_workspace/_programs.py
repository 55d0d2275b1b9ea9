"""Runs programs in a session with separate stdout and stderr and no terminal.

Our shells have a terminal, for which programs colour and fold what they print, and in which the
two outputs are one. So what a program prints goes to files in the session, which are fetched.
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

LIMIT: Final = 12 << 20
"""Bytes that are kept of each output."""
_PATIENCE: Final = 10.0
"""Seconds that a program which was killed has to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """Exit code and output of a program; the exit code is -1 after a timeout."""

    status: int
    out: bytes = b""
    err: bytes = b""
    is_late: bool = False


class ProgramRunner:
    """Runs programs in one session, each in a subshell of its own: nothing one changes is seen by
    the next, and what it leaves in the background goes on. Any number may run at a time."""

    def __init__(self) -> None:
        self._shells: dict[str, str] = {}
        self._fetching = asyncio.Lock()
        """One output at a time is taken into memory."""
        self._lost: set[str] = set()
        """Shells busy with what a hub before us began."""

    async def run(
        self,
        runtime: SessionRuntime,
        command: str,
        *,
        directory: str | None = None,
        timeout: float,
        key: str = "",
    ) -> ProgramResult:
        """Cancelling ends the program, as `stop` does. Raises what keeps it from being run."""
        key = key or secrets.token_hex(8)
        files = f"/tmp/.bascule-{secrets.token_hex(8)}"  # noqa: S108 - nobody guesses it
        try:
            status = await self._to_its_end(
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
        """End the program of that key, if it runs; its `run` answers then."""
        if (shell := self._shells.get(key)) is not None:
            await runtime.act(Interrupt(shell, kill=True))

    async def _to_its_end(
        self, runtime: SessionRuntime, command: str, *, timeout: float, key: str
    ) -> int | None:
        """Its status; None when it had to be ended."""
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
        rest = CmdRun("", shell=shell, timeout=_PATIENCE, blocking=True)
        ended = expect(await runtime.act(rest), CmdOutput)
        if ended.metadata.state == "running":
            self._lost.add(shell)
            raise ActionTimedOut(f"The program could not be ended after {timeout} seconds")
        return None

    def _free_shell(self) -> str:
        taken = self._lost | set(self._shells.values())
        names = (f"openhands-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)


async def _fetched(runtime: SessionRuntime, files: str) -> tuple[bytes, bytes]:
    """Cut here too: in the session anything can stand in for `truncate`."""
    out = await runtime.beginning(f"{files}/out", limit=LIMIT)
    return out, await runtime.beginning(f"{files}/err", limit=LIMIT)


def _wrapped(command: str, directory: str | None, files: str) -> str:
    """Without a directory it starts where the shell does: in the session's workspace."""
    place = f"cd -- {shlex.quote(directory)} && " if directory else ""
    return (
        f"mkdir -m 700 {files}; ({place}eval {shlex.quote(command)}) "
        f"</dev/null >{files}/out 2>{files}/err; status=$?; "
        f"truncate -s '<{LIMIT}' {files}/out {files}/err; (exit $status)"
    )
