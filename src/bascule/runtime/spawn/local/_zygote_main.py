"""The zygote: a process that has loaded everything a sandbox needs, and forks a sandbox in
milliseconds.

`python -P -m bascule.runtime.spawn.local._zygote_main FD PARENT` reads orders from the socket FD.
Each order is one message with descriptors. The zygote forks for each order. The fork joins the
session's cgroups, lets bubblewrap create the namespaces and mounts, enters them and forks again.
The second fork is the session's server. All servers share the memory of the modules that were
loaded here.

Bubblewrap's own child is `cat`, which exits when the last write end of its stdin closes. The first
fork holds this end until there is a server, then only the server holds it. When `cat` exits, the
kernel ends the whole namespace. So no process in the namespace outlives the server, and a `kill -9`
of any process at any moment leaves nothing behind.

The zygote reports each child that ends: `{"pid", "status"}`. It exits at once when
the warden exits, so that no sandbox starts for which nobody waits. Running servers stay.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from bascule.core.actions import CmdRun, FileEdit, FileRead, FileWrite
from bascule.core.observations import (
    CmdMetadata,
    CmdOutput,
    Error,
    FileContent,
    FileEdited,
    FileWritten,
)
from bascule.runtime.spawn import routes
from bascule.sandbox.session import seccomp
from bascule.sandbox.shell.keeper import compiled_keeper
from bascule.wire import prepare_kinds

from . import bind_mounts, proc_masks, sudo
from .etc_tree import EtcTree
from .namespaces import (
    adopt_orphans,
    become_root_of,
    die_with,
    drop_privileges,
    drop_privileges_with_root,
    enter,
    enter_with_rights,
    join_network,
    limit_terminals,
    new_network,
    owner_of_network,
    set_process_name,
    with_own_device,
)
from .records import claim

SERVER: Final = "bascule.sandbox.session.__main__"
LOADED: Final = (
    SERVER,
    # Modules that a server imports only when it starts, or with the first request for them.
    "bascule.sandbox.files.file_actions",
    "bascule.sandbox.server.endpoints",
    "encodings.idna",
    "importlib.metadata",
    "bascule.sandbox.checkpoint_recorder",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
"""Modules that the zygote imports once, instead of once for each sandbox."""
COMMON_KINDS: Final = (
    *(CmdRun, CmdOutput, CmdMetadata, Error),
    *(FileRead, FileContent, FileWrite, FileWritten, FileEdit, FileEdited),
)
"""Events that nearly every session sends or receives. Preparing all kinds would delay the zygote's
start."""
MAX_ORDER_BYTES: Final = 1 << 18
MAX_DESCRIPTORS: Final = 32
ETC: Final = "@etc"
"""Placeholder for the tree of mounts that the zygote creates from `Order.etc`."""
TUN: Final = "/dev/net/tun"
SLIRP_GATEWAY: Final = "10.0.2.2"
_ECHO: Final = b"."
_MAX_NETWORK_DESCRIPTORS: Final = 4096
"""Maximum descriptors of the process that connects a session's network. Each connection needs
one."""


@dataclass(frozen=True, slots=True)
class Order:
    """A sandbox to create.

    `descriptors` has the passed descriptors by name. A word `@name` in `bubblewrap` stands for the
    path at which the mount with that descriptor is attached.
    """

    bubblewrap: Sequence[str]
    """Bubblewrap's arguments; empty: no isolation."""
    stage: str
    """A directory of the warden, below which mounts are attached that only bubblewrap sees."""
    etc: Mapping[str, str]
    """Paths on the host by their path in `/etc`, used if `bubblewrap` has `@etc`."""
    files: Mapping[str, str]
    cgroups: Sequence[str]
    own_network: bool
    own_user: bool
    network: Sequence[str]
    """Command that connects the namespace to the network; empty: no network."""
    network_uid: int
    """The UID with which the command `network` runs."""
    rejected: Sequence[str]
    """Networks that the session cannot reach."""
    allowed_networks: Sequence[str]
    """Networks inside `rejected` that the session can reach."""
    uid: int
    gid: int
    as_root: bool
    """Whether the session's user is called root inside: UID 0 in its own user namespace."""
    root: int | None
    """Host UID of a second user who is root inside, for `sudo`; None: there is no such user."""
    terminals: int
    """Maximum number of pseudoterminals of the session, so that it cannot use all pseudoterminals
    of the machine."""
    set_id_files: bool
    """Whether the session's programs can give files the set-user-ID and set-group-ID bits."""
    memory: int | None
    """Maximum bytes of each process, on machines without cgroups; None: no limit."""
    processes: int | None
    """Maximum processes of the user, on machines without cgroups; None: no limit."""
    environment: Mapping[str, str]
    descriptors: Mapping[str, int]


