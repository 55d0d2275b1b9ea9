"""Builds the observations that a shell returns for its commands."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import socket
from dataclasses import replace
from pwd import getpwuid
from typing import Literal

from bascule.core.actions import CmdRun
from bascule.core.contracts import OutputLog
from bascule.core.identity import now
from bascule.core.observations import CmdMetadata, CmdOutput

from . import notes
from .execution import Execution
from .marks import PROMPT
from .settings import ShellSettings
from .stages import Ending

_CACHE_SECONDS = 1.0
"""Seconds for which the path of the Python interpreter is cached, for all shells together."""


class CommandObservations:
    """Builds the observations of one shell. Each observation takes the output collected so far."""

    def __init__(self, shell: str, *, settings: ShellSettings, log: OutputLog) -> None:
        self._log = log
        self._soft_timeout = settings.soft_timeout
        self._common = CmdMetadata(
            username=settings.account.name if settings.account else _own_name(),
            hostname=socket.gethostname(),
            shell=shell,
            log_path=str(log.path) if log.path else None,
        )
        self._path = os.defpath

    def done(self, command: CmdRun, execution: Execution, *, cwd: str, key: str = "") -> CmdOutput:
        """The command is over: the rest of its output and its exit code."""
        return self._observation(
            command,
            execution,
            cwd=cwd,
            state="done",
            exit_code=execution.status,
            prefix=execution.left_by_previous,
            suffix=_last_output(execution, cwd, key),
        )

    def running(
        self, command: CmdRun, execution: Execution, reason: Literal["soft", "hard"], *, cwd: str
    ) -> CmdOutput:
        """The command still runs: its output since the last observation."""
        soft = reason == "soft" or command.timeout is None
        return self._observation(
            command,
            execution,
            cwd=cwd,
            state="running",
            timed_out=reason,
            prefix=notes.PREVIOUS if execution.answers > 1 else execution.left_by_previous,
            suffix=notes.no_new_output(self._soft_timeout)
            if soft
            else notes.timed_out(command.timeout or 0.0),
        )

    def refused(self, command: CmdRun, execution: Execution, *, cwd: str) -> CmdOutput:
        """Another command runs: its output so far, unless another caller waits for it."""
        return self._observation(
            command,
            execution if execution.waiter is None else None,
            cwd=cwd,
            state="refused",
            prefix=notes.PREVIOUS,
            suffix=notes.refused(command.command),
        )

    def for_another(self, command: CmdRun, *, cwd: str) -> CmdOutput:
        """The input was typed; the output goes to the other caller that waits for the command."""
        return self._observation(command, None, cwd=cwd, state="running", suffix=notes.OTHER_READER)

    def idle(self, command: CmdRun, text: str, *, cwd: str) -> CmdOutput:
        answer = self._observation(command, None, cwd=cwd, state="idle")
        return replace(answer, content=text)

    def _observation(
        self,
        command: CmdRun,
        execution: Execution | None,
        *,
        cwd: str,
        state: Literal["done", "running", "refused", "idle"],
        exit_code: int = -1,
        timed_out: Literal["", "soft", "hard"] = "",
        prefix: str = "",
        suffix: str = "",
    ) -> CmdOutput:
        common = self._common
        content, size, left_out, background = "", 0, 0, ""
        start = end = self._log.end
        if execution is not None:
            taken = execution.output.take(final=state == "done")
            size, left_out, content = taken.size, taken.left_out, taken.head
            start = execution.log_start
            end = execution.log_start = start + size
            if left_out:
                content += notes.left_out(left_out, path=common.log_path, start=start, end=end)
                content += taken.tail
            if execution.status_unknown:
                content = content.replace(PROMPT.decode(), "")
            background, execution.background = execution.background, ""
        return CmdOutput(
            content=content,
            command=command.command,
            hidden=command.hidden,
            cause=command.id,
            timestamp=now(),
            metadata=CmdMetadata(
                exit_code=exit_code,
                pid=execution.background_pid if execution else -1,
                username=common.username,
                hostname=common.hostname,
                working_dir=cwd,
                py_interpreter_path=self._interpreter(execution.path if execution else ""),
                prefix=prefix,
                suffix=suffix,
                shell=common.shell,
                state=state,
                timed_out=timed_out,
                new_shell=execution is not None and execution.new_shell,
                shell_ended=execution is not None and execution.ending is not Ending.REPORTED,
                background=background,
                output_bytes=size,
                left_out_bytes=left_out,
                log_start=start,
                log_end=end,
                log_path=common.log_path,
                duration=execution.age() if execution else 0.0,
            ),
        )

    def _interpreter(self, path: str) -> str | None:
        """Return the path of `python` on the shell's PATH, or on the last known PATH."""
        self._path = path or self._path
        return _find_python(self._path, int(asyncio.get_running_loop().time() / _CACHE_SECONDS))


@functools.lru_cache(maxsize=64)
def _find_python(path: str, moment: int) -> str | None:  # noqa: ARG001 - expires the cache entry
    return shutil.which("python", path=path) or shutil.which("python3", path=path)


def _last_output(execution: Execution, cwd: str, key: str) -> str:
    if execution.ending is Ending.SHELL_REPLACED:
        return notes.shell_replaced(cwd)
    if execution.status_unknown:
        return notes.status_unknown()
    suffix = notes.completed(execution.status, key)
    if execution.ending is Ending.SHELL_ENDED:
        suffix += notes.shell_ended(execution.status, cwd)
    if execution.new_shell:
        suffix += notes.NEW_SHELL
    return suffix


@functools.cache
def _own_name() -> str:
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
