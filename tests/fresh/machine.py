"""A machine of its own, as far as programs can tell: its own root, processes, mounts and name.

The network is this machine's, so that a browser here reaches what is served there. When a machine
is left, or whoever runs it is killed, all its processes end.
"""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from .screen import Screen

_COLUMNS, _ROWS = 110, 40
_ENTER: Final = r"""
set -e
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mkdir .before
pivot_root . .before
cd /
umount -l /.before
rmdir /.before
hostname fresh
set +e
"$@"
exit $?
"""
"""Root is turned, not changed: in a mere chroot no user namespace can be made. The shell stays as
the first process, which every orphan comes to in the end."""
_PASSED_ON: Final = re.compile(r"(?i)^(pip|npm_config)_|_proxy$|cert|^ssl_|ca_bundle$")
_KEPT_OUT: Final = ("PIP_FIND_LINKS",)


class NotSeen(AssertionError):
    """What was waited for did not come."""


@dataclass(slots=True)
class Terminal:
    """A person's terminal on a machine. Time passes in `expect` alone."""

    pid: int
    _descriptor: int
    seen: str = ""
    """All that was ever shown; what was written over is a line of its own."""
    screen: Screen = field(default_factory=Screen)
    _read: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def expect(self, pattern: str, *, within: float) -> re.Match[str]:
        """Wait until it is shown, after all that was expected before. Raises `NotSeen`."""
        wanted = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + within
        while (found := wanted.search(self.seen, self._read)) is None:
            if not self._see_more(deadline):
                raise NotSeen(f"{pattern!r} was not shown; the last was:\n{self.seen[-4000:]}")
        self._read = found.end()
        return found

    def ended(self, *, within: float) -> bool:
        """Whether the last program on it is gone by then."""
        deadline = time.monotonic() + within
        while self._see_more(deadline):
            pass
        return time.monotonic() < deadline

    def close(self) -> None:
        """Returns when every process that was started from it is gone."""
        first = _first_inside(self.pid)
        ending = os.pidfd_open(first) if first is not None else None
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)
        if ending is not None:
            select.select([ending], [], [])  # the kernel lets it go after all others
            os.close(ending)

    def _see_more(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._descriptor], [], [], left)[0]:
            return False
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # how Linux says that nobody is left on the terminal
            return False
        self.seen += self.screen.show(self._decoder.decode(data))
        return bool(data)


@dataclass(frozen=True, slots=True)
class Machine:
    """A file system, and what it takes to be on it."""

    root: Path

    @contextmanager
    def terminal(self, *through: str, cwd: str = "/root", **more: str) -> Iterator[Terminal]:
        """Somebody's shell at a terminal; `through`: the words that start it as somebody else or
        elsewhere. Leaving ends all that was started in it."""
        # A session that begins inside: else the shell does not know whose the terminal is.
        words = ("setsid", "--ctty", "--wait", *through, "bash", "--norc", "--noprofile", "-i")
        pid, descriptor = pty.fork()
        if pid == 0:
            _enter(self.root, ("env", f"--chdir={cwd}", *words), _environment(more))
        ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        terminal = Terminal(pid, descriptor)
        try:
            yield terminal
        finally:
            terminal.close()


def beside(terminal: Terminal, *command: str) -> str:
    """What a command prints that somebody else runs on the machine of that terminal."""
    first = _first_inside(terminal.pid)
    assert first is not None, "the machine is gone"
    spaces = ("--mount", "--pid", "--ipc", "--uts", "--root", "--wd")
    ran = subprocess.run(
        ["nsenter", f"--target={first}", *spaces, *command],
        env=_environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout


@contextmanager
def new_machine(furnish: Callable[[Path], None]) -> Iterator[Machine]:
    """One that `furnish` makes at a path where nothing is; it is removed afterwards."""
    place = Path(mkdtemp(prefix="bsc-fresh-"))
    place.chmod(0o755)
    try:
        furnish(place / "root")
        yield Machine(place / "root")
    finally:
        shutil.rmtree(place)


def _first_inside(pid: int) -> int | None:
    """The process that the others of a machine end with; none if it has ended."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


def _enter(root: Path, command: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Become that machine's first process: as its shell would, after the fork. Never returns."""
    spaces = ("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
    alone = ("setpriv", "--pdeathsig", "KILL", "unshare", *spaces)
    for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(each, signal.SIG_DFL)  # ignored by us, or by whoever put us in the background
    try:
        os.execvpe(alone[0], [*alone, "sh", "-c", _ENTER, "sh", str(root), *command], environment)
    finally:
        sys.stderr.write("test-fresh: cannot enter: setpriv or unshare is missing\n")
        os._exit(1)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Of somebody who has just signed in; besides only how packages are reached."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if _PASSED_ON.search(name) and name not in _KEPT_OUT
    }
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = {"HOME": "/root", "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    return {**ours, **own, "PS1": "fresh$ ", **more}
