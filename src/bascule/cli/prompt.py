"""Reads commands from a terminal, file or pipe and runs them in a shell."""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from bascule.core.actions import Action, CmdRun, Interrupt
from bascule.core.contracts import OutputProgress, Runtime
from bascule.core.observations import CmdMetadata, CmdOutput, Observation

from .continuation import is_unfinished
from .input_signals import signals_interrupt_input
from .loop import LoopThread

logger = logging.getLogger(__name__)

_LEAVE = re.compile(r"\s*(?:exit|logout)(?:\s+(\d{1,3}))?\s*;?\s*")
_KEYS = {signal.SIGINT: "C-c", signal.SIGTSTP: "C-z", signal.SIGQUIT: "C-\\"}
_INTERRUPTS_BEFORE_KILL = 3
"""Number of Ctrl-C presses that interrupt the command. The next press kills it."""


class Prompt:
    """Reads commands from stdin and writes their output to stdout.

    At a terminal there is a prompt with line editing. While a command runs, it receives typed
    lines and Ctrl-C, Ctrl-Z, Ctrl-\\ and Ctrl-D. Ctrl-D or `exit` at the prompt leaves the prompt.
    From a file or pipe, commands are read until its end.
    """

    def __init__(self, runtime: Runtime, loop: LoopThread, *, shell: str = "") -> None:
        self._runtime = runtime
        self._loop = loop
        self._shell = shell
        self._is_terminal = sys.stdin.isatty()
        self._directory = ""
        self._status = 0
        self._at_line_start = True
        self._shown_until = 0
        """Position in the shell's log up to which output was shown."""
        self._progress_range: tuple[int, int] | None = None
        """Range of the log that was not shown before this command's first chunk of output."""
        self._broken: BrokenPipeError | None = None
        """Set if stdout was closed by its reader."""

    def run_until_exit(self) -> int:
        """Read and run commands until the end of input. Returns the exit code for this program.

        For a file or pipe this is the exit code of the last command, as for a script. At a terminal
        it is 0, or N after `exit N`.
        """
        if not self._is_terminal:
            return self._run_lines()
        import readline  # noqa: F401  # line editing for `input`, when imported

        self._directory = self._first_directory()
        # Outside of `_line` and `_keys` there is nothing to interrupt.
        with signals_interrupt_input(), _signal_handler(signal.SIGINT, _ignore):
            return self._run_lines()

    def _run_lines(self) -> int:
        for command in self._commands():
            if exit_match := _LEAVE.fullmatch(command):
                return int(exit_match[1] or (0 if self._is_terminal else self._status)) & 255
            self._status = self._execute(command)
        return 0 if self._is_terminal else self._status

    # Reading ---------------------------------------------------------------------------------

    def _commands(self) -> Iterator[str]:
        """Yield complete commands, which may have several lines.

        Ctrl-C discards the typed lines. Ctrl-D or the end of the file inside a command ends this
        command; bash then reports what is missing.
        """
        pending: list[str] = []
        while True:
            try:
                line = self._line(continued=bool(pending))
            except KeyboardInterrupt:
                if not self._is_terminal:
                    raise
                self._print_note("")
                pending.clear()
                continue
            if line is not None:
                pending.append(line)
            command = "\n".join(pending)
            if line is not None and is_unfinished(command):
                continue
            if command.strip():
                yield command
            if line is None and not (pending and self._is_terminal):
                return
            pending.clear()

    def _line(self, *, continued: bool) -> str | None:
        """The next line; None at the end of input."""
        if not self._is_terminal:
            return line.removesuffix("\n") if (line := sys.stdin.readline()) else None
        try:
            with _signal_handler(signal.SIGINT, signal.default_int_handler):
                return input("> " if continued else self._prompt())
        except EOFError:
            self._print_note("")
            return None

    def _prompt(self) -> str:
        status = f"[{self._status}] " if self._status else ""
        directory = self._directory
        if os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR"):
            # readline does not count the characters between \x01 and \x02 as width.
            directory = f"\x01\x1b[36m\x02{directory}\x01\x1b[0m\x02"
        return f"{status}{directory} $ "

    def _first_directory(self) -> str:
        seen = self._loop.start(self._runtime.act(CmdRun("pwd", shell=self._shell))).result()
        return seen.content.strip() if isinstance(seen, CmdOutput) else ""

    # Running ---------------------------------------------------------------------------------

    def _execute(self, command: str) -> int:
        self._progress_range = None
        action = CmdRun(command, blocking=True, shell=self._shell)
        with self._keys():  # before the start: the output of a command may invite a Ctrl-C
            running = self._loop.start(self._runtime.act(action, on_progress=self._show))
            if self._is_terminal:
                self._pass_on_lines_until(running)
            observation = running.result()
        if self._broken is not None:
            raise self._broken
        return self._show_result(observation)

    def _show_result(self, observation: Observation) -> int:
        if not self._at_line_start and self._is_terminal:
            self._print_note("")
            self._at_line_start = True
        if not isinstance(observation, CmdOutput):
            self._print_note(observation.content)
            return 1
        about = observation.metadata
        self._directory = about.working_dir or self._directory
        if unseen := self._background_output(about).strip():
            self._print_note(f"[background] {unseen}")
        if about.state in ("refused", "idle"):
            self._print_note((observation.content + about.suffix).strip())
        if about.shell_ended:
            self._print_note(
                f"[the shell exited with code {about.exit_code}; the next command starts a "
                "new shell]"
            )
        return about.exit_code & 255

    def _background_output(self, about: CmdMetadata) -> str:
        """The output of background jobs while no command ran. It was not reported as progress."""
        printed = about.background.encode()
        start = about.log_start - len(printed)
        since, until = self._progress_range or (self._shown_until, about.log_start)
        return printed[max(0, since - start) : max(0, until - start)].decode(errors="replace")

    def _pass_on_lines_until(self, running: Future[Observation]) -> None:
        """Pass typed lines to the running command until it ends."""
        stdin = sys.stdin.fileno()
        with _wake_descriptor(running) as wake:
            while wake not in (ready := select.select([stdin, wake], [], [])[0]):
                if stdin in ready:
                    typed = os.read(stdin, 65536)
                    text = typed.decode(errors="replace").removesuffix("\n") if typed else "C-d"
                    self._act(CmdRun(text, is_input=True, shell=self._shell))

    @contextmanager
    def _keys(self) -> Iterator[None]:
        """Pass keys that send signals, such as Ctrl-C, to the command, not to this program."""
        presses = 0

        def press(number: int, _frame: FrameType | None) -> None:
            nonlocal presses
            presses += number == signal.SIGINT
            if presses > _INTERRUPTS_BEFORE_KILL:
                self._act(Interrupt(shell=self._shell, kill=True))
            else:
                key = _KEYS[signal.Signals(number)]
                self._act(CmdRun(key, is_input=True, shell=self._shell))

        with ExitStack() as stack:
            for number in _KEYS if self._is_terminal else (signal.SIGINT,):
                stack.enter_context(_signal_handler(number, press))
            yield

    def _act(self, action: Action) -> None:
        """Run an action while a command runs. Its result is not needed; failures are logged."""
        self._loop.start(self._runtime.act(action)).add_done_callback(_note_failure)

    # Writing ---------------------------------------------------------------------------------

    def _show(self, progress: OutputProgress) -> None:
        """Write a chunk of output. Runs in the loop's thread, which only serves this prompt, so it
        may block on stdout."""
        if self._progress_range is None:
            self._progress_range = (self._shown_until, progress.offset)
        self._shown_until = progress.offset + len(progress.data)
        try:
            sys.stdout.buffer.write(progress.data)
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            self._broken = error
            self._act(Interrupt(shell=self._shell, kill=True))
        self._at_line_start = progress.data.endswith(b"\n")

    def _print_note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def _signal_handler(
    number: signal.Signals, handler: Callable[[int, FrameType | None], Any]
) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass


@contextmanager
def _wake_descriptor(future: Future[Any]) -> Iterator[int]:
    """A descriptor that becomes readable when `future` is done."""
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def wake(_: Future[Any]) -> None:
            with suppress(OSError):  # the reader has closed its socket
                theirs.send(b".")

        future.add_done_callback(wake)
        yield ours.fileno()


def _note_failure(done: Future[Observation]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.warning("input could not be sent to the command: %s", error)
