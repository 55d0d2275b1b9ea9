"""The sandbox's IPython kernel: runs cells and returns observations."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from bascule.core.actions import Interrupt, IPythonRun
from bascule.core.contracts import Closable, OnProgress, OutputProgress
from bascule.core.errors import (
    CommandInvalid,
    InvalidSetting,
    MissingTool,
    NoSuchShell,
    SandboxDied,
    SandboxStartFailed,
)
from bascule.core.extras import missing_extra
from bascule.core.identity import now
from bascule.core.observations import CellMetadata, Interrupted, IPythonOutput
from bascule.link.json_lines import Message
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.shell.log import DiskLog
from bascule.sandbox.shell.notes import left_out
from bascule.sandbox.shell.output import CommandOutput
from bascule.sandbox.shell.settings import ShellSettings, shell_environment
from bascule.sandbox.shell.shells import IPYTHON
from bascule.sandbox.worker_process import WorkerProcess

from . import notes
from .settings import IPythonSettings

_WORKER: Final = Path(__file__).with_name("_worker_main.py")
_START: Final = 60.0
_MAX_MESSAGE: Final = 1 << 30
"""Maximum bytes of a message; a cell may print tens of megabytes at once."""
_GONE: Final[Message] = {"op": "done", "state": "died", "notes": [notes.WORKER_GONE]}


@dataclass(slots=True)
class _PendingCell:
    """A cell, or input for one, whose caller is waiting."""

    output: CommandOutput
    on_progress: OnProgress | None
    log_start: int | None = None
    """Position of its first output in the log; None before. Other cells may run first."""
    began: float = field(default_factory=time.monotonic)


class IPythonKernel(Closable):
    """One IPython kernel, started by the first cell. Cells run one at a time.

    An exception in a cell is part of its observation. A cell that times out, or whose caller is
    cancelled, is interrupted; variables are kept. If the kernel dies, the observation says so, and
    the next cell gets a new kernel. Closing ends the kernel and every process it started.
    """

    def __init__(
        self,
        settings: IPythonSettings,
        shells: ShellSettings,
        *,
        keeper: Keeper,
        ensure_dir: Callable[[], Path],
        shell_cwd: Callable[[], str],
        name: str = IPYTHON,
        is_rich: bool = False,
    ) -> None:
        """`name`: of the directory and the log. `is_rich`: whether `on_rich` is called."""
        self._name = name
        self._is_rich = is_rich
        self.on_rich: Callable[[Message], None] | None = None
        """Called with each message `begun`, `output` and `over` of a cell."""
        self._settings = settings
        self._shells = shells
        self._keeper = keeper
        self._ensure_dir = ensure_dir
        self._shell_cwd = shell_cwd
        self._log: DiskLog | None = None
        self._worker: WorkerProcess | None = None
        self._python = ""
        self._cwd = ""
        self._had_kernel = False
        self._starting: asyncio.Task[WorkerProcess] | None = None
        self._closed = False

    @property
    def log(self) -> DiskLog:
        """The output of all cells as text."""
        if self._log is None:
            raise NoSuchShell(
                "no cell was run yet, so IPython has no log; a `run_ipython` action starts it"
            )
        return self._log

    async def run(
        self, action: IPythonRun, *, on_progress: OnProgress | None = None
    ) -> IPythonOutput:
        limit = self._shells.output_limit if action.output_limit is None else action.output_limit
        if limit < 0:
            raise CommandInvalid(
                f"output_limit is {limit}; it is a number of characters, or 0 for no limit"
            )
        worker = await self._ready_worker()
        order = _PendingCell(CommandOutput(limit), on_progress)
        cell = {
            "op": "run",
            "code": action.code,
            "cwd": self._shell_cwd() if self._settings.follow_shell else None,
            "start_dir": str(self._shells.working_dir),
            "timeout": action.timeout,
            "prelude": self._settings.prelude,
            "init": action.kernel_init_code,
            "is_input": action.is_input,
        }
        return self._observation(action, order, await self._execute(worker, order, cell))

    async def interrupt(self, action: Interrupt) -> Interrupted:
        was_running = False
        if (worker := self._worker) is not None and worker.is_alive:
            request = {"op": "interrupt", "kill": action.kill}
            try:
                was_running = bool((await worker.requests.request(request))["was_running"])
            except SandboxDied:
                was_running = True  # the cell has ended with the worker
        how = "killed" if action.kill else "interrupted"
        content = f"the cell was {how}" if was_running else "no cell runs"
        return Interrupted(content=content, shell=IPYTHON, was_running=was_running, cause=action.id)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._worker is not None:
            await self._worker.aclose()
        if self._log is not None:
            self._log.close(remove=self._shells.log_dir is None)

    # The worker ---------------------------------------------------------------------------

    async def _ready_worker(self) -> WorkerProcess:
        """Return the worker, started if needed. If a caller is cancelled, the start continues."""
        if self._worker is not None and self._worker.is_alive:
            return self._worker
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._on_started)
        return await asyncio.shield(self._starting)

    def _on_started(self, starting: asyncio.Task[WorkerProcess]) -> None:
        self._starting = None
        if not starting.cancelled() and starting.exception() is None:
            self._worker = starting.result()

    async def _start(self) -> WorkerProcess:
        if self._worker is not None:  # the previous worker, which was killed
            await self._worker.aclose()
        directory = await asyncio.to_thread(self._prepare)
        python = await asyncio.to_thread(self._find_python)
        flags = [flag for flag, is_on in self._flags() if is_on]
        worker = WorkerProcess(
            f"IPython with {python}",
            self._keeper,
            lost=self._worker_ended,
            on_event=self._on_event if self._is_rich else None,
        )
        try:
            started = await worker.start(
                (python, str(_WORKER), str(directory), "--socket", *flags),
                env=shell_environment(self._shells),
                cwd=self._shells.working_dir,
                account=self._shells.account,
                limit=_MAX_MESSAGE,
                timeout=_START,
                is_answer=lambda message: message["op"] != "text",
            )
            if started["op"] == "failed":  # the interpreter has no ipykernel
                if python == sys.executable:
                    raise missing_extra(ModuleNotFoundError(name=started["missing"][0]))
                raise MissingTool(started["message"], missing=started["missing"])
        except BaseException:
            await worker.aclose()
            raise
        self._had_kernel = True
        self._python = started["python"]
        return worker

    def _flags(self) -> tuple[tuple[str, bool], ...]:
        return ("--again", self._had_kernel), ("--rich", self._is_rich)

    def _on_event(self, message: Message) -> None:
        if self.on_rich is not None:
            self.on_rich(message)

    def _worker_ended(self) -> SandboxDied:
        if self._closed:
            return SandboxDied("The sandbox was closed")
        return SandboxDied("The process that runs the IPython kernel has ended")

    def _prepare(self) -> Path:
        """Create the log, and a directory that only the kernel's account can read."""
        account, directory = self._shells.account, self._ensure_dir()
        if self._log is None:
            self._log = DiskLog(directory / f"{self._name}.log", limit=self._shells.log_limit)
            if account is not None:
                shutil.chown(self._log.path, account.uid)
        place = directory / self._name
        place.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            shutil.chown(place, account.uid, account.gid)
        return place

    def _find_python(self) -> str:
        given = self._settings.python
        if not given:
            return sys.executable
        found = shutil.which(given)
        if found is None:
            raise InvalidSetting(
                f"the Python for IPython cells is set to {given!r}, and no such program is there"
            )
        return found

    async def _execute(self, worker: WorkerProcess, order: _PendingCell, cell: Message) -> Message:
        """Run a cell. Cancelling interrupts the cell and waits until the worker has answered."""
        show = partial(self._show, order)
        with worker.requests.begin(cell, on_progress=show) as request:
            try:
                return await request.answer()
            except asyncio.CancelledError:
                order.on_progress = None
                request.cancel({"op": "cancel"})
                await request.settled()
                raise
            except SandboxDied:
                if self._closed:
                    raise
                return _GONE

    def _show(self, order: _PendingCell, message: Message) -> None:
        data, offset = message["text"].encode("utf-8", "replace"), self.log.end
        if order.log_start is None:
            order.log_start = offset
        self.log.append(data)
        order.output.add(data)
        if order.on_progress is not None:
            order.on_progress(OutputProgress(IPYTHON, offset, data))

    # Observations -------------------------------------------------------------------------

    def _observation(self, action: IPythonRun, order: _PendingCell, done: Message) -> IPythonOutput:
        if done["state"] == "lost":
            raise SandboxStartFailed(f"IPython did not start: {' '.join(done['notes'])}")
        self._cwd = done.get("cwd") or self._cwd or self._shell_cwd()
        taken = order.output.take(final=True)
        start = self.log.end if order.log_start is None else order.log_start
        text = taken.head
        if taken.left_out:
            end, path = start + taken.size, str(self.log.path)
            text += left_out(taken.left_out, path=path, start=start, end=end) + taken.tail
        return IPythonOutput(
            content=self._content(action, text.rstrip(), done),
            code=action.code,
            image_urls=done.get("images") or None,
            cause=action.id,
            timestamp=now(),
            metadata=CellMetadata(
                **self._outcome(done),
                output_bytes=taken.size,
                left_out_bytes=taken.left_out,
                log_start=start,
                log_end=start + taken.size,
                log_path=str(self.log.path),
                duration=time.monotonic() - order.began,
            ),
        )

    def _content(self, action: IPythonRun, text: str, done: Message) -> str:
        parts = [text, *done["notes"]]
        if not any(parts) and done["state"] == "done":
            parts = [notes.NO_OUTPUT]
        if action.include_extra:
            parts.append(notes.location_note(self._cwd, self._python))
        return "\n".join(filter(None, parts))

    def _outcome(self, done: Message) -> dict[str, Any]:
        error = done.get("error") or {}
        return {
            "state": done["state"],
            "error_name": error.get("name", ""),
            "error_value": error.get("value", ""),
            "timed_out": done.get("timed_out", False),
            "new_kernel": done.get("new_kernel", False),
            "execution_count": done.get("count"),
            "working_dir": self._cwd,
            "py_interpreter_path": self._python,
        }
