"""A seccomp filter (BPF) that blocks system calls for programs of a session.

A session has no capabilities. But if a session could create a user namespace, it would have all
capabilities over the network, mounts and file systems of that namespace. With these it could reach
kernel code that is rarely tested.
So the filter blocks new namespaces, and other interfaces that few programs need and that often had
vulnerabilities (io_uring, eBPF, keyrings, rare socket families). Debuggers work.

`docs/decisions/0007-a-session-is-never-the-hosts-root.md` gives the reason for each blocked call.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from .system_calls import LAST, NUMBERS

DENIED: Final = (
    # Mounts and namespaces.
    *("mount", "umount2", "pivot_root", "open_tree", "open_tree_attr", "move_mount", "fsopen"),
    *("fsconfig", "fsmount", "fspick", "mount_setattr", "setns"),
    # Kernel keyrings: they may include the keys of the person who started the hub.
    *("keyctl", "add_key", "request_key"),
    # The machine itself.
    *("reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm"),
    # Inspecting or controlling the kernel.
    *("bpf", "perf_event_open", "userfaultfd", "lookup_dcookie"),
    # Old interfaces, and calls that open a file by a handle or take another process's descriptor.
    *("modify_ldt", "uselib", "open_by_handle_at", "pidfd_getfd"),
)
"""These calls fail with EPERM."""

REPORTED_AS_MISSING: Final = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")
"""These calls fail with ENOSYS, so programs fall back to older calls: epoll, and `clone`, whose
flags a filter can read."""

FAMILIES: Final = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
"""Sockets of other families fail with EAFNOSUPPORT (AF_VSOCK reaches the hypervisor, AF_ALG the
kernel's ciphers, AF_PACKET the raw network)."""

PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, 0x40000, 0x40008, 0xFFFFFFFF)
"""Allowed arguments: default, 32 bits (0x8), old kernel version (0x20000), no address randomization
(0x40000, for debuggers), and the query for the current value."""

_NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET, _NEWTIME. The bit of
_NEWTIME (0x80) is in the byte that `clone` uses for a signal number."""
_SET_ID_BITS: Final = 0o6000
_CREATE_FLAGS: Final = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: the kernel uses the mode argument only with these flags."""
_MODE_ARGUMENTS: Final = (
    *(("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)),
    *(("creat", 1), ("mknod", 1), ("mknodat", 2)),
)
"""System calls, and the index of their mode argument."""
_FLAGS_ARGUMENTS: Final = (("open", 1), ("openat", 2))
"""System calls, and the index of their flags argument; the mode is the next argument."""

_KILL_PROCESS: Final = 0x80000000
_ERRNO: Final = 0x00050000
_ALLOW: Final = 0x7FFF0000
_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL: Final = 0x15
_JUMP_GREATER: Final = 0x25
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`."""

_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1
_SECCOMP_FILTER_FLAG_SPEC_ALLOW: Final = 4
_KEYCTL_JOIN_SESSION_KEYRING: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)

_INSTRUCTION: Final = struct.Struct("=HBBI")
Instruction = tuple[int, int, int, int]
"""Code, instructions to skip if true, instructions to skip if false, operand."""


@dataclass(frozen=True, slots=True)
class Architecture:
    audit: int
    """The kernel's value in `seccomp_data.arch`."""
    numbers: Mapping[str, int]

    def numbers_of(self, names: Iterable[str]) -> Sequence[int]:
        """Return the numbers of the calls that exist on this architecture."""
        return [self.numbers[name] for name in names if name in self.numbers]


def _numbers(column: int) -> Mapping[str, int]:
    return {name: number for name, row in NUMBERS.items() if (number := row[column]) is not None}


ARCHITECTURES: Final = {
    "x86_64": Architecture(0xC000003E, _numbers(0)),
    "aarch64": Architecture(0xC00000B7, _numbers(1)),
}


def architecture() -> Architecture | None:
    """Return this machine's architecture; None if we have no call numbers, and so no filter."""
    return ARCHITECTURES.get(platform.machine())


def program(arch: Architecture, *, set_id_files: bool) -> Sequence[Instruction]:
    """Return the filter. `set_id_files`: allow the set-user-ID and set-group-ID bits on files.

    Do not allow these bits if the session can write to a folder of the host. There, such a file
    would belong to a host user, and would run as that user when anybody on the host executes it.
    """
    words = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        # Kill 32-bit programs: their call numbers differ, and there are no rules for them.
        (_JUMP_EQUAL, 1, 0, arch.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        # ENOSYS, as from an older kernel, for newer calls than we know and for x32 calls, whose
        # numbers start at 1 << 30.
        (_JUMP_GREATER, 0, 1, LAST),
        _refuse(errno.ENOSYS),
    ]
    for number in arch.numbers_of(DENIED):
        words += _if_syscall(number, [_refuse(errno.EPERM)])
    for number in arch.numbers_of(REPORTED_AS_MISSING):
        words += _if_syscall(number, [_refuse(errno.ENOSYS)])
    for number in arch.numbers_of(("clone", "unshare")):
        words += _if_syscall(
            number, _refuse_if_bits(0, _NEW_NAMESPACES & ~_signal_bits(arch, number))
        )
    for number in arch.numbers_of(("socket", "socketpair")):
        words += _if_syscall(number, _allow_only(0, FAMILIES.values(), errno.EAFNOSUPPORT))
    for number in arch.numbers_of(("personality",)):
        words += _if_syscall(number, _allow_only(0, PERSONALITIES, errno.EPERM))
    if not set_id_files:
        words += _without_set_id(arch)
    return [*words, (_RETURN, 0, 0, _ALLOW)]


def confine(*, set_id_files: bool) -> None:
    """Apply the filter permanently to this process and its descendants. Also replace the session
    keyring, which was inherited from the parent, by a new, empty one.

    Requires `PR_SET_NO_NEW_PRIVS` to be set, or CAP_SYS_ADMIN.
    """
    here = architecture()
    if here is None:
        return
    joined = _libc.syscall(here.numbers["keyctl"], _KEYCTL_JOIN_SESSION_KEYRING, None)
    # ENOSYS: the kernel has no keyrings. EPERM: an outer filter blocks them. Both are fine.
    if joined < 0 and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        raise _failed("keyctl")
    code = assembled(set_id_files=set_id_files)
    held = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(held))
    # TSYNC: apply to all threads. SPEC_ALLOW: otherwise older kernels enable Spectre mitigations
    # that slow down every program.
    flags = _SECCOMP_FILTER_FLAG_TSYNC | _SECCOMP_FILTER_FLAG_SPEC_ALLOW
    if _libc.syscall(here.numbers["seccomp"], _SECCOMP_SET_MODE_FILTER, flags, header) != 0:
        raise _failed("seccomp")


@cache
def assembled(*, set_id_files: bool) -> bytes:
    """Return the filter of this machine in the kernel's format. The result is cached, so a zygote
    creates it once for all processes that it forks."""
    here = architecture()
    words = [] if here is None else program(here, set_id_files=set_id_files)
    return b"".join(_INSTRUCTION.pack(*word) for word in words)


def _without_set_id(arch: Architecture) -> list[Instruction]:
    words: list[Instruction] = []
    for name, index in _MODE_ARGUMENTS:
        for number in arch.numbers_of((name,)):
            words += _if_syscall(number, _refuse_if_bits(index, _SET_ID_BITS))
    for name, index in _FLAGS_ARGUMENTS:
        for number in arch.numbers_of((name,)):
            allow_unless_creating = [
                *_argument(index),
                (_JUMP_ANY_BIT, 1, 0, _CREATE_FLAGS),
                (_RETURN, 0, 0, _ALLOW),
            ]
            check_mode = _refuse_if_bits(index + 1, _SET_ID_BITS)
            words += _if_syscall(number, [*allow_unless_creating, *check_mode])
    # A filter cannot read the flags and mode of `openat2`, because they are behind a pointer. After
    # ENOSYS programs use `openat`.
    return words + _if_syscall(arch.numbers["openat2"], [_refuse(errno.ENOSYS)])


def _if_syscall(number: int, then: Sequence[Instruction]) -> list[Instruction]:
    """Return instructions that run `then` for one system call; `then` has to end in a return."""
    return [(_JUMP_EQUAL, 0, len(then), number), *then]


def _refuse_if_bits(index: int, bits: int) -> list[Instruction]:
    """Return instructions that refuse a call if its argument `index` has any of `bits`."""
    refuse = [(_JUMP_ANY_BIT, 0, 1, bits), _refuse(errno.EPERM)]
    return [*_argument(index), *refuse, (_RETURN, 0, 0, _ALLOW)]


def _allow_only(index: int, allowed: Iterable[int], error: int) -> list[Instruction]:
    """Return instructions that allow a call only with these values of its argument `index`."""
    values = list(allowed)
    # Each comparison jumps over the remaining comparisons and the refusal.
    comparisons = [
        (_JUMP_EQUAL, len(values) - position, 0, value) for position, value in enumerate(values)
    ]
    return [*_argument(index), *comparisons, _refuse(error), (_RETURN, 0, 0, _ALLOW)]


def _argument(index: int) -> list[Instruction]:
    """Load the lower 32 bits of an argument. In the arguments that we check, the upper 32 bits have
    no meaning."""
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index)]


def _signal_bits(arch: Architecture, number: int) -> int:
    """The bits of the flags argument that are a signal number, not flags: the lowest byte for
    `clone`, no bits (0) for `unshare`, whose lowest byte contains CLONE_NEWTIME."""
    return 0xFF if number == arch.numbers["clone"] else 0


def _refuse(error: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | error)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
