"""The sandbox's IPython kernel: cells in, observations out."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule.core.actions import Interrupt, IPythonRun
from bascule.core.contracts import Closable, OnProgress, OutputProgress
from bascule.core.errors import (
    CommandInvalid,
    InvalidSetting,
    NoSuchShell,
    SandboxDied,
    SandboxStartFailed,
)
from bascule.core.identity import now
from bascule.core.observations import CellMetadata, Interrupted, IPythonOutput
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.shell.log import DiskLog
from bascule.sandbox.shell.notes import left_out
from bascule.sandbox.shell.output import CommandOutput
from bascule.sandbox.shell.settings import ShellSettings, shell_environment
from bascule.sandbox.shell.shells import IPYTHON

from . import notes
from .settings import IPythonSettings
from .worker import KernelWorkerClient, Message

_GONE: Final[Message] = {"op": "done", "state": "died", "notes": [notes.WORKER_GONE]}


@dataclass(slots=True)
class _Order:
    """A cell, or input for one, whose caller is waiting."""

    output: CommandOutput
    on_progress: OnProgress | None
    done: asyncio.Future[Message]
    log_start: int | None = None
    """Where its output starts; others may still have their turn when it is given."""
    began: float = field(default_factory=time.monotonic)


class IPythonKernel(Closable):
    """One IPython kernel, started with the first cell. Cells take turns.

    A cell that raises is an observation. One that outlives its time-out, or whose caller is
    cancelled, is interrupted; variables are kept. When the kernel dies, the cell says so and the
    next one gets a new kernel. Closing ends it and every process it started.
    """

    def __init__(
        self,
        settings: IPythonSettings,
        shells: ShellSettings,
        *,
        keeper: Keeper,
        ensure_dir: Callable[[], Path],
        shell_cwd: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._shells = shells
        self._keeper = keeper
        self._ensure_dir = ensure_dir
        self._shell_cwd = shell_cwd
        self._log: DiskLog | None = None
        self._worker: KernelWorkerClient | None = None
        self._python = ""
        self._cwd = ""
        self._had_life = False
        self._birth: asyncio.Task[KernelWorkerClient] | None = None
        self._orders: dict[str, _Order] = {}
        self._interrupts: dict[str, asyncio.Future[bool]] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    @property
    def log(self) -> DiskLog:
        """What all cells showed, as text."""
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
                f"output_limit is {limit}; it counts characters, and 0 asks for all"
            )
        worker = await self._ready_worker()
        number = str(next(self._numbers))
        loop = asyncio.get_running_loop()
        order = _Order(CommandOutput(limit), on_progress, loop.create_future())
        self._orders[number] = order
        try:
            worker.send(
                op="run",
                id=number,
                code=action.code,
                cwd=self._shell_cwd() if self._settings.follow_shell else None,
                start_dir=str(self._shells.working_dir),
                timeout=action.timeout,
                prelude=self._settings.prelude,
                init=action.kernel_init_code,
                is_input=action.is_input,
            )
            done = await self._wait(worker, number, order)
        finally:
            self._orders.pop(number, None)
        return self._compose(action, order, done)

    async def interrupt(self, action: Interrupt) -> Interrupted:
        was_running = False
        if (worker := self._worker) is not None and worker.is_alive:
            number = str(next(self._numbers))
            told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._interrupts[number] = told
            worker.send(op="interrupt", id=number, kill=action.kill)
            was_running = await told
        how = "killed" if action.kill else "interrupted"
        content = f"the cell was {how}" if was_running else "no cell runs"
        return Interrupted(content=content, shell=IPYTHON, was_running=was_running, cause=action.id)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._birth is not None:
            await asyncio.wait([self._birth])
        if self._worker is not None:
            await self._worker.aclose()
        for order in self._orders.values():
            if not order.done.done():
                order.done.set_exception(SandboxDied("The sandbox was closed"))
        self._end_interrupts()
        if self._log is not None:
            self._log.close(remove=self._shells.log_dir is None)

    # The worker ---------------------------------------------------------------------------

    async def _ready_worker(self) -> KernelWorkerClient:
        """Started if there is none. Being cancelled meanwhile leaves the start to the next."""
        if self._worker is not None and self._worker.is_alive:
            return self._worker
        if self._birth is None:
            self._birth = asyncio.create_task(self._start())
            self._birth.add_done_callback(self._born)
        return await asyncio.shield(self._birth)

    def _born(self, birth: asyncio.Task[KernelWorkerClient]) -> None:
        self._birth = None
        if not birth.cancelled() and birth.exception() is None:
            self._worker = birth.result()

    async def _start(self) -> KernelWorkerClient:
        if self._worker is not None:  # one that was killed
            await self._worker.aclose()
        place = await asyncio.to_thread(self._prepare)
        python = await asyncio.to_thread(self._find_python)
        worker = KernelWorkerClient(
            self._keeper, on_message=self._on_message, on_end=self._on_worker_end
        )
        try:
            await worker.start(
                python,
                directory=place,
                env=shell_environment(self._shells),
                cwd=self._shells.working_dir,
                account=self._shells.account,
                is_first=not self._had_life,
            )
        except BaseException:
            await worker.aclose()
            raise
        self._had_life = True
        self._python = worker.python
        return worker

    def _prepare(self) -> Path:
        """The log, and a directory that only the kernel's account can look into."""
        account, directory = self._shells.account, self._ensure_dir()
        if self._log is None:
            self._log = DiskLog(directory / f"{IPYTHON}.log", limit=self._shells.log_limit)
            if account is not None:
                shutil.chown(self._log.path, account.uid)
        place = directory / IPYTHON
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

    async def _wait(self, worker: KernelWorkerClient, number: str, order: _Order) -> Message:
        try:
            return await asyncio.shield(order.done)
        except asyncio.CancelledError:
            if worker.is_alive and not order.done.done():
                order.on_progress = None
                worker.send(op="cancel", id=number)
                await asyncio.wait([order.done])
            raise

    def _on_message(self, message: Message) -> None:
        if message["op"] == "interrupted":
            told = self._interrupts.pop(message["id"])
            if not told.done():
                told.set_result(message["was_running"])
            return
        order = self._orders.get(message["id"])
        if order is None:
            return  # what a cell still shows that was answered already
        if message["op"] == "text":
            self._show(order, message["text"].encode("utf-8", "replace"))
        elif not order.done.done():
            order.done.set_result(message)

    def _show(self, order: _Order, data: bytes) -> None:
        offset = self.log.end
        if order.log_start is None:
            order.log_start = offset
        self.log.append(data)
        order.output.add(data)
        if order.on_progress is not None:
            order.on_progress(OutputProgress(IPYTHON, offset, data))

    def _on_worker_end(self) -> None:
        for order in self._orders.values():
            if not order.done.done():
                order.done.set_result(_GONE)
        self._end_interrupts()

    def _end_interrupts(self) -> None:
        for told in self._interrupts.values():
            if not told.done():
                told.set_result(True)
        self._interrupts.clear()

    # Answers ------------------------------------------------------------------------------

    def _compose(self, action: IPythonRun, order: _Order, done: Message) -> IPythonOutput:
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
            parts.append(notes.whereabouts(self._cwd, self._python))
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
