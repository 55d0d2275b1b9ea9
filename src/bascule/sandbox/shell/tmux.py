"""A shell in tmux: people can attach to it, and it survives a crash of the server.

Commands run as in `PtyShell`. In addition, the shell keeps a record next to tmux's socket: the
running command, and how much of the output is in the log. Every change rewrites the record in one
write, so that the next server can continue exactly where this server stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

from bascule.core.actions import CmdRun
from bascule.core.contracts import CommandCheck
from bascule.core.errors import BasculeError
from bascule.core.observations import CmdOutput

from .alarm import Alarm
from .bash import BashProcess
from .execution import Execution
from .log import DiskLog
from .marks import CommandEnd
from .output import CommandOutput
from .pty import PtyShell
from .settings import ShellSettings
from .stages import CommandStage, Ending, Interruption, OutputStage, ShellStage
from .tmux_bash import TmuxBash
from .tmux_host import TmuxHost, TmuxPane

RECORD_FORMAT = 2
"""Format version of the record. A server that finds shells in another format ends them."""

_MAX_SHOWN = 2000
"""Maximum characters of a command that the terminal shows to people."""

_KEPT = (
    *("log_start", "background", "left_by_previous", "answers", "path", "status"),
    *("background_pid", "is_marked", "is_retry", "was_asked", "new_shell", "status_unknown"),
)
"""Attributes of an `Execution` saved in the record as plain values."""

_STAGES: Mapping[str, type[Enum]] = {
    "stage": CommandStage,
    "output_stage": OutputStage,
    "interruption": Interruption,
    "ending": Ending,
}
"""Attributes of an `Execution` saved in the record by the name of their enum member."""


class TmuxShell(PtyShell):
    """A `PtyShell` in a tmux pane. `Shell` documents the contract.

    Every command uses marks: output arrives through tmux, later than bash's report, and only the
    end mark shows that all of it has arrived.
    """

    _needs_marks = True

    def __init__(
        self,
        name: str,
        *,
        host: TmuxHost,
        settings: ShellSettings,
        environment: Mapping[str, str],
        log: DiskLog,
    ) -> None:
        super().__init__(
            name, keeper=host.keeper, settings=settings, environment=environment, log=log
        )
        self._host = host
        self._is_attended = False
        self._typed = ""
        self._typed_runs: set[asyncio.Task[None]] = set()
        self._file = -1
        self._file_size = 0

    async def run(self, command: CmdRun, *, check: CommandCheck | None = None) -> CmdOutput:
        had_unread = self._unread is not None
        answer = await super().run(command, check=check)
        if had_unread or answer.metadata.state in ("running", "refused"):
            self._save()  # so that the next server does not return the same output again
        return answer

    async def aclose(self) -> None:
        is_first = not self._state.is_closed
        await super().aclose()
        if self._typed_runs:
            await asyncio.wait(self._typed_runs)
        if not is_first:
            return
        await self._host.close_pane(self.name)
        self._keeper.release(self.name)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            await asyncio.to_thread(record_path(self._host, self.name).unlink, missing_ok=True)

    def recall(self, record: Mapping[str, Any], *, channel: int | None, status: int | None) -> None:
        """Restore the shell of the previous server; `status`: exit status of bash if it has ended.

        Call it before `TmuxHost.resume`, which delivers the output since then.
        """
        has_bash = record["bash"] is not None and channel is not None
        self._state.recall(
            ShellStage[record["stage"]] if has_bash else ShellStage.ENDED,
            cwd=record["cwd"],
            status=record["status"],
            options=record["options"],
        )
        self._ends.buffer, self._terminal.rest = _bytes(record["said"]), _bytes(record["rest"])
        self._alarm = Alarm(asyncio.get_running_loop())
        if record["unread"] is not None:
            self._unread = self._restored_execution(record["unread"])
        if record["execution"]:
            self._execution = self._restored_execution(record["execution"])
        if record["pane"] is not None:
            self._host.panes[self.name] = TmuxPane(*record["pane"])
        if record["bash"] is not None and channel is not None:
            self._recall_bash(record["bash"], channel, status)

    # Overrides of PtyShell -------------------------------------------------------------------

    def _make_bash(self) -> BashProcess:
        return TmuxBash(
            self.name,
            self._host,
            self._settings,
            on_output=self._on_output,
            on_message=self._on_message,
            on_end=self._on_end,
            on_replaced=self._on_replaced,
        )

    async def _start(self, execution: Execution) -> None:
        try:
            await super()._start(execution)
        except (BasculeError, OSError) as error:
            if self._state.is_closed:  # `aclose` closed the pane while bash was starting in it
                raise self._closed_error() from error
            raise
        self._host.watch_attendance(self.name, self._on_attended)
        self._save()

    def _send(self, bash: BashProcess, line: bytes) -> None:
        if self._is_attended and isinstance(bash, TmuxBash) and self._execution is not None:
            self._show_command(bash, self._execution.text)
        self._save()
        super()._send(bash, line)

    def _on_output(self, data: bytes) -> None:
        super()._on_output(data)
        self._save()

    def _on_message(self, data: bytes) -> None:
        super()._on_message(data)
        self._save()

    def _on_end(self, status: int) -> None:
        super()._on_end(status)
        self._save()

    def _end_execution(self, execution: Execution, status: int, background_pid: int) -> None:
        super()._end_execution(execution, status, background_pid)
        self._invite()

    # People attached to the terminal ---------------------------------------------------------

    def _on_attended(self, is_attended: bool) -> None:
        self._is_attended = is_attended
        self._invite()

    def _invite(self) -> None:
        """Show a prompt so that people attached to the idle shell can type a command."""
        bash = self._bash
        if self._is_attended and self._execution is None and isinstance(bash, TmuxBash):
            end = self._log.end
            at_start = end == self._log.start or self._log.read(end - 1, end) == b"\n"
            bash.invite((b"\r" if at_start else b"\r\n") + self._prompt(), self._on_line)

    def _prompt(self) -> bytes:
        return f"\x1b[1m{self.cwd}$\x1b[m ".encode(errors="replace")

    def _show_command(self, bash: TmuxBash, text: str) -> None:
        """Show the command on the terminal, unless a person typed it there."""
        typed, self._typed = self._typed, ""
        if text != typed:
            shown = "\r\n> ".join(text[:_MAX_SHOWN].splitlines()).encode(errors="replace")
            bash.show(b"\r\x1b[K" + self._prompt() + shown + b"\r\n")

    def _on_line(self, line: bytes) -> None:
        text = line.rpartition(b"\x03")[2].decode("utf-8", "replace").strip("\x04\n")
        if not text.strip():
            self._invite()
            return
        run = asyncio.get_running_loop().create_task(self._run_typed(text))
        self._typed_runs.add(run)
        run.add_done_callback(self._typed_runs.discard)

    async def _run_typed(self, text: str) -> None:
        """Run a command that a person typed. Output and errors appear on the terminal."""
        self._typed = text
        try:
            await self.run(CmdRun(text, blocking=True, queue=True))
        except BasculeError as error:
            if isinstance(self._bash, TmuxBash):
                self._bash.show(f"{error}\r\n".encode(errors="replace"))
                self._invite()

    # The record ------------------------------------------------------------------------------

    def _save(self) -> None:
        """Save the record in one write, so that a killed server leaves no incomplete record. A
        record is rarely larger than one page."""
        state = self._state
        if state.is_closed:
            return
        bash, pane = self._bash, self._host.panes.get(self.name)
        execution, unread = self._execution, self._unread
        is_sent = execution is not None and execution.stage is not CommandStage.WAITING
        record = {
            "format": RECORD_FORMAT,
            "name": self.name,
            "stage": state.stage.name,
            "cwd": state.cwd,
            "status": state.status,
            "options": state.options,
            "log": [self._log.start, self._log.end],
            "said": self._ends.buffer.decode("latin-1"),
            "rest": self._terminal.rest.decode("latin-1"),
            "execution": self._kept(execution) if execution and is_sent else None,
            "unread": self._kept(unread) if unread else None,
            "bash": bash.remembered() if isinstance(bash, TmuxBash) else None,
            "pane": pane and [pane.id, pane.parked, pane.terminal],
        }
        text = json.dumps(record).encode()
        if self._file < 0:
            path = record_path(self._host, self.name)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size, self._file_size = self._file_size, len(text)
        os.pwrite(self._file, text.ljust(size), 0)

    def _kept(self, execution: Execution) -> dict[str, Any]:
        kept: dict[str, Any] = {name: getattr(execution, name) for name in _KEPT}
        kept |= {name: getattr(execution, name).name for name in _STAGES}
        end = execution.end_report
        return kept | {
            "nonce": execution.nonce.decode(),
            "began": time.time() - execution.age(),
            "limit": execution.output.limit,
            "log_end": execution.log_start + execution.output.size,
            "end": end and asdict(end),
        }

    def _restored_execution(self, kept: Mapping[str, Any]) -> Execution:
        assert self._alarm is not None
        execution = Execution(
            nonce=kept["nonce"].encode(),
            output=CommandOutput(kept["limit"]),
            loop=asyncio.get_running_loop(),
            alarm=self._alarm,
            age=time.time() - kept["began"],
        )
        for name in _KEPT:
            setattr(execution, name, kept[name])
        for name, stages in _STAGES.items():
            setattr(execution, name, stages[kept[name]])
        execution.end_report = kept["end"] and CommandEnd(**kept["end"])
        execution.log_start = max(execution.log_start, self._log.start)
        if execution.output_stage is not OutputStage.EXPECTED:
            execution.output.add(self._log.read(execution.log_start, kept["log_end"]))
        return execution

    def _recall_bash(self, record: Mapping[str, Any], channel: int, status: int | None) -> None:
        bash = self._make_bash()
        assert isinstance(bash, TmuxBash)
        bash.adopt(self._host.panes[self.name], channel, record)
        self._bash = bash
        self._host.watch_attendance(self.name, self._on_attended)
        execution = self._execution
        if status is not None:
            bash.ended(status)
        else:
            self._keeper.watch(bash.pid, bash.ended)
        if execution is None:
            return
        if execution.end_report is not None:
            self._ends.take(execution, execution.end_report)
        elif execution.is_abandoned:
            self._interrupts.abandon(execution)


def record_path(host: TmuxHost, name: str) -> Path:
    return host.directory / f"{name}.state"


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")
