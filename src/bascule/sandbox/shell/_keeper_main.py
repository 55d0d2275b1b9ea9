"""The keeper: a small supervisor process that starts shells and ends all their processes.

The keeper runs as `python -I -S _keeper_main.py FD [DIRECTORY [SECONDS]]`, but from bytecode that
`keeper.py` passes to it. It imports nothing from the package. The socket FD connects it to the
server. Every process a shell starts stays a descendant of the keeper, even if it detaches: the
keeper is a "child subreaper", so it adopts orphans instead of init. Each shell is a subreaper too,
so the processes of different shells stay apart. When the socket closes (also after `kill -9` of the
server), the keeper kills all its descendants, removes DIRECTORY and exits.

With SECONDS, the keeper first waits that long for another server to connect to the socket `keeper`
in DIRECTORY. Meanwhile it keeps the held descriptors open, moves the output of held pipes to files
(spools), and records exit statuses. The next server receives the descriptors and the statuses.

A message is a four-byte length and a `marshal` object. (`marshal` is built in; every imported
module makes every fork slower.) `fds` is the number of file descriptors sent with the message.

Requests:
- `spawn {id, argv, env, cwd, uid, gid, groups, terminal, adopts}` with two descriptors, the
  terminal and the command channel; or, for a program without terminal, two or three: its stdin,
  stdout and stderr. `adopts`: whether the process adopts orphans, as a shell should
- `end {pid, grace}`
- `signal {pid, number}`, to the process group of a shell or program
- `hang_up {pid}`
- `hold {key, spool}` with descriptors, `release {key}`
- `leave`

Replies: `spawned {id, pid}`, `failed {id, error, where}`, `exited {pid, status}`, `ended {pid}`.
A server that connects later gets `held {key, fds}` for each key, then `found {statuses, lost}`; or
`busy` if another server is connected.
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
CLEANUP_TIMEOUT = 5.0
"""Timeout in seconds of a cleanup; a process that we may not signal must not block it forever."""

PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
MAX_STATUSES = 256
"""Maximum number of exit statuses kept for the next server; the oldest are dropped."""
MAX_SPLICE = 1 << 20
"""Maximum bytes that one `splice` moves."""
LENGTH_BYTES = 4
MAX_REQUEST_FDS = 3

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl


def main(socket_fd: int, directory: str | None, takeover_timeout: float) -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(socket_fd, False)
    link = socket.socket(fileno=socket_fd)
    listener = listen(directory) if directory is not None and takeover_timeout else None
    keeper = KeeperServer(
        link, listener, takeover_timeout
    )  # keeps the link open until the cleanup is done
    try:
        keeper.serve()
    finally:
        kill_descendants(os.getpid(), time.monotonic() + CLEANUP_TIMEOUT)
        if directory is not None:
            import shutil  # here, because every imported module makes every fork slower

            shutil.rmtree(directory, ignore_errors=True)


def listen(directory: str) -> socket.socket:
    """Listen for the next server. Once we hold the lock, an old socket is known to be stale."""
    lock = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process exits
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/keeper")
    listener = socket.socket(socket.AF_UNIX)
    os.umask(0o077)
    listener.bind(f"{directory}/keeper")
    listener.listen()
    return listener


class KeeperServer:
    def __init__(
        self, link: socket.socket, listener: socket.socket | None, takeover_timeout: float
    ) -> None:
        self.link: socket.socket | None = link
        self.listener = listener
        self.takeover_timeout = takeover_timeout
        self.takeover_deadline: float | None = None
        self.is_leaving = False
        self.held: dict[str, HeldDescriptors] = {}
        self.statuses: dict[int, int] = {}
        self.shells: dict[int, bytes] = {}
        """The command line of each shell by its pid, as /proc shows it."""
        self.programs: set[int] = set()
        """The shells that do not adopt orphans: programs."""
        self.hung_up: set[int] = set()
        self.endings: dict[int, ShellEnding] = {}
        self.starting: dict[int, tuple[int, int]] = {}
        self.poll = select.poll()
        self.poll.register(link, select.POLLIN)
        if listener is not None:
            self.poll.register(listener, select.POLLIN)
        self.wake_in, wake_out = os.pipe()
        os.set_blocking(self.wake_in, False)
        os.set_blocking(wake_out, False)
        self.poll.register(self.wake_in, select.POLLIN)
        signal.set_wakeup_fd(wake_out)
        # The handlers do nothing: `serve` reads the signal numbers from the wakeup pipe.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Ignored signals stay ignored after exec, including those that our parent ignored; handlers
        # are reset. So `become_shell` resets the ignored ones.
        self.ignored_signals = [
            n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN
        ]

    def serve(self) -> None:
        """Serve until the server disconnects and no other connects, or until SIGTERM or SIGHUP."""
        while self.takeover_deadline is None or time.monotonic() < self.takeover_deadline:
            ready = [fd for fd, _ in self.poll.poll(self.poll_timeout())]
            # Handle the disconnect of the old server before the connection of a new one.
            for fd in sorted(
                ready, key=lambda fd: self.listener is not None and fd == self.listener.fileno()
            ):
                if fd == self.wake_in:
                    if set(os.read(fd, 4096)) & {signal.SIGTERM, signal.SIGHUP}:
                        return
                elif self.link is not None and fd == self.link.fileno():
                    if not self.receive() and not self.wait_for_another():
                        return
                elif self.listener is not None and fd == self.listener.fileno():
                    if self.link is None or self.link.fileno() not in ready:
                        self.accept(self.listener)
                elif fd in self.spools():
                    if not self.spools()[fd].move():
                        self.poll.unregister(fd)
                elif fd in self.starting:
                    self.report_start(fd)
                elif any(fd in ending.waiting_pidfds for ending in self.endings.values()):
                    self.poll.unregister(fd)
                    os.close(fd)
                    for ending in self.endings.values():
                        ending.waiting_pidfds.discard(fd)
            self.reap()
            for ending in [e for e in self.endings.values() if e.is_over()]:
                self.finish(ending)

    def poll_timeout(self) -> float | None:
        """Milliseconds until the first grace period or the wait for another server ends."""
        deadlines = [ending.deadline for ending in self.endings.values()]
        if self.takeover_deadline is not None:
            deadlines.append(self.takeover_deadline)
        if not deadlines:
            return None
        return max(0.0, min(deadlines) - time.monotonic()) * 1000 + 1

    def spools(self) -> dict[int, HeldDescriptors]:
        """Pipes whose output goes to a file, by descriptor; empty while a server is connected."""
        if self.link is not None:
            return {}
        return {held.spooled_fd: held for held in self.held.values() if held.spool is not None}

    def wait_for_another(self) -> bool:
        """Handle the disconnect of the server. Returns False if the keeper should exit, instead of
        waiting for another server."""
        assert self.link is not None
        self.poll.unregister(self.link)
        if self.listener is None or self.is_leaving:
            return False
        self.link.close()
        self.link = None
        self.takeover_deadline = time.monotonic() + self.takeover_timeout
        for fd in self.spools():
            self.poll.register(fd, select.POLLIN)
        return True

    def accept(self, listener: socket.socket) -> None:
        link, _ = listener.accept()
        # Only our own user may take over the shells.
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _pid, uid, _gid = struct.unpack("3i", credentials)
        if uid != os.getuid():
            link.close()
            return
        if self.link is not None:
            send_frame(link, {"op": "busy"})
            link.close()
            return
        for fd in self.spools():
            with contextlib.suppress(KeyError):  # already unregistered at the end of the pipe
                self.poll.unregister(fd)
        self.link, self.takeover_deadline = link, None
        self.poll.register(link, select.POLLIN)
        for key, held in self.held.items():
            self.send(*held.fds, op="held", key=key, fds=len(held.fds))
        lost = sum(held.lost for held in self.held.values())
        statuses = dict.fromkeys(self.shells) | self.statuses
        self.send(op="found", statuses=[list(item) for item in statuses.items()], lost=lost)

    def receive(self) -> bool:
        """Read and handle one request; False if the server disconnected or sent `leave`."""
        assert self.link is not None
        try:
            head, fds, _, _ = socket.recv_fds(self.link, LENGTH_BYTES, MAX_REQUEST_FDS)
            is_complete = len(head) == LENGTH_BYTES
            body = self.receive_exactly(struct.unpack("!I", head)[0]) if is_complete else b""
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
        elif message["op"] == "signal":
            self.signal_group(message["pid"], message["number"])
        elif message["op"] == "hang_up":
            self.hang_up(message["pid"])
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

    def receive_exactly(self, size: int) -> bytes:
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
        """Fork a shell. `report_start` sends the result later, so that several shells can start in
        parallel."""
        status_read, status_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            become_shell(message, fds, status_write, self.ignored_signals)
        os.close(status_write)
        for fd in fds:
            os.close(fd)
        self.shells[pid] = b"".join(os.fsencode(word) + b"\0" for word in message["argv"])
        if not message["adopts"]:
            self.programs.add(pid)
        self.starting[status_read] = (message["id"], pid)
        self.poll.register(status_read, select.POLLIN)

    def report_start(self, status_read: int) -> None:
        """Report whether a shell started. Exec closes the pipe; a failed start writes to it."""
        spawn_id, pid = self.starting.pop(status_read)
        failure = os.read(status_read, 4096)
        self.poll.unregister(status_read)
        os.close(status_read)
        if failure:
            self.shells.pop(pid, None)
            self.programs.discard(pid)
            self.send(op="failed", id=spawn_id, **marshal.loads(failure))  # noqa: S302
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
            starts = [fd for fd, (_, starting) in self.starting.items() if starting == pid]
            for status_read in starts:
                self.report_start(status_read)  # report its start or failure before its exit
            if pid in self.shells:
                command_line = self.shells.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                if code == -signal.SIGHUP or pid in self.hung_up:
                    self.hung_up.discard(pid)
                    hang_up_session(pid, command_line)
                if self.listener is not None:  # the connected server may die before it reads this
                    self.statuses[pid] = code
                    for oldest in list(self.statuses)[:-MAX_STATUSES]:
                        del self.statuses[oldest]
                self.send(op="exited", pid=pid, status=code)
                if pid in self.programs:
                    self.programs.discard(pid)  # `finish` waits for its children
                elif pid in self.endings:
                    self.finish(self.endings[pid])

    def end(self, pid: int, grace: float) -> None:
        """Send SIGHUP and SIGTERM to the programs of a shell. `finish` is called when they have
        ended, or after `grace` seconds."""
        if pid not in self.shells:
            self.send(op="ended", pid=pid)
            return
        if pid in self.endings:
            return  # the reply to the first request answers this one too
        ending = ShellEnding(pid, time.monotonic() + grace, is_program=pid in self.programs)
        if ending.is_program:
            # The program gets the signal first, so that it does not exit because its child ended.
            members = dict.fromkeys([pid, *descendants(pid), *session_members(pid)])
            numbers = [signal.SIGTERM, signal.SIGCONT]
        else:
            # A stopped shell starts no more processes; its children continue to run.
            signal_process(pid, signal.SIGSTOP)
            members = dict.fromkeys(descendants(pid))
            numbers = [signal.SIGHUP, signal.SIGTERM, signal.SIGCONT]
        for member in members:
            try:
                watch = os.pidfd_open(member)
            except OSError:
                continue
            ending.waiting_pidfds.add(watch)
            self.poll.register(watch, select.POLLIN)
            for number in numbers:
                signal_process(member, number)
        self.endings[pid] = ending

    def signal_group(self, pid: int, number: int) -> None:
        """Send a signal to the process group that a shell or program leads."""
        if pid in self.shells:  # not reaped yet, so the id belongs to no other process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def hang_up(self, pid: int) -> None:
        """Kill a shell whose terminal is gone, also if it ignores SIGHUP. `reap` sends SIGHUP to
        its programs."""
        if pid in self.shells:
            self.hung_up.add(pid)
            signal_process(pid, signal.SIGKILL)

    def finish(self, ending: ShellEnding) -> None:
        """Kill the remaining processes of a shell, and then the shell itself. As long as the shell
        lives, it adopts orphans, so all its processes can be found."""
        del self.endings[ending.pid]
        for fd in ending.waiting_pidfds:
            if ending.is_program:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            self.poll.unregister(fd)
            os.close(fd)
        if ending.pid in self.shells:
            kill_descendants(ending.pid, time.monotonic() + CLEANUP_TIMEOUT)
            orphans = session_members(ending.pid) if ending.is_program else ()
            for pid in (*orphans, ending.pid):
                signal_process(pid, signal.SIGKILL)
        self.send(op="ended", pid=ending.pid)


class HeldDescriptors:
    """Descriptors kept open for the next server. The output of a pipe can be spooled to a file.

    `splice` moves the data inside the kernel, so each byte is either in the pipe or in the file,
    even if this process is killed.
    """

    def __init__(self, fds: list[int], spool: dict | None) -> None:  # type: ignore[type-arg]
        self.fds = fds
        self.spool = spool
        self.lost = 0

    @property
    def spooled_fd(self) -> int:
        """The descriptor of the pipe whose output goes to the file."""
        assert self.spool is not None
        index: int = self.spool["index"]
        return self.fds[index]

    def move(self) -> bool:
        """Move the available data from the pipe to the file; False at the end of the pipe."""
        assert self.spool is not None
        file = os.open(self.spool["path"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = os.fstat(file).st_size
            moved = os.splice(self.spooled_fd, file, MAX_SPLICE, offset_dst=end)
            end += moved
            # Drop the oldest data by punching a hole. Offsets do not change, so a server can see
            # from `lost` how much is missing.
            excess = end - self.lost - self.spool["limit"]
            if excess > self.spool["limit"] // 8:  # not after every splice, which would be slow
                fallocate(file, PUNCH_HOLE_KEEP_SIZE, 0, self.lost + excess)
                self.lost += excess
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return moved > 0


class ShellEnding:
    """A shell or program that is being ended: its processes got SIGTERM and are killed at
    `deadline`."""

    def __init__(self, pid: int, deadline: float, *, is_program: bool = False) -> None:
        self.pid = pid
        self.deadline = deadline
        self.is_program = is_program
        """A program gets SIGTERM too. Its children are no longer its descendants once it ends."""
        self.waiting_pidfds: set[int] = set()
        """Descriptors (pidfd) of processes that have not ended yet."""

    def is_over(self) -> bool:
        return not self.waiting_pidfds or time.monotonic() >= self.deadline


def become_shell(
    message: dict,  # type: ignore[type-arg]
    fds: list[int],
    status_write: int,
    ignored_signals: list[signal.Signals],
) -> None:
    """In the forked child: take the terminal, drop privileges and execute the shell.

    An error is written to `status_write`, with the step that failed (`where`).
    """
    if message["terminal"]:
        output_fd, stdin_fd = fds  # the terminal and the command channel
        error_fd = output_fd
        owned_fds = [output_fd]
    else:
        stdin_fd, output_fd = fds[:2]
        error_fd = fds[2] if len(fds) > 2 else 2
        owned_fds = fds
    where = "session"
    try:
        # The child inherits the keeper's wakeup pipe. If the child got a SIGHUP now, because its
        # terminal closes, the keeper would read it as a SIGHUP to itself.
        signal.set_wakeup_fd(-1)
        os.setsid()
        if message["terminal"]:
            fcntl.ioctl(output_fd, termios.TIOCSCTTY, 0)
        if message["uid"] is not None:
            where = "user"
            for fd in owned_fds:  # so that it may open /dev/stdin and /dev/stdout
                os.fchown(fd, message["uid"], -1)
            os.setgroups(message["groups"])
            os.setgid(message["gid"])
            os.setuid(message["uid"])
        where = "cwd"
        os.chdir(message["cwd"])
        where = "exec"
        os.dup2(stdin_fd, 0)
        os.dup2(output_fd, 1)
        os.dup2(error_fd, 2)
        # After setuid, which clears PDEATHSIG. If the keeper dies, the kernel kills the shell; then
        # its terminal closes and its programs get SIGHUP.
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if message["adopts"]:
            _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in ignored_signals:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(message["argv"][0], message["argv"], message["env"])  # noqa: S606
    except BaseException as error:  # noqa: BLE001 - this child must never run the parent's code
        os.write(status_write, marshal.dumps({"error": str(error)[:1000], "where": where}))
    finally:
        os._exit(127)


def send_frame(link: socket.socket, message: dict, fds: Sequence[int] = ()) -> None:  # type: ignore[type-arg]
    body = marshal.dumps(message)
    frame = struct.pack("!I", len(body)) + body
    with contextlib.suppress(OSError):  # the server disconnected; `serve` handles that next
        sent = socket.send_fds(link, [frame], list(fds)) if fds else 0
        link.sendall(frame[sent:])


def fallocate(file: int, mode: int, offset: int, length: int) -> None:
    _libc.fallocate64(file, mode, ctypes.c_int64(offset), ctypes.c_int64(length))


def descendants(root: int) -> list[int]:
    """Return all living descendants of `root`.

    `sandbox/process_table.py` does the same, but this process imports nothing from the package.

    Zombies are followed too: a process whose first thread ended before its other threads is a
    zombie, and is still the parent of its children.
    """
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for each in process_stats():
        children.setdefault(each.parent, []).append(each.pid)
        if each.is_dead:
            dead.add(each.pid)
    found, frontier = [], [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return [pid for pid in found if pid not in dead]


class ProcessStat:
    """A process as /proc shows it."""

    def __init__(self, pid: int, stat: bytes) -> None:
        self.pid = pid
        state, parent, _group, session, *_ = stat.rpartition(b")")[2].split()
        self.parent = int(parent)
        self.session = int(session)
        self.is_dead = state in (b"Z", b"X")


def process_stats() -> list[ProcessStat]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                found.append(ProcessStat(int(name), file.read()))
    return found


def signal_process(pid: int, number: int) -> bool:
    """Send a signal; False if not permitted. A process that no longer exists counts as success."""
    try:
        os.kill(pid, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def kill_descendants(root: int, deadline: float) -> None:
    """Kill all descendants of `root`. Returns early if we lack permission to kill the rest."""
    while (left := descendants(root)) and time.monotonic() < deadline:
        if not sum(signal_process(pid, signal.SIGKILL) for pid in left):
            return


def hang_up_session(session: int, command_line: bytes) -> None:
    """Send SIGHUP to all programs in the session of a shell that has ended.

    The kernel sends SIGHUP only to the foreground group, and only once. Processes that the shell
    forked and that have not yet executed their program lose the signal, because they still have
    the shell's handler. They have its command line too, and are killed instead.
    """
    deadline = time.monotonic() + CLEANUP_TIMEOUT
    hung_up: set[int] = set()
    is_complete = False
    while not is_complete and time.monotonic() < deadline:
        is_complete = True
        for pid in session_members(session):
            running = read_command_line(pid)
            if running == command_line:
                is_complete = False
                signal_process(pid, signal.SIGKILL)
            elif not running:  # it is executing its program just now, or has ended
                is_complete = False
            elif pid not in hung_up:
                hung_up.add(pid)
                signal_process(pid, signal.SIGHUP)
                signal_process(pid, signal.SIGCONT)  # a stopped process gets no SIGHUP


def session_members(session: int) -> list[int]:
    """Return the living processes of a session."""
    return [each.pid for each in process_stats() if each.session == session and not each.is_dead]


def read_command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        sys.argv[2] if len(sys.argv) > 2 else None,
        float(sys.argv[3]) if len(sys.argv) > 3 else 0.0,
    )
