"""A shell in tmux: people can attach to it, and it survives a crash of the server.

The life of commands is `PtyShell`'s. What is added is a record of where it stands, beside tmux's
socket: which command runs, and how much of the output has gone into the log. It is written in one
piece whenever that changes, so that the next server can go on exactly there.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bascule.core.actions import CmdRun
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
from .tmux_bash import TmuxBash
from .tmux_host import TmuxHost, TmuxPane

_SHOWN = 2000
"""Characters of a command that people are shown."""

_KEPT = (
    *("log_start", "background", "left_by_previous", "answers", "path", "status"),
    *("background_pid", "is_started", "is_printed", "is_marked", "is_retry", "abandoned"),
    *("was_signalled", "was_asked", "new_shell", "shell_ended", "replaced", "status_unknown"),
)
"""What an execution is besides its output; all plain values."""


class TmuxShell(PtyShell):
    """`PtyShell` in a pane of tmux. `Shell` has the promises.

    Marks say where every command's output starts and ends: what tmux hands us comes later than
    what bash tells, and only what stands before the end mark is known to have come.
    """

    _can_be_calm = False

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

    async def run(self, command: CmdRun) -> CmdOutput:
        had_unread = self._unread is not None
        answer = await super().run(command)
        if had_unread or answer.metadata.state in ("running", "refused"):
            self._save()  # what was told now is not to be told again
        return answer

    async def aclose(self) -> None:
        is_first = not self._closed
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
        """Be the shell a server before us had; `status` if its bash has ended meanwhile.

        To be called before the host hands out what came since.
        """
        self._cwd, self._had_life = record["cwd"], True
        self._status, self._options = record["status"], record["options"]
        self._is_settled, self._was_disturbed = record["settled"], record["disturbed"]
        self._said, self._rest = _bytes(record["said"]), _bytes(record["rest"])
        self._alarm = Alarm(asyncio.get_running_loop())
        if record["unread"] is not None:
            self._unread = self._recalled(record["unread"])
        if record["execution"]:
            self._execution = self._recalled(record["execution"])
        if record["pane"] is not None:
            self._host.panes[self.name] = TmuxPane(*record["pane"])
        if record["bash"] is not None and channel is not None:
            self._recall_bash(record["bash"], channel, status)

    # Where we differ -------------------------------------------------------------------------

    def _make_bash(self) -> BashProcess:
        return TmuxBash(
            self.name,
            self._host,
            self._settings,
            on_output=self._on_output,
            on_said=self._on_said,
            on_end=self._on_end,
            on_replaced=self._on_replaced,
        )

    async def _start(self, execution: Execution) -> None:
        try:
            await super()._start(execution)
        except (BasculeError, OSError) as error:
            if self._closed:  # which took the pane away as bash was started in it
                raise self._closed_error() from error
            raise
        self._host.receive_visitors(self.name, self._on_attended)
        self._save()

    def _tell(self, bash: BashProcess, execution: Execution, line: bytes) -> None:
        execution.is_told = True
        if self._is_attended and isinstance(bash, TmuxBash):
            self._show_command(bash, execution.text)
        self._save()
        super()._tell(bash, execution, line)

    def _on_output(self, data: bytes) -> None:
        super()._on_output(data)
        self._save()

    def _on_said(self, said: bytes) -> None:
        super()._on_said(said)
        self._save()

    def _on_end(self, status: int) -> None:
        super()._on_end(status)
        self._save()

    def _end_execution(self, execution: Execution, status: int, background_pid: int) -> None:
        super()._end_execution(execution, status, background_pid)
        self._invite()

    # People ----------------------------------------------------------------------------------

    def _on_attended(self, is_attended: bool) -> None:
        self._is_attended = is_attended
        self._invite()

    def _invite(self) -> None:
        """Whoever looks at the idle shell may type a command of their own."""
        bash = self._bash
        if self._is_attended and self._execution is None and isinstance(bash, TmuxBash):
            end = self._log.end
            at_start = end == self._log.start or self._log.read(end - 1, end) == b"\n"
            bash.invite((b"\r" if at_start else b"\r\n") + self._prompt(), self._on_line)

    def _prompt(self) -> bytes:
        return f"\x1b[1m{self._cwd}$\x1b[m ".encode(errors="replace")

    def _show_command(self, bash: TmuxBash, text: str) -> None:
        """As if it had been typed here; unless it was."""
        typed, self._typed = self._typed, ""
        if text != typed:
            shown = "\r\n> ".join(text[:_SHOWN].splitlines()).encode(errors="replace")
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
        """Run what a person typed. Its output is on the screen; a fault of it is shown there."""
        self._typed = text
        try:
            await self.run(CmdRun(text, blocking=True, queue=True))
        except BasculeError as error:
            if isinstance(self._bash, TmuxBash):
                self._bash.show(f"{error}\r\n".encode(errors="replace"))
                self._invite()

    # The record ------------------------------------------------------------------------------

    def _save(self) -> None:
        """In one write, which being killed does not divide. A page holds it but for rare cases."""
        if self._closed:
            return
        bash, pane = self._bash, self._host.panes.get(self.name)
        execution, unread = self._execution, self._unread
        record = {
            "name": self.name,
            "cwd": self._cwd,
            "status": self._status,
            "options": self._options,
            "settled": self._is_settled,
            "disturbed": self._was_disturbed,
            "log": [self._log.start, self._log.end],
            "said": self._said.decode("latin-1"),
            "rest": self._rest.decode("latin-1"),
            "execution": execution and execution.is_told and self._kept(execution),
            "unread": unread and self._kept(unread),
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
        end = execution.end
        return kept | {
            "nonce": execution.nonce.decode(),
            "began": time.time() - execution.age(),
            "limit": execution.output.limit,
            "log_end": execution.log_start + execution.output.size,
            "end": end and asdict(end),
        }

    def _recalled(self, kept: Mapping[str, Any]) -> Execution:
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
        execution.is_told = True
        execution.end = kept["end"] and CommandEnd(**kept["end"])
        execution.log_start = max(execution.log_start, self._log.start)
        if execution.is_started:
            execution.output.add(self._log.read(execution.log_start, kept["log_end"]))
        return execution

    def _recall_bash(self, record: Mapping[str, Any], channel: int, status: int | None) -> None:
        bash = self._make_bash()
        assert isinstance(bash, TmuxBash)
        bash.adopt(self._host.panes[self.name], channel, record)
        self._bash = bash
        self._host.receive_visitors(self.name, self._on_attended)
        execution = self._execution
        if status is not None:
            bash.ended(status)
        else:
            self._keeper.watch(bash.pid, bash.ended)
        if execution is None:
            return
        if execution.end is not None:
            self._take_end(execution, execution.end)
        elif execution.abandoned:
            self._abandon(execution)


def record_path(host: TmuxHost, name: str) -> Path:
    return host.directory / f"{name}.state"


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")
