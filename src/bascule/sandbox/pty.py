"""A shell on a pseudo-terminal: knows exactly when a command ended and loses none of its output.

`marks` has the protocol with bash, `bash` the process, `output` what an answer may hold. This
module is the life of commands: one at a time, each an `Execution`, from the line that starts it
to the mark that ends it, through any number of answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from pwd import getpwuid
from typing import Literal

from bascule.core.actions import CmdRun
from bascule.core.contracts import OnProgress, Progress, Shell
from bascule.core.errors import ShellClosed
from bascule.core.observations import CmdMetadata, CmdOutput

from . import notes
from .bash import BashProcess
from .execution import Execution, Reason
from .keeper import Keeper
from .log import DiskLog
from .marks import (
    PROMPT,
    End,
    command_lines,
    find_mark,
    held_back,
    new_nonce,
    repair_line,
    sync_line,
    without_marks,
    without_prompt,
)
from .output import Output
from .shell_settings import ShellSettings, shell_environment

_KEY = re.compile(r"C-[A-Za-z\\\]^_@\[]")
_BACKGROUND_LIMIT = 64 << 10
_PATIENCE = 1.0
"""Seconds between ever firmer ways to end an abandoned command, and to find bash idle."""
_FRESH = 1.0
"""Seconds the path of the Python interpreter is believed before it is looked up again."""


class PtyShell(Shell):
    """Bash that remembers, on a pseudo-terminal of its own. `Shell` has the promises.

    Bash is started with the first command. `run` must be called from one event loop.
    """

    def __init__(self, name: str, *, keeper: Keeper, settings: ShellSettings, log: DiskLog) -> None:
        self.name = name
        self._keeper = keeper
        self._settings = settings
        self._log = log
        self._listeners: list[OnProgress] = []
        self._env = shell_environment(settings)
        self._cwd = str(settings.working_dir)
        self._user = settings.account.name if settings.account else _own_name()
        self._host = socket.gethostname()
        self._bash: BashProcess | None = None
        self._execution: Execution | None = None
        self._turn = asyncio.Lock()
        self._busy_syncing: asyncio.Future[None] | None = None
        self._sync: bytes = b""
        self._status = 0
        self._options = ""
        self._had_life = False
        self._is_settled = False
        self._rest = b""
        self._background = bytearray()
        self._python: tuple[str, float, str | None] = ("", 0.0, None)
        self._closed = False

    @property
    def is_running(self) -> bool:
        return self._execution is not None

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def log(self) -> DiskLog:
        return self._log

    async def run(self, command: CmdRun) -> CmdOutput:
        if self._closed:
            raise self._closed_error()
        text = command.command
        if command.is_input or not text.strip():
            return await self._go_on(command)
        if self._execution is None and _KEY.fullmatch(text):
            return self._idle_answer(command, notes.NOTHING_TO_TYPE_INTO)
        if command.queue:
            async with self._turn:
                while self._execution is not None:
                    await asyncio.shield(self._execution.ended)
                return await self._run_new(command)
        if (execution := self._execution) is not None:
            if not execution.abandoned:
                return self._refusal(command, execution)
            await asyncio.shield(execution.ended)
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

    async def _run_new(self, command: CmdRun) -> CmdOutput:
        nonce = new_nonce()
        lines = command_lines(
            command.command, nonce, last_status=self._status, options=self._options
        )
        limit = command.output_limit
        execution = Execution(
            command.command,
            nonce=nonce.encode(),
            output=Output(self._settings.output_limit if limit is None else limit),
            loop=asyncio.get_running_loop(),
        )
        self._execution = execution  # from here on others are refused, also while bash starts
        try:
            if self._bash is None:
                await self._start(execution)
            if self._busy_syncing is not None:
                await asyncio.shield(self._busy_syncing)
        except BaseException:
            if self._execution is execution:
                self._execution = None
                execution.close()
            raise
        bash = self._require_bash()
        bash.settle()
        execution.log_start = self._log.end
        bash.tell(lines)
        execution.told.set()
        return await self._answer(command, execution)

    async def _start(self, execution: Execution) -> None:
        """A new bash, where the one before was; the start directory if that is gone."""
        execution.new_shell = self._had_life
        there = await asyncio.to_thread(Path(self._cwd).is_dir)
        cwd = self._cwd if there else str(self._settings.working_dir)
        bash = BashProcess(
            on_output=self._on_output, on_end=self._on_end, on_replaced=self._on_replaced
        )
        self._rest = b""
        self._status, self._options = 0, ""
        self._is_settled = False
        self._background.clear()
        await bash.start(
            self._keeper,
            cwd=cwd,
            env={**self._env, "PWD": cwd},
            account=self._settings.account,
            size=(self._settings.rows, self._settings.columns),
            load_rc=self._settings.load_rc,
        )
        if self._closed:
            await self._keeper.end(bash.pid)
            bash.close()
            raise self._closed_error()
        self._cwd = cwd
        self._bash = bash
        self._had_life = True

    async def _go_on(self, command: CmdRun) -> CmdOutput:
        """Read on from the running command, after typing into it if asked."""
        execution = self._execution
        if execution is None:
            typing = command.is_input and command.command
            text = notes.NOTHING_TO_TYPE_INTO if typing else notes.NOTHING_TO_READ
            return self._idle_answer(command, text)
        key = ""
        if command.is_input and command.command:
            if _KEY.fullmatch(command.command):
                key = command.command
                await self._press(execution, key)
            else:
                await self._type(execution, command.command)
        if execution.waiter is not None:
            return self._observe(command, execution, "end", taken=False)
        return await self._answer(command, execution, key=key)

    async def _type(self, execution: Execution, text: str) -> None:
        await execution.told.wait()
        if not execution.is_over:
            enter = "" if text.endswith("\n") else "\n"
            self._require_bash().type((text + enter).encode("utf-8", "replace"))

    async def _press(self, execution: Execution, key: str) -> None:
        await self._can_be_signalled(execution)
        self._press_until_felt(execution, key, again=(0.02, 0.1, 0.5))

    def _press_until_felt(self, execution: Execution, key: str, again: tuple[float, ...]) -> None:
        """While bash starts a program, a signal can reach bash alone, and bash just waits for the
        program: press again if there is one now."""
        bash = self._bash
        if execution.is_over or bash is None:
            return
        at_bash = bash.foreground() == bash.pid
        bash.press(key)
        if at_bash and again:
            execution.later(again[0], lambda: self._press_again(execution, key, again[1:]))

    def _press_again(self, execution: Execution, key: str, again: tuple[float, ...]) -> None:
        bash = self._bash
        if bash is not None and not execution.is_over:
            if bash.foreground() != bash.pid:
                bash.press(key)
            elif again:
                execution.later(again[0], lambda: self._press_again(execution, key, again[1:]))

    async def _can_be_signalled(self, execution: Execution) -> None:
        """A signal that hits bash while it still reads the line would be lost, or the line."""
        await execution.told.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await execution.begun.wait()
        execution.was_signalled = True

    async def _answer(self, command: CmdRun, execution: Execution, *, key: str = "") -> CmdOutput:
        soft = None if command.blocking else self._settings.soft_timeout
        continued = execution.answers > 0
        execution.answers += 1
        try:
            reason = await execution.wait(soft=soft, hard=command.timeout)
        except asyncio.CancelledError:
            self._abandon(execution)
            raise
        if reason == "soft":
            self._look_for_idle_bash(execution)
        return self._observe(command, execution, reason, continued=continued, key=key)

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

        if execution.started:
            step(0)
        else:  # a signal now would hit bash while it still reads the line
            execution.when_begun = lambda: step(0)

    def _kill_foreground(self) -> None:
        bash = self._require_bash()
        if bash.foreground() == bash.pid or not bash.signal(signal.SIGKILL):
            bash.kill()  # a builtin runs: only bash itself can be ended

    # What bash says --------------------------------------------------------------------------

    def _on_output(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        if self._sync:
            data = self._look_for_sync(data)
        execution = self._execution
        if execution is None or execution.is_over:
            self._idle_output(data)
            return
        nonce = execution.nonce
        if not execution.started:
            mark = find_mark(data, nonce)
            if mark is None or mark.end is not None:
                if mark is None:
                    keep = held_back(data, nonce)
                    self._rest = data[len(data) - keep :]
                    self._idle_output(data[: len(data) - keep])
                    return
            else:
                self._idle_output(data[: mark.before])
                data = data[mark.after :]
            self._start_output(execution)
        mark = find_mark(data, nonce)
        if mark is not None and mark.end is not None:
            shown = data[: mark.before]
            self._emit(execution, without_prompt(shown) if mark.at_prompt else shown)
            self._finish(execution, mark.end)
            if mark.after < len(data):
                self._on_output(data[mark.after :])
            return
        keep = held_back(data, nonce)
        if keep:
            self._rest = data[len(data) - keep :]
            data = data[: len(data) - keep]
        self._emit(execution, data)
        if self._rest.endswith(PROMPT):
            execution.later(_PATIENCE / 50, lambda: self._look_for_idle_bash(execution))

    def _start_output(self, execution: Execution) -> None:
        execution.begin()
        if not self._is_settled or {"v", "x"} & set(self._options):
            self._background.clear()  # the first prompt, or our own lines as bash echoes them
        execution.background = _prompts_removed(bytes(self._background))
        self._background.clear()
        execution.log_start = self._log.end

    def _emit(self, execution: Execution, data: bytes) -> None:
        if not data:
            return
        execution.add(data)
        self._record(data)

    def _record(self, data: bytes) -> None:
        offset = self._log.end
        self._log.append(data)
        if self._listeners:
            progress = Progress(self.name, offset, data)
            for listener in tuple(self._listeners):
                listener(progress)

    def _idle_output(self, data: bytes) -> None:
        """Output with no command running: of background jobs, or prompts."""
        self._background += without_marks(data) if PROMPT not in data else data
        if len(self._background) > _BACKGROUND_LIMIT:
            del self._background[: len(self._background) - _BACKGROUND_LIMIT]
        shown = without_marks(data)
        if shown and self._is_settled:
            self._record(shown)

    def _finish(self, execution: Execution, end: End) -> None:
        self._is_settled = True
        self._status, self._options = end.status, end.options
        self._cwd = end.cwd or self._cwd
        execution.path = end.path
        if execution.was_signalled:
            self._begin_sync()
        self._execution = None
        execution.finish(end.status, end.background_pid)

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
        execution, self._execution = self._execution, None
        code = status if status >= 0 else 128 - status
        self._status, self._options = 0, ""
        if execution is not None:
            execution.shell_ended = True
            execution.finish(0 if execution.replaced else code, -1)

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
        that line waits until bash has answered another one."""
        self._busy_syncing = asyncio.get_running_loop().create_future()
        self._send_sync(4)

    def _send_sync(self, tries: int) -> None:
        if self._busy_syncing is None or self._bash is None:
            return
        if not tries:
            self._bash.kill()
            return
        nonce = new_nonce()
        self._sync = nonce.encode()
        self._bash.tell(sync_line(nonce))
        asyncio.get_running_loop().call_later(_PATIENCE, self._resend_sync, self._sync, tries - 1)

    def _resend_sync(self, nonce: bytes, tries: int) -> None:
        if self._sync == nonce:
            self._send_sync(tries)

    def _look_for_sync(self, data: bytes) -> bytes:
        mark = find_mark(data, self._sync)
        if mark is not None:
            self._end_sync()
            return data[: mark.before] + data[mark.after :]
        if keep := held_back(data, self._sync):
            self._rest = data[len(data) - keep :]
            return data[: len(data) - keep]
        return data

    def _end_sync(self) -> None:
        self._sync = b""
        if self._busy_syncing is not None:
            self._busy_syncing.set_result(None)
            self._busy_syncing = None

    def _look_for_idle_bash(self, execution: Execution) -> None:
        """Bash seems to be at its prompt although no end came: ask it once more.

        More than one interrupt can cost the second line too, and this one then tells the end. If
        bash is busy after all it comes after the end and is ignored. If bash reads it, which it
        does only at its prompt, and still no mark comes, then its marks are broken.
        """
        bash = self._bash
        if execution.is_over or bash is None or bash.foreground() != bash.pid:
            return
        bash.tell(sync_line(execution.nonce.decode()))
        execution.later(_PATIENCE / 10, lambda: self._mend(execution))

    def _mend(self, execution: Execution) -> None:
        bash = self._bash
        if execution.is_over or bash is None or bash.unread_commands():
            return
        execution.status_unknown = True
        bash.tell(repair_line(execution.nonce.decode(), terminal=bash.terminal))
        execution.later(_PATIENCE, lambda: None if execution.is_over else bash.kill())

    # Answers ---------------------------------------------------------------------------------

    def _observe(
        self,
        command: CmdRun,
        execution: Execution,
        reason: Reason,
        *,
        continued: bool = False,
        key: str = "",
        taken: bool = True,
    ) -> CmdOutput:
        over = execution.is_over
        suffix = ""
        if not taken:
            suffix = notes.OTHER_READER
        elif over:
            suffix = self._last_words(execution, key)
        elif reason == "soft":
            suffix = notes.no_new_output(self._settings.soft_timeout)
        elif command.timeout is not None:
            suffix = notes.timed_out(command.timeout)
        return self._compose(
            command,
            execution if taken else None,
            final=over,
            state="done" if over else "running",
            exit_code=execution.status if over else -1,
            timed_out="" if over or reason == "end" else reason,
            prefix=notes.PREVIOUS if continued and not over else "",
            suffix=suffix,
        )

    def _last_words(self, execution: Execution, key: str) -> str:
        if execution.replaced:
            return notes.shell_replaced(self._cwd)
        if execution.status_unknown:
            return notes.status_unknown()
        suffix = notes.completed(execution.status, key)
        if execution.shell_ended:
            suffix += notes.shell_ended(execution.status, self._cwd)
        if execution.new_shell:
            suffix += notes.NEW_SHELL
        return suffix

    def _refusal(self, command: CmdRun, execution: Execution) -> CmdOutput:
        """What the running command printed meanwhile comes along, unless someone waits for it."""
        return self._compose(
            command,
            execution if execution.waiter is None else None,
            final=False,
            state="refused",
            exit_code=-1,
            prefix=notes.PREVIOUS,
            suffix=notes.refused(command.command),
        )

    def _idle_answer(self, command: CmdRun, text: str) -> CmdOutput:
        return self._compose(command, None, final=False, state="idle", exit_code=-1, content=text)

    def _compose(
        self,
        command: CmdRun,
        execution: Execution | None,
        *,
        final: bool,
        state: Literal["done", "running", "refused", "idle"],
        exit_code: int,
        timed_out: Literal["", "soft", "hard"] = "",
        prefix: str = "",
        suffix: str = "",
        content: str = "",
    ) -> CmdOutput:
        start = end = self._log.end
        size = left_out = 0
        background, new_shell, shell_ended, duration, pid = "", False, False, 0.0, -1
        path = self._env.get("PATH", "")
        log_path = str(self._log.path)
        if execution is not None:
            taken = execution.output.take(final=final)
            start = execution.log_start
            end = execution.log_start = start + taken.size
            size, left_out, content = taken.size, taken.left_out, taken.head
            if left_out:
                content += notes.left_out(left_out, path=log_path, start=start, end=end)
                content += taken.tail
            if execution.status_unknown:
                content = content.replace(PROMPT.decode(), "")
            background, execution.background = execution.background, ""
            new_shell, shell_ended = execution.new_shell, execution.shell_ended
            duration = execution.age()
            pid = execution.background_pid
            path = execution.path or path
        return CmdOutput(
            content=content,
            command=command.command,
            hidden=command.hidden,
            cause=command.id,
            metadata=CmdMetadata(
                exit_code=exit_code,
                pid=pid,
                username=self._user,
                hostname=self._host,
                working_dir=self._cwd,
                py_interpreter_path=self._interpreter(path),
                prefix=prefix,
                suffix=suffix,
                shell=self.name,
                state=state,
                timed_out=timed_out,
                new_shell=new_shell,
                shell_ended=shell_ended,
                background=background,
                output_bytes=size,
                left_out_bytes=left_out,
                log_start=start,
                log_end=end,
                log_path=log_path,
                duration=duration,
            ),
        )

    def _interpreter(self, path: str) -> str | None:
        now = asyncio.get_running_loop().time()
        if self._python[0] != path or now - self._python[1] > _FRESH:
            found = shutil.which("python", path=path) or shutil.which("python3", path=path)
            self._python = (path, now, found)
        return self._python[2]

    def _require_bash(self) -> BashProcess:
        if self._bash is None:
            raise self._closed_error()
        return self._bash

    def _closed_error(self) -> ShellClosed:
        return ShellClosed(f"the shell {self.name!r} was closed; use another, or make a new one")


def _own_name() -> str:
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _prompts_removed(data: bytes) -> str:
    """Background output as text, less prompts: a prompt is what stands on the line of its mark."""
    *before, last = data.split(PROMPT)
    kept = [piece[: piece.rfind(b"\n") + 1] for piece in before]
    return without_marks(b"".join(kept) + last).decode("utf-8", "replace")
