"""A shell on a pseudo-terminal that detects the exact end of each command and loses no output.

`marks` has the protocol with bash, `bash` the process, `output` what an answer may hold. This
module is the life of commands: one at a time, each an `Execution`, from the line that starts it
to its end, through any number of answers.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from bascule.core.actions import CmdRun
from bascule.core.contracts import OnProgress, OutputProgress, Shell
from bascule.core.errors import CommandInvalid, ShellClosed
from bascule.core.observations import CmdOutput

from . import notes
from .alarm import Alarm
from .bash import BashProcess
from .command_observations import CommandObservations
from .execution import Execution
from .keeper import Keeper
from .log import DiskLog
from .marks import (
    PROMPT,
    CommandEnd,
    ask_line,
    command_line,
    find_end,
    find_mark,
    held_back,
    is_refusal,
    new_nonce,
    repair_line,
    terminal_line,
    unfinished_mark,
    without_marks,
    without_prompt,
)
from .output import CommandOutput
from .pty_bash import PtyBash
from .settings import ShellSettings

logger = logging.getLogger(__name__)

_KEY = re.compile(r"C-[A-Za-z\\\]^_@\[]")
_BACKGROUND_LIMIT = 64 << 10
_PATIENCE = 1.0
"""Seconds between ever firmer ways to end an abandoned command, and to find bash idle."""
_SYNC_TRIES = 40
_STOPPED = frozenset(
    128 + number for number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
)
"""Statuses of a program that was stopped, and is a job now."""
_GLANCE = 0.002
"""Seconds between looks whether bash has begun, when a signal waits for that."""
_MOST_SAID = 1 << 20


class PtyShell(Shell):
    """Bash that remembers, on a pseudo-terminal of its own. `Shell` has the promises.

    Bash is started with the first command. `run` must be called from one event loop.
    """

    _can_be_calm = True
    """All that was printed can be had the moment bash tells of an end."""

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
        self._listeners: list[OnProgress] = []
        self._env = environment
        self._cwd = str(settings.working_dir)
        self._answers = CommandObservations(name, settings=settings, log=log)
        self._alarm: Alarm | None = None
        self._bash: BashProcess | None = None
        self._execution: Execution | None = None
        self._unread: Execution | None = None
        self._turn = asyncio.Lock()
        self._syncing: asyncio.Future[None] | None = None
        self._sync: bytes = b""
        self._status = 0
        self._options = ""
        self._had_life = False
        self._is_settled = False
        self._is_calm = False
        self._was_disturbed = False
        self._said = b""
        self._rest = b""
        self._background = bytearray()
        self._closed = False

    @property
    def is_running(self) -> bool:
        return self._execution is not None

    @property
    def has_ended(self) -> bool:
        """Whether its bash has left, and no command waits for a new one."""
        is_wanted = self._execution is not None or self._turn.locked()
        return self._had_life and self._bash is None and not is_wanted

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def log(self) -> DiskLog:
        return self._log

    async def run(self, command: CmdRun) -> CmdOutput:
        self._ensure_open()
        if command.output_limit is not None and command.output_limit < 0:
            raise CommandInvalid(
                f"output_limit is {command.output_limit}; it counts characters, and 0 asks for all"
            )
        if command.is_input or not command.command.strip():
            return await self._go_on(command)
        if self._execution is None and _KEY.fullmatch(command.command):
            return self._nothing_runs(command)
        if command.queue:
            async with self._turn:
                while self._execution is not None:
                    await self._execution.until("over")
                return await self._run_new(command)
        while (running := self._execution) is not None:
            if not running.abandoned:
                return self._answers.refused(command, running, cwd=self._cwd)
            await running.until("over")
        return await self._run_new(command)

    async def interrupt(self, *, kill: bool = False) -> bool:
        execution = self._execution
        if execution is None:
            return False
        if kill:
            await self._can_be_signalled(execution)
            if not execution.is_over:
                self._kill_foreground()
        else:
            await self._press(execution, "C-c")
        return True

    def subscribe(self, listener: OnProgress) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if (execution := self._execution) is not None:
            self._execution = None
            execution.fail(self._closed_error())
        self._end_sync()
        if self._alarm is not None:
            self._alarm.close()
        if (bash := self._bash) is not None:
            self._bash = None
            try:
                # Before its terminal: bash would leave on SIGHUP, and its orphans be nobody's.
                if bash.is_alive:
                    await self._keeper.end(bash.pid)
            finally:
                bash.close()
        self._log.close(remove=self._settings.log_dir is None)

    # A command's life ------------------------------------------------------------------------

    async def _run_new(self, command: CmdRun, *, is_retry: bool = False) -> CmdOutput:
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
        self._execution = execution  # from here on others are refused, also while bash starts
        try:
            bash = self._bash
            if bash is None or self._syncing is not None:
                bash = await self._ready_bash(execution)
            line = command_line(
                command.command,
                nonce,
                cwd=command.cwd or None,
                last_status=self._status,
                options=self._options,
                marked=not self._is_calm,
            )
        except BaseException:
            if self._execution is execution:
                self._execution = None
            execution.close()
            raise
        if (unread := self._unread) is not None:
            self._unread = None
            rest = unread.output.take(final=True)
            execution.left_by_previous = notes.left_by_previous(unread.status, rest.head, rest.tail)
        bash.settle()
        execution.log_start = self._log.end
        execution.is_marked = not self._is_calm
        if self._is_calm:
            bash.drain()  # what a process that outlived its command printed since
            self._start_output(execution)
        self._tell(bash, execution, line)
        return await self._answer(command, execution)

    def _tell(self, bash: BashProcess, execution: Execution, line: bytes) -> None:
        bash.tell(line)
        execution.tell()

    async def _ready_bash(self, execution: Execution) -> BashProcess:
        """A bash that reads lines; started if there is none."""
        while self._bash is None or self._syncing is not None:
            if self._bash is None:
                await self._start(execution)
            elif self._syncing is not None:
                await asyncio.shield(self._syncing)
            self._ensure_open()
        return self._bash

    async def _start(self, execution: Execution) -> None:
        """A new bash, where the one before was; the start directory if that is gone."""
        execution.new_shell = self._had_life
        cwd = self._cwd
        if self._had_life and not await asyncio.to_thread(Path(cwd).is_dir):
            cwd = str(self._settings.working_dir)
        bash = self._make_bash()
        self._said = self._rest = b""
        self._status, self._options = 0, ""
        self._is_settled = self._is_calm = self._was_disturbed = False
        self._background.clear()
        await bash.start(self._keeper, cwd=cwd, env={**self._env, "PWD": cwd})
        if self._closed:
            await self._keeper.end(bash.pid)
            bash.close()
            raise self._closed_error()
        self._cwd = cwd
        self._bash = bash
        self._had_life = True

    def _make_bash(self) -> BashProcess:
        return PtyBash(
            self._settings,
            on_output=self._on_output,
            on_said=self._on_said,
            on_end=self._on_end,
            on_replaced=self._on_replaced,
        )

    async def _go_on(self, command: CmdRun) -> CmdOutput:
        """Read on from the running command, after typing into it if asked."""
        execution = self._execution
        if execution is None:
            return self._nothing_runs(command)
        key = ""
        if command.is_input and command.command:
            if _KEY.fullmatch(command.command):
                key = command.command
                await self._press(execution, key)
            else:
                await self._type(execution, command.command)
        if execution.waiter is not None:
            return self._answers.for_another(command, cwd=self._cwd)
        return await self._answer(command, execution, key=key)

    def _nothing_runs(self, command: CmdRun) -> CmdOutput:
        """What ended since the last answer is told now; else there is nothing to tell."""
        if (unread := self._unread) is not None:
            self._unread = None
            return self._answers.done(command, unread, cwd=self._cwd)
        typed = command.command.strip()
        text = notes.NOTHING_TO_TYPE_INTO if typed else notes.NOTHING_TO_READ
        return self._answers.idle(command, text, cwd=self._cwd)

    async def _type(self, execution: Execution, text: str) -> None:
        await execution.until("told")
        if not execution.is_over:
            enter = "" if text.endswith("\n") else "\n"
            self._require_bash().type((text + enter).encode("utf-8", "replace"))

    async def _press(self, execution: Execution, key: str) -> None:
        await self._can_be_signalled(execution)
        self._press_until_felt(execution, key, again=(0.02, 0.1, 0.5))

    def _press_until_felt(self, execution: Execution, key: str, again: tuple[float, ...]) -> None:
        """While bash starts a program a signal can reach bash alone, which then just waits for the
        program, or the program's process before it is the program, and is lost: press again."""
        bash = self._bash
        if execution.is_over or bash is None:
            return
        at_bash = bash.foreground() == bash.pid
        if at_bash and execution.was_asked and not bash.is_in_command():
            return  # it is at its prompt and answering; a signal would tear the question apart
        may_be_lost = at_bash or bash.is_starting_program()
        bash.press(key)
        if may_be_lost and again:
            execution.later(again[0], lambda: self._press_again(execution, key, again[1:]))
        execution.later(_PATIENCE / 20, lambda: self._look_for_idle_bash(execution))

    def _press_again(self, execution: Execution, key: str, again: tuple[float, ...]) -> None:
        bash = self._bash
        if bash is None or execution.is_over:
            return
        if bash.foreground() != bash.pid:
            self._press_until_felt(execution, key, again)
        elif again:
            execution.later(again[0], lambda: self._press_again(execution, key, again[1:]))

    async def _can_be_signalled(self, execution: Execution) -> None:
        """A signal that hits bash while it still reads the line would be lost, or the line."""
        await execution.until("told")
        self._look_for_begin(execution)
        await execution.until("begun")
        execution.was_signalled = True

    def _look_for_begin(self, execution: Execution) -> None:
        """Bash does not tell that it begins, which nearly nobody asks: see for ourselves."""
        bash = self._bash
        if execution.is_begun or execution.is_over or bash is None:
            return
        if bash.is_in_command() or execution.age() > _PATIENCE:
            execution.begin()
        else:
            execution.later(_GLANCE, lambda: self._look_for_begin(execution))

    async def _answer(self, command: CmdRun, execution: Execution, *, key: str = "") -> CmdOutput:
        soft = None if command.blocking else self._settings.soft_timeout
        execution.answers += 1
        try:
            reason = await execution.wait(soft=soft, hard=command.timeout)
        except asyncio.CancelledError:
            self._abandon(execution)
            raise
        if reason == "lost":
            return await self._run_new(command, is_retry=True)
        if reason == "end" or execution.is_over:
            if self._unread is execution:
                self._unread = None
            return self._answers.done(command, execution, cwd=self._cwd, key=key)
        if reason == "soft":
            self._look_for_idle_bash(execution)
        return self._answers.running(command, execution, reason, cwd=self._cwd)

    def _abandon(self, execution: Execution) -> None:
        """Nobody waits any more: end the command, politely first."""
        if execution.is_over or self._closed:
            return
        execution.abandoned = True
        execution.was_signalled = True
        steps = (
            lambda: self._press_until_felt(execution, "C-c", again=(0.02, 0.1, 0.5)),
            lambda: self._require_bash().signal(signal.SIGTERM),
            self._kill_foreground,
            lambda: self._require_bash().kill(),
        )

        def step(number: int) -> None:
            if execution.is_over or self._bash is None:
                return
            steps[number]()
            if number + 1 < len(steps):
                execution.later(_PATIENCE, lambda: step(number + 1))

        # A signal now could hit bash while it still reads the line.
        execution.when_begun = lambda: step(0)
        if execution.is_begun:
            step(0)
        elif execution.is_told:
            self._look_for_begin(execution)

    def _kill_foreground(self) -> None:
        bash = self._require_bash()
        if bash.foreground() == bash.pid or not bash.signal(signal.SIGKILL):
            bash.kill()  # a builtin runs: only bash itself can be ended

    # What bash says --------------------------------------------------------------------------

    def _on_said(self, said: bytes) -> None:
        """Ends of commands, answers to questions, and noise of our own lines, which is dropped."""
        if self._said:
            said, self._said = self._said + said, b""
        if self._sync and find_end(said, self._sync) is not None:
            self._end_sync()
            return
        execution = self._execution
        if execution is None or execution.end is not None:
            return  # an answer to a question asked twice
        if (end := find_end(said, execution.nonce)) is not None:
            self._take_end(execution, end)
        else:
            self._said = said[-_MOST_SAID:]

    def _take_end(self, execution: Execution, end: CommandEnd) -> None:
        execution.end = end
        if not execution.is_printed:
            self._require_bash().drain()  # what it printed is in the terminal by now
            if self._rest and not execution.is_over:
                self._on_output(b"")  # now it is known how to read it
        if execution.is_over:
            return
        if execution.is_printed or not (execution.is_marked or end.is_marked):
            self._finish(execution, end)
        else:  # the mark follows at once, unless a signal got in between
            execution.later(_PATIENCE / 10, lambda: self._finish_without_mark(execution, end))

    def _finish_without_mark(self, execution: Execution, end: CommandEnd) -> None:
        def finish() -> None:
            if not execution.is_over:
                self._finish(execution, end)

        self._require_bash().after_output(finish)

    def _finish(self, execution: Execution, end: CommandEnd) -> None:
        if self._rest and not execution.is_printed:
            rest, self._rest = self._rest, b""
            self._emit(execution, rest)
        bash = self._require_bash()
        if end.status == 1 and not bash.has_terminal():
            bash.tell(terminal_line(bash.terminal))
            if self._was_refused(execution):
                self._background.clear()
                self._execution = None
                if execution.lose():
                    return
        self._is_settled = True
        self._status, self._options = end.status, end.options
        self._cwd = end.cwd or self._cwd
        execution.path = end.path
        if execution.was_signalled or execution.was_asked:
            self._was_disturbed = True
            self._begin_sync()
        elif end.status in _STOPPED:
            self._was_disturbed = True  # bash tells of it, and of its end, when it comes to it
        self._is_calm = self._can_be_calm and end.is_calm and not self._was_disturbed
        self._end_execution(execution, end.status, end.background_pid)

    def _was_refused(self, execution: Execution) -> bool:
        """Bash could not give the command its terminal, since an earlier one closed it."""
        if execution.is_retry:
            return False
        return not execution.is_started or is_refusal(execution.output.beginning())

    def _on_output(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        execution = self._execution
        if execution is None or not execution.is_told or execution.is_printed:
            self._idle_output(data)
            return
        nonce = execution.nonce
        mark = find_mark(data, nonce)
        if not execution.is_started:
            if mark is None:
                self._idle_output(self._keep_back(data, held_back(data, nonce)))
                return
            self._idle_output(data[: mark.before])
            self._start_output(execution)
            if mark.is_start:
                data = data[mark.after :]
                mark = find_mark(data, nonce)
        if mark is None:
            self._emit(execution, self._keep_back(data, held_back(data, nonce)))
            if self._rest.endswith(PROMPT):
                execution.later(_PATIENCE / 200, lambda: self._prompt_seen(execution))
            return
        end = execution.end
        if mark.was_asked and end is None:
            # Bash told the end before it printed this: perhaps that of the command's own line,
            # after which it shows no prompt, and what looks like one was printed by the command.
            self._rest = data
            return
        shown = data[: mark.before]
        self._emit(execution, without_prompt(shown) if end and end.was_asked else shown)
        execution.is_printed = True
        if end is not None:
            self._finish(execution, end)
        self._idle_output(data[mark.after :])

    def _keep_back(self, data: bytes, size: int) -> bytes:
        """`data` less its last `size` bytes, which wait for what comes next."""
        if not size:
            return data
        self._rest = data[-size:] + self._rest
        return data[:-size]

    def _start_output(self, execution: Execution) -> None:
        execution.is_started = True
        execution.log_start = self._log.end
        if self._background:
            # Not the first prompt, nor our own lines as bash echoes them.
            if self._is_settled and not {"v", "x"}.intersection(self._options):
                execution.background = self._background.decode("utf-8", "replace")
            self._background.clear()

    def _emit(self, execution: Execution, data: bytes) -> None:
        if execution.was_signalled:
            data = data.replace(PROMPT, b"")  # of each signal that found bash at its prompt
        if not data:
            return
        execution.add(data)
        self._record(data)

    def _record(self, data: bytes) -> None:
        offset = self._log.end
        self._log.append(data)
        if self._listeners:
            progress = OutputProgress(self.name, offset, data)
            for listener in tuple(self._listeners):
                try:
                    listener(progress)
                except Exception as error:  # noqa: BLE001 - its fault is not the shell's
                    logger.warning("a listener to the shell %s failed: %r", self.name, error)

    def _idle_output(self, data: bytes) -> None:
        """Output with no command running: prompts, which are dropped, and background jobs'."""
        if not data:
            return
        data = self._keep_back(data, unfinished_mark(data))
        data = without_marks(data)
        if data and self._is_settled:
            self._background += data
            if len(self._background) > _BACKGROUND_LIMIT:
                del self._background[: len(self._background) - _BACKGROUND_LIMIT]
            self._record(data)

    def _end_execution(self, execution: Execution, status: int, background_pid: int) -> None:
        self._execution = None
        if execution.waiter is None and not execution.abandoned:
            self._unread = execution  # nobody waits just now; the next call is told
        execution.finish(status, background_pid)

    def _on_end(self, status: int) -> None:
        """Bash itself is gone."""
        bash, self._bash = self._bash, None
        if bash is not None:
            bash.close()
        self._end_sync()
        if self._rest:
            rest, self._rest = self._rest, b""
            if self._execution is not None:
                self._emit(self._execution, rest)
        execution = self._execution
        if execution is not None and not execution.is_told:
            return  # it has not been given to any bash yet and starts one itself
        if execution is not None and bash is not None and self._never_began(execution, bash):
            self._execution = None
            if execution.lose():  # a new bash runs it
                return
        code = status if status >= 0 else 128 - status
        self._status, self._options = 0, ""
        if execution is not None:
            execution.shell_ended = True
            self._end_execution(execution, 0 if execution.replaced else code, -1)

    def _never_began(self, execution: Execution, bash: BashProcess) -> bool:
        """Bash died before it had read the line, so running it again does nothing twice."""
        told_more = execution.was_asked or execution.is_begun
        return bash.left_lines_unread and not (told_more or execution.is_retry)

    def _on_replaced(self) -> None:
        """`exec` put another program in bash's place.

        A shell at its prompt would wait for ever: take over its environment and directory. Any
        other program is what the user asked for; its end will be the end of the command.
        """
        loop = asyncio.get_running_loop()
        loop.call_later(_PATIENCE / 10, self._take_over, self._bash)

    def _take_over(self, bash: BashProcess | None) -> None:
        """A moment after the fact: while it happens the new program has no name yet."""
        if bash is None or bash is not self._bash or not bash.is_other_shell():
            return
        self._env = bash.environment() or self._env
        self._cwd = bash.directory() or self._cwd
        if self._execution is not None:
            self._execution.replaced = True
        bash.kill()

    # When no mark comes ----------------------------------------------------------------------

    def _begin_sync(self) -> None:
        """A signal we sent may still be on its way and would tear the next command's line apart:
        that line waits until bash has answered a question."""
        self._syncing = asyncio.get_running_loop().create_future()
        self._ask_for_sync(_SYNC_TRIES)

    def _ask_for_sync(self, tries: int) -> None:
        nonce = new_nonce()
        self._sync = nonce.encode()
        if self._bash is not None:
            self._bash.tell(ask_line(nonce))
        loop = asyncio.get_running_loop()
        loop.call_later(_PATIENCE / 10, self._ask_again, self._sync, tries - 1)

    def _ask_again(self, nonce: bytes, tries: int) -> None:
        """No answer: the signal tore the question itself apart, and bash waits for the rest of it
        (an interrupt clears that), or the machine is slow."""
        bash = self._bash
        if self._sync != nonce or bash is None:
            return
        bash.drain()
        if self._sync != nonce:
            return
        if not tries:
            bash.kill()
            return
        if bash.foreground() != bash.pid:
            bash.signal(signal.SIGKILL)  # half-started, and bash waits for it; no command runs now
        elif not bash.unread_commands():
            bash.signal(signal.SIGINT)
        loop = asyncio.get_running_loop()
        loop.call_later(_PATIENCE / 20, self._ask_unless_answered, nonce, tries)

    def _ask_unless_answered(self, nonce: bytes, tries: int) -> None:
        if self._sync == nonce:
            self._ask_for_sync(tries)

    def _end_sync(self) -> None:
        self._sync = b""
        if self._syncing is not None:
            self._syncing.set_result(None)
            self._syncing = None

    def _look_for_idle_bash(self, execution: Execution) -> None:
        """Bash seems to be at its prompt although no end came: ask for it.

        If bash is busy after all, the answer comes after the end and is ignored. If bash reads the
        question, which it does only at its prompt, and no mark comes, then something is broken.
        """
        bash = self._bash
        if bash is not None and bash.foreground() == bash.pid:
            self._ask(execution)

    def _prompt_seen(self, execution: Execution) -> None:
        """No end, but a prompt, or something that looks like one; then asking does no harm."""
        bash = self._bash
        if execution.is_over or bash is None or not self._rest.endswith(PROMPT):
            return
        if execution.was_signalled and bash.is_starting_program():
            # The signal came as bash was starting a program and took bash back to its prompt. The
            # half-started process has the foreground and waits for a word from bash for ever.
            bash.signal(signal.SIGKILL)
        self._ask(execution)

    def _ask(self, execution: Execution) -> None:
        bash = self._bash
        if execution.is_over or execution.end is not None or bash is None:
            return
        execution.was_asked = True
        bash.tell(ask_line(execution.nonce.decode()))
        execution.later(_PATIENCE / 10, lambda: self._mend(execution))

    def _mend(self, execution: Execution) -> None:
        """Bash read a question and did not answer: its marks are broken, or a signal tore the
        question apart and bash waits for the other half of it. An interrupt clears the latter."""
        bash = self._bash
        if execution.is_over or execution.end is not None or bash is None:
            return
        if bash.unread_commands():
            return
        bash.drain()  # the mark may wait behind output we have not read
        if self._execution is not execution:
            return
        execution.status_unknown = not execution.was_signalled
        bash.signal(signal.SIGINT)
        repair = repair_line(execution.nonce.decode(), terminal=bash.terminal)
        execution.later(_PATIENCE / 20, lambda: bash.tell(repair))
        execution.later(_PATIENCE, lambda: None if execution.is_over else bash.kill())

    def _ensure_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _require_bash(self) -> BashProcess:
        if self._bash is None:
            raise self._closed_error()
        return self._bash

    def _closed_error(self) -> ShellClosed:
        return ShellClosed(f"the shell {self.name!r} was closed; use another, or make a new one")
