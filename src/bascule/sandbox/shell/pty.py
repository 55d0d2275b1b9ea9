"""A shell on a pseudo-terminal that detects the exact end of each command and loses no output.

- `marks`: the protocol with bash; `bash`: the process; `stages`: stages of shell and command
- `command_ends`: bash's reports; `terminal_reader`: the output
- `interrupts`, `idle`, `sync`: commands that have to end early
- `name_query`: what bash would run for a name

This module runs commands one at a time. Each is an `Execution`, from its command line to its end,
and may return any number of observations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bascule.core.actions import CmdRun
from bascule.core.contracts import CommandCheck, OnProgress, Shell
from bascule.core.errors import CommandInvalid, ShellClosed
from bascule.core.observations import CmdOutput

from . import notes
from .alarm import Alarm
from .bash import BashProcess
from .command_ends import CommandEnds
from .command_observations import CommandObservations
from .execution import Execution
from .idle import EndQuery
from .interrupts import KEY, Interrupts
from .keeper import Keeper
from .log import DiskLog
from .marks import command_line, new_nonce
from .name_query import NameQuery
from .output import CommandOutput
from .pty_bash import PtyBash
from .settings import ShellSettings
from .stages import CALM, CLOSED, SENT, BashState, CommandStage, Ending, ShellStage
from .sync import PromptSync
from .terminal_reader import TerminalReader

_REPLACE_DELAY = 0.1
"""Seconds to wait after `exec` replaced bash, before we look in /proc for the new program."""


class PtyShell(Shell):
    """A persistent bash on its own pseudo-terminal. `Shell` documents the contract.

    The first command starts bash. All calls of `run` must be on one event loop.
    """

    _needs_marks = False
    """False: when bash reports the end of a command, all output of the command can be read at
    once, so no mark is needed at the end of the output."""

    def __init__(
        self,
        name: str,
        *,
        keeper: Keeper,
        settings: ShellSettings,
        environment: Mapping[str, str],
        log: DiskLog,
    ) -> None:
        self.name = name
        self._keeper = keeper
        self._settings = settings
        self._log = log
        self._env = environment
        self._answers = CommandObservations(name, settings=settings, log=log)
        self._alarm: Alarm | None = None
        self._bash: BashProcess | None = None
        self._execution: Execution | None = None
        self._unread: Execution | None = None
        self._turn = asyncio.Lock()
        self._state = BashState(str(settings.working_dir), needs_marks=self._needs_marks)
        self._sync = PromptSync(lambda: self._bash)
        self._names = NameQuery(lambda: self._bash)
        self._end_query = EndQuery(lambda: self._bash)
        self._interrupts = Interrupts(lambda: self._bash, self._end_query)
        self._terminal = TerminalReader(
            name,
            log=log,
            state=self._state,
            on_complete=lambda execution: self._ends.output_complete(execution),
            on_prompt=self._end_query.prompt_seen,
        )
        self._ends = CommandEnds(
            self._require_bash,
            state=self._state,
            terminal=self._terminal,
            sync=self._sync,
            on_over=self._end_execution,
            on_refused=self._lose_execution,
        )

    @property
    def is_running(self) -> bool:
        return self._execution is not None

    @property
    def has_ended(self) -> bool:
        """Whether bash has exited, and no command waits for a new bash."""
        is_needed = self._execution is not None or self._turn.locked()
        return self._state.stage is ShellStage.ENDED and not is_needed

    @property
    def cwd(self) -> str:
        return self._state.cwd

    @property
    def log(self) -> DiskLog:
        return self._log

    async def command_types(self, names: Sequence[str]) -> Sequence[str]:
        return await self._names.ask(names)

    async def run(self, command: CmdRun, *, check: CommandCheck | None = None) -> CmdOutput:
        self._ensure_open()
        if command.output_limit is not None and command.output_limit < 0:
            raise CommandInvalid(
                f"output_limit is {command.output_limit}; it is a number of characters, "
                "or 0 for no limit"
            )
        if command.is_input or not command.command.strip():
            return await self._continue(command)
        if self._execution is None and KEY.fullmatch(command.command):
            return self._answer_without_command(command)
        if command.queue:
            async with self._turn:
                while self._execution is not None:
                    await self._execution.until(CommandStage.OVER)
                return await self._run_new(command, check=check)
        while (running := self._execution) is not None:
            if not running.is_abandoned:
                return self._answers.refused(command, running, cwd=self.cwd)
            await running.until(CommandStage.OVER)
        return await self._run_new(command, check=check)

    async def interrupt(self, *, kill: bool = False) -> bool:
        execution = self._execution
        if execution is None:
            return False
        if kill:
            await self._interrupts.kill(execution)
        else:
            await self._interrupts.press(execution, "C-c")
        return True

    def subscribe(self, listener: OnProgress) -> Callable[[], None]:
        return self._terminal.subscribe(listener)

    async def aclose(self) -> None:
        if self._state.is_closed:
            return
        self._state.enter(ShellStage.CLOSED)
        if (execution := self._execution) is not None:
            self._execution = None
            execution.fail(self._closed_error())
        self._sync.end()
        self._names.end()
        if self._alarm is not None:
            self._alarm.close()
        if (bash := self._bash) is not None:
            self._bash = None
            try:
                # End bash before the terminal closes. Otherwise bash would exit on SIGHUP, and the
                # keeper could not find out which orphans were its processes.
                if bash.is_alive:
                    await self._keeper.end(bash.pid)
            finally:
                bash.close()
        self._log.close(remove=self._settings.log_dir is None)

    # Running a command -----------------------------------------------------------------------

    async def _run_new(
        self, command: CmdRun, *, check: CommandCheck | None = None, is_retry: bool = False
    ) -> CmdOutput:
        limit = command.output_limit
        nonce = new_nonce()
        loop = asyncio.get_running_loop()
        if self._alarm is None:
            self._alarm = Alarm(loop)
        execution = Execution(
            nonce=nonce.encode(),
            output=CommandOutput(self._settings.output_limit if limit is None else limit),
            loop=loop,
            alarm=self._alarm,
        )
        execution.is_retry = is_retry
        execution.text = command.command
        self._execution = execution  # refuses other commands from now on, also while bash starts
        state = self._state
        try:
            bash = self._bash
            if bash is None or self._sync.settled is not None:
                bash = await self._ready_bash(execution)
            if check is not None:
                bash = await self._checked_bash(execution, check)
            line = command_line(
                command.command,
                nonce,
                cwd=command.cwd or None,
                last_status=state.status,
                options=state.options,
                marked=state.stage is not CALM,
            )
        except BaseException:
            if self._execution is execution:  # otherwise `aclose` has closed it
                self._execution = None
                execution.close()
            raise
        if (unread := self._unread) is not None:
            self._unread = None
            rest = unread.output.take(final=True)
            execution.left_by_previous = notes.left_by_previous(unread.status, rest.head, rest.tail)
        bash.settle()
        if state.stage is CALM:
            bash.drain()  # output of processes that outlived the previous command
            self._terminal.start(execution)
        else:
            execution.is_marked = True
            execution.log_start = self._log.end
        execution.enter(SENT)
        self._send(bash, line)
        return await self._answer(command, execution)

    def _send(self, bash: BashProcess, line: bytes) -> None:
        bash.send_lines(line)

    async def _ready_bash(self, execution: Execution) -> BashProcess:
        """Return a bash that reads command lines; start one if needed."""
        while self._bash is None or self._sync.settled is not None:
            if self._bash is None:
                await self._start(execution)
            elif self._sync.settled is not None:
                await asyncio.shield(self._sync.settled)
            self._ensure_open()
        return self._bash

    async def _checked_bash(self, execution: Execution, check: CommandCheck) -> BashProcess:
        """Return a bash for which `check` passed. If bash ends during the check, start another bash
        and check again."""
        while True:
            bash = await self._ready_bash(execution)
            await check(self)
            self._ensure_open()
            if self._bash is bash and self._sync.settled is None:
                return bash

    async def _start(self, execution: Execution) -> None:
        """Start a new bash in the directory of the previous bash. If that directory no longer
        exists, use the working directory."""
        execution.new_shell = self._state.stage is not ShellStage.NEW
        cwd = self.cwd
        if execution.new_shell and not await asyncio.to_thread(Path(cwd).is_dir):
            cwd = str(self._settings.working_dir)
        bash = self._make_bash()
        self._ends.buffer = b""
        self._terminal.reset()
        await bash.start(self._keeper, cwd=cwd, env={**self._env, "PWD": cwd})
        if self._state.is_closed:
            await self._keeper.end(bash.pid)
            bash.close()
            raise self._closed_error()
        self._state.bash_started(cwd)
        self._bash = bash

    def _make_bash(self) -> BashProcess:
        return PtyBash(
            self._settings,
            on_output=self._on_output,
            on_message=self._on_message,
            on_end=self._on_end,
            on_replaced=self._on_replaced,
        )

    async def _continue(self, command: CmdRun) -> CmdOutput:
        """Type the command's input, if any, and read more output of the running command."""
        execution = self._execution
        if execution is None:
            return self._answer_without_command(command)
        key = ""
        if command.is_input and command.command:
            if KEY.fullmatch(command.command):
                key = command.command
                await self._interrupts.press(execution, key)
            else:
                await self._type(execution, command.command)
        if execution.waiter is not None:
            return self._answers.for_another(command, cwd=self.cwd)
        return await self._answer(command, execution, key=key)

    def _answer_without_command(self, command: CmdRun) -> CmdOutput:
        """Return the result of a command that ended since the last call, or a note."""
        if (unread := self._unread) is not None:
            self._unread = None
            return self._answers.done(command, unread, cwd=self.cwd)
        typed = command.command.strip()
        text = notes.NOTHING_TO_TYPE_INTO if typed else notes.NOTHING_TO_READ
        return self._answers.idle(command, text, cwd=self.cwd)

    async def _type(self, execution: Execution, text: str) -> None:
        await execution.until(CommandStage.SENT)
        if not execution.is_over:
            enter = "" if text.endswith("\n") else "\n"
            self._require_bash().type((text + enter).encode("utf-8", "replace"))

    async def _answer(self, command: CmdRun, execution: Execution, *, key: str = "") -> CmdOutput:
        soft = None if command.blocking else self._settings.soft_timeout
        execution.answers += 1
        try:
            reason = await execution.wait(soft=soft, hard=command.timeout)
        except asyncio.CancelledError:
            self._interrupts.abandon(execution)
            raise
        if reason == "lost":
            return await self._run_new(command, is_retry=True)
        if reason == "end" or execution.is_over:
            if self._unread is execution:
                self._unread = None
            return self._answers.done(command, execution, cwd=self._state.cwd, key=key)
        if reason == "soft":
            self._end_query.query(execution)
        return self._answers.running(command, execution, reason, cwd=self.cwd)

    # Callbacks from bash ---------------------------------------------------------------------

    def _on_message(self, data: bytes) -> None:
        if not self._names.feed(data):
            self._ends.feed(data, self._execution)

    def _on_output(self, data: bytes) -> None:
        self._terminal.take(data, self._execution)

    def _end_execution(self, execution: Execution, status: int, background_pid: int) -> None:
        self._execution = None
        if execution.waiter is None and not execution.is_abandoned:
            self._unread = execution  # nobody waits now; the next call gets the result
        execution.finish(status, background_pid)

    def _lose_execution(self, execution: Execution) -> bool:
        """Handle a command that did not run. True if its caller waits and will retry it."""
        self._execution = None
        return execution.lose()

    def _on_end(self, status: int) -> None:
        """Handle the exit of bash itself."""
        if self._state.is_closed:
            return
        bash, self._bash = self._bash, None
        ending = Ending.SHELL_ENDED
        if bash is not None:
            bash.close()
            if self._state.stage is ShellStage.REPLACED:
                ending = Ending.SHELL_REPLACED
            self._state.bash_ended()
        self._sync.end()
        self._names.end()
        execution = self._execution
        self._terminal.flush(execution)
        if execution is None or execution.stage is CommandStage.WAITING:
            return  # a waiting command starts a new bash itself
        if self._died_before_reading(execution, bash) and self._lose_execution(execution):
            return  # the command will run in a new bash
        code = status if status >= 0 else 128 - status
        execution.ending = ending
        self._end_execution(execution, 0 if ending is Ending.SHELL_REPLACED else code, -1)

    def _died_before_reading(self, execution: Execution, bash: BashProcess | None) -> bool:
        """Whether bash died before it had read the command line, so that a retry cannot execute
        anything twice."""
        if bash is None or execution.was_asked or execution.is_retry:
            return False
        return bash.left_lines_unread and execution.stage is not CommandStage.RUNNING

    def _on_replaced(self) -> None:
        """Handle that `exec` replaced bash by another program.

        Another interactive shell would wait at its prompt forever. So we kill such a shell, and the
        next bash gets its environment and directory. Any other program keeps running; the command
        ends when the program exits.
        """
        loop = asyncio.get_running_loop()
        loop.call_later(_REPLACE_DELAY, self._take_over, self._bash)

    def _take_over(self, bash: BashProcess | None) -> None:
        """Replace another interactive shell. Runs later, when /proc shows the new program."""
        if bash is None or bash is not self._bash or self._state.stage is ShellStage.REPLACED:
            return
        if not bash.has_arguments():  # the kernel is still loading the program, or it has ended
            self._on_replaced()
            return
        if not bash.is_other_shell():
            return
        self._env = bash.environment() or self._env
        self._state.cwd = bash.directory() or self.cwd
        self._state.enter(ShellStage.REPLACED)
        bash.kill()

    def _ensure_open(self) -> None:
        if self._state.stage is CLOSED:
            raise self._closed_error()

    def _require_bash(self) -> BashProcess:
        if self._bash is None:
            raise self._closed_error()
        return self._bash

    def _closed_error(self) -> ShellClosed:
        return ShellClosed(f"the shell {self.name!r} was closed; use another, or make a new one")