class _ProgramFailed(Exception):
    """A program failed. Its own output is in the log, before the message of this error."""


def main(descriptor: int, parent: int) -> None:
    if not die_with(parent):
        return
    adopt_orphans()
    set_process_name("zygote")
    link = socket.socket(fileno=descriptor)
    link.set_inheritable(False)
    child_ended, child_ended_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(child_ended_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in LOADED:
        import_module(name)
    for set_id_files in (True, False):
        seccomp.assembled(set_id_files=set_id_files)
    compiled_keeper()
    prepare_kinds(COMMON_KINDS)
    gc.collect()
    gc.freeze()  # the collector skips these objects, so forks keep sharing their memory
    stage = _Stage()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while True:
            ready, _, _ = select.select([link.fileno(), child_ended], [], [])
            if child_ended in ready:
                os.read(child_ended, 4096)
                _reap(link)
            if link.fileno() in ready and not _serve_orders(link, stage):
                return


@dataclass(slots=True)
class _Stage:
    """The mounts for bubblewrap, created for the first order that needs them."""

    etc: EtcTree | None = None

    def prepare(self, order: Order) -> None:
        """Create the mounts, if `order` needs them. After an `OSError`, the next order tries
        again."""
        if ETC not in order.bubblewrap:
            return
        if self.etc is None:
            bind_mounts.open_stage(Path(order.stage))
            own = [Path(path).name for path in order.files]
            self.etc = EtcTree(Path(order.stage, ETC[1:]), empty=own)
        self.etc.refresh(order.etc)


def _serve_orders(link: socket.socket, stage: _Stage) -> bool:
    message, descriptors, _, _ = socket.recv_fds(link, MAX_ORDER_BYTES, MAX_DESCRIPTORS)
    if not message:
        return False
    data = json.loads(message)
    names = data.pop("given")
    order = Order(**data, descriptors=dict(zip(names, descriptors, strict=True)))
    failure = None
    try:
        stage.prepare(order)
    except OSError as error:
        failure = error  # the fork raises this error, so that it appears in the session's log
    zygote, pid = os.getpid(), os.fork()
    if pid == 0:
        if not die_with(zygote):
            os._exit(1)
        link.close()
        _become_sandbox(order, failure)
    for each in descriptors:
        os.close(each)
    return True


def _reap(link: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            link.send(json.dumps({"pid": pid, "status": code}).encode())


# The functions below run in a fork -------------------------------------------------------------


def _become_sandbox(order: Order, failure: OSError | None) -> NoReturn:
    """Turn this process into the sandbox.

    Reports each step on the descriptor `result`. The cause of a failure is in the log.
    """
    try:
        signal.set_wakeup_fd(-1)  # signals of this fork must not wake the zygote
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(order.descriptors["log"], 1)
        os.dup2(order.descriptors["log"], 2)
        _report(order, {"fork": os.getpid()})
        if failure is not None:
            raise failure
        for procs_file in order.cgroups:
            with open(procs_file, "w") as file:  # noqa: PTH123
                file.write("0")
        kept_alive = _isolate(order) if order.bubblewrap else []
        server = os.fork()
        if server == 0:
            _serve(order, kept_alive)
        _report(order, {"server": server})
    except _ProgramFailed as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)
    except BaseException:  # noqa: BLE001  # the edge of a process; the log has it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _isolate(order: Order) -> list[int]:
    """Enter the sandbox's namespaces; returns the descriptors that keep them alive."""
    input_end, life = os.pipe2(os.O_CLOEXEC)
    answers, output_end = os.pipe2(os.O_CLOEXEC)
    info_end, info = os.pipe2(os.O_CLOEXEC)
    numbers = [info, *(_memory_file(text) for text in order.files.values())]
    bubblewrap, *words = _attach_mounts(order)
    # The tree `@etc` is read-only, so the session's own files are mounted over those in it.
    make = "--ro-bind-data" if ETC in order.bubblewrap else "--file"
    for path, number in zip(order.files, numbers[1:], strict=True):
        words += ["--perms", "0644", make, str(number), path]
    words += ["--remount-ro", "/", "--chdir", "/", "--info-fd", str(info)]
    session_network = None
    if order.network and not order.own_user:
        # A network created by bubblewrap would belong to root, and so would the process that
        # connects it.
        session_network = SessionNetwork.create(order.network_uid)
        join_network(session_network.network_namespace)
        words.remove("--unshare-net")
    # A session can read the command line of its first process, bubblewrap: keep paths out of it.
    numbers.append(_memory_file("".join(f"{word}\0" for word in words)))
    program = subprocess.Popen(
        [bubblewrap, "--args", str(numbers[-1]), "--", "cat"],
        stdin=input_end,
        stdout=output_end,
        env={"PATH": "/usr/bin:/bin"},
        pass_fds=numbers,
    )
    for number in (input_end, output_end, *numbers):
        os.close(number)
    # `cat` answers once bubblewrap has finished; before that there are no namespaces to enter.
    os.write(life, _ECHO)
    if os.read(answers, 1) != _ECHO:
        raise _ProgramFailed(f"bubblewrap ended with status {program.wait()}")
    os.close(answers)
    inside = int(json.loads(os.read(info_end, 4096))["child-pid"])
    os.close(info_end)
    _report(order, {"first": inside})
    kept_alive = [life]
    if order.network:
        kept_alive.append(_connect(order, inside, session_network))
    # In this process, not in a child: forking a process of this size takes milliseconds.
    enter(
        inside,
        own_network=order.own_network,
        own_user=order.own_user,
        arrange=lambda: _arrange_mounts(order),
    )
    if order.root is not None:
        sudo.install(order.root)
    if session_network is not None:
        session_network.close()
    program.returncode = 0  # the zygote reaps bubblewrap, not this process
    return kept_alive


@dataclass(frozen=True, slots=True)
class SessionNetwork:
    """The network namespace of a session, created by root, with the namespaces that its connection
    needs."""

    user_namespace: int
    """The user namespace that owns `network_namespace`, with one user."""
    network_namespace: int
    host_namespace: int
    """The network namespace to which the session's network is connected."""

    @classmethod
    def create(cls, uid: int) -> Self:
        host_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return cls(*new_network(uid), host_namespace)

    def drop_other_rights(self, uid: int) -> None:
        """Give this process rights over the session's network and nothing else."""
        join_network(self.host_namespace)
        with_own_device(TUN, uid)
        become_root_of(self.user_namespace)

    def close(self) -> None:
        for number in (self.user_namespace, self.network_namespace, self.host_namespace):
            os.close(number)


def _connect(order: Order, inside: int, session_network: SessionNetwork | None) -> int:
    """Start the process that connects the namespace to the network.

    Closing the returned descriptor ends the process. The process confines itself before it sees the
    first packet (`--enable-sandbox`).
    """
    _with_rights(order, inside, "net", lambda: _set_routes(order))
    exit_pipe, exit_pipe_write = os.pipe2(os.O_CLOEXEC)
    ready, ready_write = os.pipe2(os.O_CLOEXEC)
    namespace = os.open(f"/proc/{inside}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    passed = [exit_pipe, ready_write, namespace]

    def prepare() -> None:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (_MAX_NETWORK_DESCRIPTORS, _MAX_NETWORK_DESCRIPTORS)
        )
        if session_network is not None:
            session_network.drop_other_rights(order.network_uid)
        else:
            become_root_of(owner_of_network(inside))

    program = subprocess.Popen(
        [
            *order.network,
            *("--exit-fd", str(exit_pipe), "--ready-fd", str(ready_write)),
            *("--netns-type", "path", f"/proc/self/fd/{namespace}", "tap0"),
        ],
        stdin=subprocess.DEVNULL,
        pass_fds=passed,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        preexec_fn=prepare,
    )
    for number in passed:
        os.close(number)
    if not os.read(ready, 1):
        raise _ProgramFailed(f"{order.network[0]} ended with status {program.wait()}")
    os.close(ready)
    program.returncode = 0
    if order.allowed_networks:
        _with_rights(
            order,
            inside,
            "net",
            lambda: routes.route_via_gateway(order.allowed_networks, SLIRP_GATEWAY),
        )
    return exit_pipe_write


def _arrange_mounts(order: Order) -> None:
    limit_terminals(order.terminals)
    proc_masks.cover_proc()


def _set_routes(order: Order) -> None:
    routes.bring_up_loopback()
    routes.reject(order.rejected)


def _with_rights(order: Order, inside: int, kind: str, do: Callable[[], None]) -> None:
    """Run `do` in a child process with rights over the session's namespace of that kind."""
    child = os.fork()
    if child == 0:
        try:
            enter_with_rights(inside, kind, own_user=order.own_user)
            do()
        except BaseException:  # noqa: BLE001  # the edge of a process; the log has it
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise _ProgramFailed("the session's namespaces could not be set up")


def _serve(order: Order, kept_alive: Sequence[int]) -> NoReturn:
    os.setsid()
    os.dup2(order.descriptors["launch"], 0)
    lock = order.descriptors["lock"]
    kept_open = {0, 1, 2, lock, order.descriptors["result"], *kept_alive}
    kept_open.update(
        number for name, number in order.descriptors.items() if name.startswith("lease")
    )
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number not in kept_open:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(number)
    if order.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (order.memory, order.memory))
    if order.processes is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (order.processes, order.processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)

    def confine() -> None:
        if order.bubblewrap:
            seccomp.confine(set_id_files=order.set_id_files)

    if order.root is None:
        drop_privileges(order.uid, order.gid, as_root=order.as_root, confine=confine)
    else:
        drop_privileges_with_root(order.uid, order.gid, order.root, confine)
    claim(lock)
    os.environ.clear()
    os.environ.update(order.environment)
    set_process_name("sandbox")
    status = 1
    try:
        import_module(SERVER).main(on_started=lambda _: _report_ready(order))
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001  # the edge of a process; the log has it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _report_ready(order: Order) -> None:
    """Report that the server answers, or exit if the warden has exited or aborted the start."""
    with socket.socket(fileno=order.descriptors["result"]) as link:
        try:
            link.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:  # normal: the warden is alive and has not aborted
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                _report(order, {"ready": True})
                return
    os._exit(0)


def _report(order: Order, step: Mapping[str, Any]) -> None:
    os.write(order.descriptors["result"], json.dumps(step).encode() + b"\n")


def _memory_file(text: str) -> int:
    number = os.memfd_create("file")
    os.write(number, text.encode())
    os.lseek(number, 0, os.SEEK_SET)
    return number


def _attach_mounts(order: Order) -> list[str]:
    """Attach each passed mount at a path that only forks of this process see. Returns bubblewrap's
    arguments with these paths."""
    mounts = {name: number for name, number in order.descriptors.items() if name.startswith("dir:")}
    if mounts:
        bind_mounts.attach_all(mounts, Path(order.stage))
        for number in mounts.values():
            os.close(number)
    return [f"{order.stage}/{w[1:]}" if w.startswith("@") else w for w in order.bubblewrap]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
