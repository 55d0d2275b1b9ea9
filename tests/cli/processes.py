"""The command line as people and programs meet it: real processes, real terminals."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BASCULE = (sys.executable, "-m", "bascule")
TIMEOUT = 60.0
"""Seconds before a test gives up; never a pause."""


def environment(**more: str) -> dict[str, str]:
    """Ours, less what would change how a command behaves."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BASCULE_") and name != "SESSION_API_KEY"
    }
    return kept | more


def bascule(
    *arguments: str,
    cwd: Path | None = None,
    input: str | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. Without `input` there is nothing on its stdin."""
    return subprocess.run(
        [*BASCULE, *arguments],
        cwd=cwd,
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        env=env or environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


class Terminal:
    """A person at a terminal in which one of our commands runs."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self.seen = ""
        """All that was shown, since the beginning."""
        self._read = 0
        self._status: int | None = None

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def expect(self, text: str) -> str:
        """Wait until `text` is shown after what was expected before; returns what came until it."""
        deadline = time.monotonic() + TIMEOUT
        while (at := self.seen.find(text, self._read)) < 0:
            assert self._see_more(deadline), f"{text!r} was never shown in {self.seen!r}"
        before = self.seen[self._read : at]
        self._read = at + len(text)
        return before

    def status(self) -> int:
        """Wait for the end of the command, by itself; returns its exit status."""
        deadline = time.monotonic() + TIMEOUT
        while self._see_more(deadline):
            pass
        assert time.monotonic() < deadline, f"still running after {self.seen!r}"
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def close(self) -> None:
        os.close(self._descriptor)
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _see_more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # how Linux says that the last process on the terminal is gone
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def at_terminal(
    *arguments: str, cwd: Path, env: Mapping[str, str], program: Sequence[str] = BASCULE
) -> Iterator[Terminal]:
    """Run a command, by default one of `bascule`, on a terminal of its own."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(program[0], [*program, *arguments], dict(env))
    terminal = Terminal(pid, descriptor)
    try:
        yield terminal
    finally:
        terminal.close()


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    url: str
    key: str
    said: str
    """What it wrote to its log until it answered."""


@contextmanager
def hub(env: Mapping[str, str], *more: str, cwd: Path | None = None) -> Iterator[None]:
    """`bascule serve` on a free port, from its address until it has ended."""
    with subprocess.Popen(
        (*BASCULE, "serve", "--port", "0", *more),
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(b"http://")
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT)


@contextmanager
def serving(directory: Path, *more: str) -> Iterator[Server]:
    """`bascule sandbox` on a free port, from its first answer until it is killed."""
    key = "a-key"
    directory.mkdir(exist_ok=True)
    with subprocess.Popen(
        [*BASCULE, "sandbox", "0", "--working-dir", str(directory), *more],
        env=environment(SESSION_API_KEY=key),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        try:
            for line in process.stderr:
                said += line
                if found := re.search(r"answers at (\S+)", line):
                    yield Server(process, found[1], key, said)
                    return
            raise AssertionError(said)
        finally:
            process.kill()


def ended(pid: int) -> bool:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], TIMEOUT)[0])
    finally:
        os.close(descriptor)
