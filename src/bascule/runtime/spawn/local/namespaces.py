"""Enters namespaces of other processes, and drops privileges.

Uses system calls that Python 3.11 does not offer. Most functions change the calling process for
good: they are for a process that was forked to become a sandbox.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import stat
from collections.abc import Callable, Set
from pathlib import Path
from typing import Final

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUTS: Final = 0x04000000
_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWPID: Final = 0x20000000
_CLONE_NEWNET: Final = 0x40000000
_MS_NOSUID: Final = 0x2
_MS_NOEXEC: Final = 0x8
_MS_REMOUNT: Final = 0x20
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 0x80000
_NS_GET_USERNS: Final = 0xB701
_PR_SET_NAME: Final = 15
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_PR_SET_DUMPABLE: Final = 4
_PR_SET_PDEATHSIG: Final = 1
_CAPABILITY_VERSION_3: Final = 0x20080522
_CAPABILITY_COUNT_LIMIT: Final = 64
_SESSION_ROOT_CAPABILITIES: Final = frozenset(range(8)) - {2}
"""Capabilities of a session's root over files and processes of the users in its user namespace:
CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID and SETUID. No mounts, no network, no devices."""

_libc = ctypes.CDLL(None, use_errno=True)


def enter(
    pid: int, *, own_network: bool, own_user: bool, arrange: Callable[[], None] = lambda: None
) -> None:
    """Join the namespaces of process `pid`. Its PID namespace takes effect for our next child.

    `arrange` is called inside the namespaces, with rights over the mounts.

    `own_user`: the process has its own user namespace, which owns the other namespaces. The process
    may have entered a second user namespace since. Only the first gives rights over the others.
    """
    process = os.pidfd_open(pid)
    if own_user:
        first = _owner_of(Path(f"/proc/{pid}/ns/mnt"))
        second = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        _setns(first, _CLONE_NEWUSER)
    kinds = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC | _CLONE_NEWUTS
    _setns(process, kinds | (_CLONE_NEWNET if own_network else 0))
    arrange()
    if own_user:
        if not os.path.sameopenfile(first, second):
            _setns(second, _CLONE_NEWUSER)
        os.close(first)
        os.close(second)
    os.close(process)


def owner_of_network(pid: int) -> int:
    """A descriptor of the user namespace that owns the network namespace of `pid`."""
    return _owner_of(Path(f"/proc/{pid}/ns/net"))


def drop_privileges(
    uid: int, gid: int, *, as_root: bool = False, confine: Callable[[], None] = lambda: None
) -> None:
    """Become the user `uid`, without privileges, also after any `exec`.

    `confine` is called as that user, while a seccomp filter can still be installed.

    `as_root`: have UID 0 in a user namespace without other users. This is only a name: the
    capabilities that UID 0 has in that namespace are dropped as well.
    """
    if not as_root:
        drop_capabilities_for_good()
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if as_root:
        if os.geteuid() != 0:  # a bubblewrap without root may have made us UID 0 already
            _map_to_uid_zero(uid, gid)
        drop_capabilities_for_good()
    confine()
    _clear_capabilities()
    # Other processes of this user must not read the key from the server's memory.
    _prctl(_PR_SET_DUMPABLE, 0)


def drop_privileges_with_root(
    uid: int, gid: int, root: int, confine: Callable[[], None] = lambda: None
) -> None:
    """Become the user `uid`, in a user namespace with only one other user, who is root.

    A set-user-ID program of `root` runs as that second user, who has root's rights over the files
    and processes of these two users.
    """
    os.setgroups([])
    _map_two_users(uid, gid, root)
    _drop_from_bounding_set(kept=_SESSION_ROOT_CAPABILITIES)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    confine()
    _clear_capabilities()
    _prctl(_PR_SET_DUMPABLE, 0)


def _map_two_users(uid: int, gid: int, root: int) -> None:
    """Map two users. Only a process outside a new user namespace can map ids other than its own."""
    entered_read, entered_write = os.pipe2(os.O_CLOEXEC)
    writer = os.fork()
    if writer == 0:
        os.read(entered_read, 1)
        parent = os.getppid()
        for name, own in (("uid_map", uid), ("gid_map", gid)):
            with open(f"/proc/{parent}/{name}", "w") as file:  # noqa: PTH123
                file.write(f"0 {root} 1\n{own} {own} 1\n")
        os._exit(0)
    _check(_libc.unshare(_CLONE_NEWUSER), "unshare")
    os.write(entered_write, b".")
    if os.waitpid(writer, 0)[1] != 0:
        raise OSError("the users of the session could not be named")
    os.close(entered_read)
    os.close(entered_write)


def _map_to_uid_zero(uid: int, gid: int) -> None:
    _check(_libc.unshare(_CLONE_NEWUSER), "unshare")
    # After a change of user, a process does not own its files in /proc unless it is dumpable.
    _prctl(_PR_SET_DUMPABLE, 1)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
            file.write(text)


def new_network(uid: int) -> tuple[int, int]:
    """Descriptors of a new user namespace with that user as its only root, and of a
    network namespace that it owns. Needs root."""
    created, created_write = os.pipe2(os.O_CLOEXEC)
    maker = os.fork()
    if maker == 0:
        os.close(created)
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET), "unshare")
        os.write(created_write, b".")
        signal.pause()
    os.close(created_write)
    try:
        if not os.read(created, 1):
            raise OSError("a network namespace could not be created")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{maker}/{name}", "w") as file:  # noqa: PTH123
                file.write(f"0 {uid} 1\n")
        where = (f"/proc/{maker}/ns/{name}" for name in ("user", "net"))
        user, network = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in where)
        return user, network
    finally:
        os.close(created)
        os.kill(maker, signal.SIGKILL)
        os.waitpid(maker, 0)


def become_root_of(user: int) -> None:
    """Become root of a user namespace, without rights anywhere else."""
    if os.geteuid() == 0:
        os.setgroups([])
    _setns(user, _CLONE_NEWUSER)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def with_own_device(device: str, uid: int) -> None:
    """Give `device` to the user `uid`, in a private mount namespace. On the host, maybe only root
    has access to the device."""
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "mount")
    number = Path(device).stat().st_rdev
    directory = bytes(Path(device).parent)
    _check(_libc.mount(b"tmpfs", directory, b"tmpfs", _MS_NOSUID, b"mode=0755,size=4k"), "mount")
    os.mknod(device, stat.S_IFCHR | 0o600, number)
    os.chown(device, uid, uid)


def join_network(network: int) -> None:
    _setns(network, _CLONE_NEWNET)


def enter_with_rights(pid: int, kind: str, *, own_user: bool) -> None:
    """Join a namespace of process `pid`, `net` or `mnt`, with rights over it."""
    path = Path(f"/proc/{pid}/ns/{kind}")
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if own_user:
        _setns(_owner_of(path), _CLONE_NEWUSER)
    _setns(namespace, {"net": _CLONE_NEWNET, "mnt": _CLONE_NEWNS}[kind])


def limit_terminals(maximum: int) -> None:
    """Limit the number of terminals in the current mount namespace, which has its own
    `/dev/pts`."""
    flags = _MS_REMOUNT | _MS_NOSUID | _MS_NOEXEC
    options = f"ptmxmode=0666,mode=620,max={maximum}".encode()
    _check(_libc.mount(b"devpts", b"/dev/pts", b"devpts", flags, options), "mount of /dev/pts")


def drop_capabilities_for_good() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _drop_from_bounding_set(kept=frozenset())


def _drop_from_bounding_set(*, kept: Set[int]) -> None:
    for capability in set(range(_CAPABILITY_COUNT_LIMIT)) - kept:
        # Errors are ignored: without CAP_SETPCAP, and for numbers above the last capability.
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants (subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> bool:
    """Make the kernel kill this process when the parent ends. Returns whether the parent is still
    alive."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that died before the call sends no signal.
    return os.getppid() == parent


def set_process_name(name: str) -> None:
    _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def _clear_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none), "capset")


def _owner_of(namespace: Path) -> int:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return fcntl.ioctl(descriptor, _NS_GET_USERNS)
    finally:
        os.close(descriptor)


def _setns(descriptor: int, kinds: int) -> None:
    _check(_libc.setns(descriptor, kinds), "setns")


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0), "prctl")


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
