"""The physical limit: bash on a pty, a nonce printed after each command, blocking reads, no server.

Anything that runs commands in a terminal pays at least this: one write, bash's own work, the
reads. So nothing here protects itself: a command that reads its stdin, or exits, breaks it.
"""

from __future__ import annotations

import os
import select
import signal
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.serve import serve
from benchmarks.peers.subject import Answer, Files, Subject

BASH = ("bash", "--norc", "--noprofile", "--noediting", "-i")
READ_SIZE = 65536
MARK = b"\x1e"


class RawShell:
    """One bash. `send` types a command, `receive` blocks until its nonce has come back."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.fd, terminal = os.openpty()
        _quieten(terminal)
        # A session leader that opens a terminal gets it as its controlling one.
        self.pid = os.posix_spawnp(
            BASH[0],
            BASH,
            {**(os.environ if environment is None else environment), "PS1": "", "PS2": ""},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.ttyname(terminal), os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE],
        )
        os.close(terminal)
        self.nonce = b""

    def send(self, command: str) -> None:
        nonce = os.urandom(8).hex()
        self.nonce = MARK + nonce.encode()
        os.write(self.fd, f"{command}; printf '\\x1e{nonce}%d\\n' $?\n".encode())

    def receive(self) -> tuple[bytes, int]:
        """What the command printed, and its status."""
        data = os.read(self.fd, READ_SIZE)
        if (found := self.split(data)) is not None:
            return found
        chunks = [data]
        tail = data
        while True:
            data = os.read(self.fd, READ_SIZE)
            chunks.append(data)
            tail = tail[-64:] + data
            if self.split(tail) is not None:
                found = self.split(b"".join(chunks))
                assert found is not None
                return found

    def split(self, data: bytes) -> tuple[bytes, int] | None:
        """`data` without the end mark, and the status in it; None when it has not come whole."""
        if not data.endswith(b"\n"):
            return None
        at = data.rfind(self.nonce, -64)
        if at < 0:
            return None
        return data[:at], int(data[at + len(self.nonce) : -1])

    def run(self, command: str) -> tuple[bytes, int]:
        self.send(command)
        return self.receive()

    def close(self) -> None:
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class RawPty(Subject[RawShell], Files):
    """Raw shells behind the benchmark's questions; plain system calls for files."""

    name = "raw-pty"

    async def open(self) -> RawShell:
        shell = RawShell()
        shell.run(":")
        return shell

    async def run(self, shell: RawShell, command: str, timeout: float) -> Answer:  # noqa: ARG002
        return Answer(*shell.run(command))

    async def close(self, shell: RawShell) -> None:
        shell.close()

    async def open_all(self, count: int) -> list[RawShell]:
        shells = [RawShell() for _ in range(count)]
        for shell in shells:
            shell.send("true")
        for shell in shells:
            shell.receive()
        return shells

    async def together(self, shells: Sequence[RawShell], command: str, each: int) -> int:
        """All shells at once, one `epoll` for them all; each gets its next command at once."""
        wrong = 0
        with select.epoll() as poll:
            by_fd = {shell.fd: shell for shell in shells}
            left = dict.fromkeys(by_fd, each)
            seen = dict.fromkeys(by_fd, b"")
            for fd, shell in by_fd.items():
                poll.register(fd, select.EPOLLIN)
                shell.send(command)
            while by_fd:
                for fd, _ in poll.poll():
                    shell = by_fd[fd]
                    seen[fd] += os.read(fd, READ_SIZE)
                    if (found := shell.split(seen[fd])) is None:
                        continue
                    wrong += found != (b"", 0)
                    seen[fd] = b""
                    left[fd] -= 1
                    if left[fd]:
                        shell.send(command)
                    else:
                        poll.unregister(fd)
                        del by_fd[fd]
        return wrong

    async def read(self, path: str) -> str:
        return Path(path).read_bytes().decode()

    async def write(self, path: str, text: str) -> None:
        _replace(path, text.encode())

    async def edit(self, path: str, old: str, new: str) -> None:
        data = Path(path).read_bytes()
        before = old.encode()
        assert data.count(before) == 1
        _replace(path, data.replace(before, new.encode()))


def _quieten(fd: int) -> None:
    """No echo of what is typed, and output as the program wrote it."""
    mode = termios.tcgetattr(fd)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(fd, termios.TCSANOW, mode)


def _replace(path: str, data: bytes) -> None:
    fresh = f"{path}.new"
    with open(fresh, "wb", buffering=0) as file:
        file.write(data)
    os.replace(fresh, path)


if __name__ == "__main__":
    serve(RawPty())
