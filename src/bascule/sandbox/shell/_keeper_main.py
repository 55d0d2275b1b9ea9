"""The keeper: a small process that starts shells and never lets one of their processes outlive it.

It runs as `python -I -S _keeper_main.py FD [DIRECTORY]`, imports nothing of ours, and speaks over
the socket FD. Every process a shell starts is below the keeper, however it detaches: the keeper is
a "child subreaper", so orphans come to it and not to init, and so is each shell, so that what one
shell started can be told from the rest. When the socket closes (the server ended, were it by
`kill -9`) it kills all that is below it, removes DIRECTORY and leaves.

Messages are JSON behind a four-byte length. In: `spawn {id, argv, env, cwd, uid, gid, groups}` with
two descriptors (the terminal, the command channel), `end {pid, grace}`. Out: `spawned {id, pid}`,
`failed {id, error, where}`, `exited {pid, status}`, `ended {pid}`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import termios
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LAST_WORDS = 5.0
"""Seconds the final clean-up may take; a process it may not signal must not keep it for ever."""

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def main(socket_fd: int, directory: str | None) -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(socket_fd, False)
    Keeper(socket.socket(fileno=socket_fd)).serve()
    kill_below(os.getpid(), time.monotonic() + LAST_WORDS)
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


class Keeper:
    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.shells: set[int] = set()
        self.endings: dict[int, Ending] = {}
        self.starting: dict[int, tuple[int, int]] = {}
        self.poll = select.poll()
        self.poll.register(link, select.POLLIN)
        self.wake_in, wake_out = os.pipe()
        os.set_blocking(self.wake_in, False)
        os.set_blocking(wake_out, False)
        self.poll.register(self.wake_in, select.POLLIN)
        signal.set_wakeup_fd(wake_out)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # What is ignored stays so through exec, also what was before we came; handlers do not.
        self.ignored = [n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN]

    def serve(self) -> None:
        """Until the other end closes or a SIGTERM or SIGHUP comes."""
        while True:
            for fd, _ in self.poll.poll(self.patience()):
                if fd == self.wake_in:
                    if set(os.read(fd, 4096)) & {signal.SIGTERM, signal.SIGHUP}:
                        return
                elif fd == self.link.fileno():
                    if not self.receive():
                        return
                elif fd in self.starting:
                    self.started(fd)
                else:
                    self.poll.unregister(fd)
                    os.close(fd)
                    for ending in self.endings.values():
                        ending.waiting.discard(fd)
            self.reap()
            for ending in [e for e in self.endings.values() if e.is_over()]:
                self.finish(ending)

    def patience(self) -> float | None:
        """Milliseconds until the first ending runs out of grace."""
        if not self.endings:
            return None
        first = min(ending.deadline for ending in self.endings.values())
        return max(0.0, first - time.monotonic()) * 1000 + 1

    def receive(self) -> bool:
        try:
            head, fds, _, _ = socket.recv_fds(self.link, 4, 2)
            body = self.exactly(struct.unpack("!I", head)[0]) if len(head) == 4 else b""
        except OSError:
            return False
        if not body:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        message = json.loads(body)
        if message["op"] == "spawn":
            self.spawn(message, fds)
        elif message["op"] == "end":
            self.end(message["pid"], message["grace"])
        return True

    def exactly(self, size: int) -> bytes:
        parts = []
        while size and (part := self.link.recv(size)):
            parts.append(part)
            size -= len(part)
        return b"" if size else b"".join(parts)

    def send(self, **message: object) -> None:
        body = json.dumps(message).encode()
        with contextlib.suppress(OSError):  # the other end is gone; `serve` sees that next
            self.link.sendall(struct.pack("!I", len(body)) + body)

    def spawn(self, message: dict, fds: list[int]) -> None:  # type: ignore[type-arg]
        """Start a shell. Whether it came to run is told later, so that several start together."""
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            become_shell(message, fds, tell, self.ignored)
        os.close(tell)
        for fd in fds:
            os.close(fd)
        self.shells.add(pid)
        self.starting[told] = (message["id"], pid)
        self.poll.register(told, select.POLLIN)

    def started(self, told: int) -> None:
        """The pipe to a new shell is empty and closed once it runs; else it says what is wrong."""
        spawn_id, pid = self.starting.pop(told)
        trouble = os.read(told, 4096)
        self.poll.unregister(told)
        os.close(told)
        if trouble:
            self.shells.discard(pid)
            self.send(op="failed", id=spawn_id, **json.loads(trouble))
        else:
            self.send(op="spawned", id=spawn_id, pid=pid)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for told in [told for told, (_, starting) in self.starting.items() if starting == pid]:
                self.started(told)  # first that it started, or why not, then that it ended
            if pid in self.shells:
                self.shells.discard(pid)
                self.send(op="exited", pid=pid, status=os.waitstatus_to_exitcode(status))
                if pid in self.endings:
                    self.finish(self.endings[pid])

    def end(self, pid: int, grace: float) -> None:
        if pid not in self.shells:
            self.send(op="ended", pid=pid)
            return
        signal_process(pid, signal.SIGSTOP)  # it must start nothing more; its children go on
        ending = Ending(pid, time.monotonic() + grace)
        for child in descendants(pid):
            try:
                watch = os.pidfd_open(child)
            except OSError:
                continue
            ending.waiting.add(watch)
            self.poll.register(watch, select.POLLIN)
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
                signal_process(child, number)
        self.endings[pid] = ending

    def finish(self, ending: Ending) -> None:
        """Kill what is left of a shell, the shell last: while it lives its orphans are its own."""
        del self.endings[ending.pid]
        for fd in ending.waiting:
            self.poll.unregister(fd)
            os.close(fd)
        if ending.pid in self.shells:
            kill_below(ending.pid, time.monotonic() + LAST_WORDS)
        signal_process(ending.pid, signal.SIGKILL)
        self.send(op="ended", pid=ending.pid)


class Ending:
    """A shell being ended: its processes were asked to leave and have until `deadline`."""

    def __init__(self, pid: int, deadline: float) -> None:
        self.pid = pid
        self.deadline = deadline
        self.waiting: set[int] = set()

    def is_over(self) -> bool:
        return not self.waiting or time.monotonic() >= self.deadline


def become_shell(
    message: dict,  # type: ignore[type-arg]
    fds: list[int],
    tell: int,
    ignored: list[signal.Signals],
) -> None:
    """In the forked child: take the terminal, drop rights, exec. Tells `tell` what went wrong."""
    terminal, channel = fds
    where = "session"
    try:
        # The keeper's own pipe: a SIGHUP to this child, whose terminal may vanish at any moment,
        # would read there as one to the keeper.
        signal.set_wakeup_fd(-1)
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        if message["uid"] is not None:
            where = "user"
            os.fchown(terminal, message["uid"], -1)
            os.setgroups(message["groups"])
            os.setgid(message["gid"])
            os.setuid(message["uid"])
        where = "cwd"
        os.chdir(message["cwd"])
        where = "exec"
        os.dup2(channel, 0)
        os.dup2(terminal, 1)
        os.dup2(terminal, 2)
        # After setuid, which clears it. If the keeper dies the shell does, and with the shell's
        # terminal gone its programs get SIGHUP.
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(message["argv"][0], message["argv"], message["env"])  # noqa: S606
    except BaseException as error:  # noqa: BLE001 - this child must never run the parent's code
        os.write(tell, json.dumps({"error": str(error), "where": where}).encode()[:4096])
    finally:
        os._exit(127)


def descendants(root: int) -> list[int]:
    """All living processes below `root`, by who started whom."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            children.setdefault(int(fields[1]), []).append(int(name))
    found, frontier = [], [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def signal_process(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def kill_below(root: int, deadline: float) -> None:
    """Kill all below `root` until nothing is left, or what is left is not ours to kill."""
    while (left := descendants(root)) and time.monotonic() < deadline:
        if not sum(signal_process(pid, signal.SIGKILL) for pid in left):
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
