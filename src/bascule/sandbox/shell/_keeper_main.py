"""The keeper: a small supervisor process that starts shells and ends all their processes.

It runs as `python -I -S _keeper_main.py FD [DIRECTORY [SECONDS]]`, imports nothing of ours, and
speaks over the socket FD. Every process a shell starts is below the keeper, however it detaches:
the keeper is a "child subreaper", so orphans come to it and not to init, and so is each shell, so
that what one shell started can be told from the rest. When the socket closes (the server ended,
were it by `kill -9`) it kills all that is below it, removes DIRECTORY and leaves.

With SECONDS it waits that long for another server before it does so, at the socket `keeper` in
DIRECTORY. Meanwhile it keeps open what it was given to hold, moves what comes out of a pipe among
that into a file, and remembers who ended; the next server is handed all of it.

Messages are what `marshal` makes (every module loaded here costs every fork) behind a four-byte
length; `fds` counts the descriptors that come along. In:
`spawn {id, argv, env, cwd, uid, gid, groups, terminal}` with two (the terminal and the command
channel; input and output of a program that has no terminal), `end {pid, grace}`,
`hold {key, spool}` with some, `release {key}`, `leave`. Out: `spawned {id, pid}`,
`failed {id, error, where}`, `exited {pid, status}`, `ended {pid}`; to a further server
`held {key, fds}` for each, then `found {statuses, lost}`, or `busy`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import marshal
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LAST_WORDS = 5.0
"""Seconds the final clean-up may take; a process it may not signal must not keep it for ever."""

PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
MOST_STATUSES = 256

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl


def main(socket_fd: int, directory: str | None, seconds: float) -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(socket_fd, False)
    link = socket.socket(fileno=socket_fd)
    door = open_door(directory) if directory is not None and seconds else None
    keeper = KeeperServer(link, door, seconds)  # whose link is open until all is done
    try:
        keeper.serve()
    finally:
        kill_below(os.getpid(), time.monotonic() + LAST_WORDS)
        if directory is not None:
            import shutil  # what is loaded is copied by every fork

            shutil.rmtree(directory, ignore_errors=True)


def open_door(directory: str) -> socket.socket:
    """Listen for the next server. The lock tells a living keeper from one that left its socket."""
    lock = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and is kept until we end
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/keeper")
    door = socket.socket(socket.AF_UNIX)
    os.umask(0o077)
    door.bind(f"{directory}/keeper")
    door.listen()
    return door


class KeeperServer:
    def __init__(self, link: socket.socket, door: socket.socket | None, seconds: float) -> None:
        self.link: socket.socket | None = link
        self.door = door
        self.seconds = seconds
        self.alone_until: float | None = None
        self.is_leaving = False
        self.held: dict[str, HeldDescriptors] = {}
        self.statuses: dict[int, int] = {}
        self.shells: set[int] = set()
        self.endings: dict[int, ShellEnding] = {}
        self.starting: dict[int, tuple[int, int]] = {}
        self.poll = select.poll()
        self.poll.register(link, select.POLLIN)
        if door is not None:
            self.poll.register(door, select.POLLIN)
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
        """Serve until the server disconnects and no other connects, or until SIGTERM or SIGHUP."""
        while self.alone_until is None or time.monotonic() < self.alone_until:
            ready = [fd for fd, _ in self.poll.poll(self.patience())]
            # First that a server is gone, then that another one knocks.
            for fd in sorted(
                ready, key=lambda fd: self.door is not None and fd == self.door.fileno()
            ):
                if fd == self.wake_in:
                    if set(os.read(fd, 4096)) & {signal.SIGTERM, signal.SIGHUP}:
                        return
                elif self.link is not None and fd == self.link.fileno():
                    if not self.receive() and not self.wait_for_another():
                        return
                elif self.door is not None and fd == self.door.fileno():
                    if self.link is None or self.link.fileno() not in ready:
                        self.let_in(self.door)
                elif fd in self.spools():
                    if not self.spools()[fd].move():
                        self.poll.unregister(fd)
                elif fd in self.starting:
                    self.started(fd)
                elif any(fd in ending.waiting for ending in self.endings.values()):
                    self.poll.unregister(fd)
                    os.close(fd)
                    for ending in self.endings.values():
                        ending.waiting.discard(fd)
            self.reap()
            for ending in [e for e in self.endings.values() if e.is_over()]:
                self.finish(ending)

    def patience(self) -> float | None:
        """Milliseconds until the first ending runs out of grace, or our own time alone does."""
        deadlines = [ending.deadline for ending in self.endings.values()]
        if self.alone_until is not None:
            deadlines.append(self.alone_until)
        if not deadlines:
            return None
        return max(0.0, min(deadlines) - time.monotonic()) * 1000 + 1

    def spools(self) -> dict[int, HeldDescriptors]:
        """Descriptors whose content is moved to a file, which is when no server reads them."""
        if self.link is not None:
            return {}
        return {held.spooled: held for held in self.held.values() if held.spool is not None}

    def wait_for_another(self) -> bool:
        """The server is gone: True if we are to wait for the next one."""
        assert self.link is not None
        self.poll.unregister(self.link)
        if self.door is None or self.is_leaving:
            return False
        self.link.close()
        self.link = None
        self.alone_until = time.monotonic() + self.seconds
        for fd in self.spools():
            self.poll.register(fd, select.POLLIN)
        return True

    def let_in(self, door: socket.socket) -> None:
        link, _ = door.accept()
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] != os.getuid():
            link.close()
            return
        if self.link is not None:
            send_frame(link, {"op": "busy"})
            link.close()
            return
        for fd in self.spools():
            with contextlib.suppress(KeyError):  # it was closed by whoever wrote to it
                self.poll.unregister(fd)
        self.link, self.alone_until = link, None
        self.poll.register(link, select.POLLIN)
        for key, held in self.held.items():
            self.send(*held.fds, op="held", key=key, fds=len(held.fds))
        lost = sum(held.lost for held in self.held.values())
        statuses = dict.fromkeys(self.shells) | self.statuses
        self.send(op="found", statuses=[list(item) for item in statuses.items()], lost=lost)

    def receive(self) -> bool:
        assert self.link is not None
        try:
            head, fds, _, _ = socket.recv_fds(self.link, 4, 2)
            body = self.exactly(struct.unpack("!I", head)[0]) if len(head) == 4 else b""
        except OSError:
            return False
        if not body:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        message = marshal.loads(body)  # noqa: S302 - from the server
        if message["op"] == "spawn":
            self.spawn(message, fds)
        elif message["op"] == "end":
            self.end(message["pid"], message["grace"])
        elif message["op"] == "hold":
            self.release(message["key"])
            self.held[message["key"]] = HeldDescriptors(fds, message["spool"])
        elif message["op"] == "release":
            self.release(message["key"])
        elif message["op"] == "leave":
            self.is_leaving = True
            return False
        return True

    def release(self, key: str) -> None:
        if (held := self.held.pop(key, None)) is not None:
            for fd in held.fds:
                os.close(fd)

    def exactly(self, size: int) -> bytes:
        assert self.link is not None
        parts = []
        while size and (part := self.link.recv(size)):
            parts.append(part)
            size -= len(part)
        return b"" if size else b"".join(parts)

    def send(self, *fds: int, **message: object) -> None:
        if self.link is not None:
            send_frame(self.link, message, fds)

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
            self.send(op="failed", id=spawn_id, **marshal.loads(trouble))  # noqa: S302
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
                code = os.waitstatus_to_exitcode(status)
                if self.door is not None:  # who is told now may be dying
                    self.statuses[pid] = code
                    for oldest in list(self.statuses)[:-MOST_STATUSES]:
                        del self.statuses[oldest]
                self.send(op="exited", pid=pid, status=code)
                if pid in self.endings:
                    self.finish(self.endings[pid])

    def end(self, pid: int, grace: float) -> None:
        if pid not in self.shells:
            self.send(op="ended", pid=pid)
            return
        signal_process(pid, signal.SIGSTOP)  # it must start nothing more; its children go on
        ending = ShellEnding(pid, time.monotonic() + grace)
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

    def finish(self, ending: ShellEnding) -> None:
        """Kill what is left of a shell, the shell last: while it lives its orphans are its own."""
        del self.endings[ending.pid]
        for fd in ending.waiting:
            self.poll.unregister(fd)
            os.close(fd)
        if ending.pid in self.shells:
            kill_below(ending.pid, time.monotonic() + LAST_WORDS)
        signal_process(ending.pid, signal.SIGKILL)
        self.send(op="ended", pid=ending.pid)


class HeldDescriptors:
    """Descriptors kept open for the next server. Output of one can be spooled to a file meanwhile.

    The kernel moves it, so that a byte is either in the pipe or in the file whatever happens.
    """

    def __init__(self, fds: list[int], spool: dict | None) -> None:  # type: ignore[type-arg]
        self.fds = fds
        self.spool = spool
        self.lost = 0

    @property
    def spooled(self) -> int:
        assert self.spool is not None
        index: int = self.spool["index"]
        return self.fds[index]

    def move(self) -> bool:
        """Move the data that is there; False at the end of the pipe."""
        assert self.spool is not None
        file = os.open(self.spool["path"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = os.fstat(file).st_size
            moved = os.splice(self.spooled, file, 1 << 20, offset_dst=end)
            end += moved
            # The oldest goes first. Positions stay, so a server sees by them what is missing.
            if (over := end - self.lost - self.spool["limit"]) > self.spool["limit"] // 8:
                fallocate(file, PUNCH_HOLE_KEEP_SIZE, 0, self.lost + over)
                self.lost += over
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return moved > 0


class ShellEnding:
    """A shell that is being ended: its processes got SIGTERM and are killed at `deadline`."""

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
    given, shown = fds[1], fds[0]  # the channel and the terminal
    where = "session"
    try:
        # The keeper's own pipe: a SIGHUP to this child, whose terminal may vanish at any moment,
        # would read there as one to the keeper.
        signal.set_wakeup_fd(-1)
        os.setsid()
        if message["terminal"]:
            fcntl.ioctl(shown, termios.TIOCSCTTY, 0)
        else:
            given, shown = fds
        if message["uid"] is not None:
            where = "user"
            os.fchown(shown, message["uid"], -1)
            os.setgroups(message["groups"])
            os.setgid(message["gid"])
            os.setuid(message["uid"])
        where = "cwd"
        os.chdir(message["cwd"])
        where = "exec"
        os.dup2(given, 0)
        os.dup2(shown, 1)
        if message["terminal"]:
            os.dup2(shown, 2)
        # After setuid, which clears it. If the keeper dies the shell does, and with the shell's
        # terminal gone its programs get SIGHUP.
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(message["argv"][0], message["argv"], message["env"])  # noqa: S606
    except BaseException as error:  # noqa: BLE001 - this child must never run the parent's code
        os.write(tell, marshal.dumps({"error": str(error)[:1000], "where": where}))
    finally:
        os._exit(127)


def send_frame(link: socket.socket, message: dict, fds: Sequence[int] = ()) -> None:  # type: ignore[type-arg]
    body = marshal.dumps(message)
    frame = struct.pack("!I", len(body)) + body
    with contextlib.suppress(OSError):  # the other end is gone; `serve` sees that next
        sent = socket.send_fds(link, [frame], list(fds)) if fds else 0
        link.sendall(frame[sent:])


def fallocate(file: int, mode: int, offset: int, length: int) -> None:
    _libc.fallocate64(file, mode, ctypes.c_int64(offset), ctypes.c_int64(length))


def descendants(root: int) -> list[int]:
    """All living processes below `root`, by who started whom.

    The dead are followed too: one whose first thread has ended before the others is a zombie, and
    what it started is still below it.
    """
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
        if fields[0] in (b"Z", b"X"):
            dead.add(int(name))
    found, frontier = [], [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return [pid for pid in found if pid not in dead]


def signal_process(pid: int, number: int) -> bool:
    """False when it is not ours to signal. One that is gone has all a signal could give it."""
    try:
        os.kill(pid, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def kill_below(root: int, deadline: float) -> None:
    """Kill all below `root` until nothing is left, or what is left is not ours to kill."""
    while (left := descendants(root)) and time.monotonic() < deadline:
        if not sum(signal_process(pid, signal.SIGKILL) for pid in left):
            return


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        sys.argv[2] if len(sys.argv) > 2 else None,
        float(sys.argv[3]) if len(sys.argv) > 3 else 0.0,
    )
