"""The system calls that programs of a session cannot make: a seccomp filter, written as BPF.

A session has no capability, but a user namespace of its own would give it all of them over the
network, mounts and file systems of that namespace: code of the kernel that is seldom tried by
others. So namespaces cannot be made, nor can the other interfaces be used that few programs need
and that were often broken (io_uring, eBPF, keyrings, odd socket families). Debuggers work.

`docs/decisions/0007-a-session-is-never-the-hosts-root.md` has the reasons for each.
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
    # Kernel keyrings: those of the person who started the hub may be among them.
    *("keyctl", "add_key", "request_key"),
    # The machine itself.
    *("reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm"),
    # Looking into the kernel, or steering it.
    *("bpf", "perf_event_open", "userfaultfd", "lookup_dcookie"),
    # Old interfaces, and ways past the paths and descriptors that a process has.
    *("modify_ldt", "uselib", "open_by_handle_at", "pidfd_getfd"),
)
"""Answered with EPERM."""

UNKNOWN: Final = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")
"""Answered with ENOSYS, upon which programs use what was there before: epoll, and `clone`, whose
flags a filter can read."""

FAMILIES: Final = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
"""Sockets of others (AF_VSOCK reaches the hypervisor, AF_ALG the kernel's ciphers, AF_PACKET the
wire) answer EAFNOSUPPORT."""

PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, 0x40000, 0x40008, 0xFFFFFFFF)
"""None, 32 bits, an old version, no random addresses (as debuggers ask for), and which it is."""

_NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET, _NEWTIME; the last shares
its bit with the signal of `clone`, where 0x80 is no signal."""
_SET_ID: Final = 0o6000
_CREATES: Final = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: only with these is a mode looked at."""
_MODE_AT: Final = (
    *(("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)),
    *(("creat", 1), ("mknod", 1), ("mknodat", 2)),
)
_FLAGS_AT: Final = (("open", 1), ("openat", 2))

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
"""Code, how many to skip if true and if false, operand."""


@dataclass(frozen=True, slots=True)
class Architecture:
    audit: int
    """How the kernel calls it in `seccomp_data.arch`."""
    numbers: Mapping[str, int]

    def of(self, names: Iterable[str]) -> Sequence[int]:
        """Those that it has."""
        return [self.numbers[name] for name in names if name in self.numbers]


def _numbers(column: int) -> Mapping[str, int]:
    return {name: number for name, row in NUMBERS.items() if (number := row[column]) is not None}


ARCHITECTURES: Final = {
    "x86_64": Architecture(0xC000003E, _numbers(0)),
    "aarch64": Architecture(0xC00000B7, _numbers(1)),
}


def architecture() -> Architecture | None:
    """This machine's; None: we have no numbers for it, and there is no filter."""
    return ARCHITECTURES.get(platform.machine())


def program(of: Architecture, *, set_id_files: bool) -> Sequence[Instruction]:
    """`set_id_files`: whether files can be given the set-user-ID and set-group-ID bits. In a folder
    of the host such a file would be its owner's, and run as that user by whoever runs it there."""
    words = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        # Programs of 32 bits have other numbers, for which there are no rules.
        (_JUMP_EQUAL, 1, 0, of.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        # Later ones than we know, as an older kernel would; and those of x32, from 1 << 30 on.
        (_JUMP_GREATER, 0, 1, LAST),
        _refuse(errno.ENOSYS),
    ]
    for number in of.of(DENIED):
        words += _for(number, [_refuse(errno.EPERM)])
    for number in of.of(UNKNOWN):
        words += _for(number, [_refuse(errno.ENOSYS)])
    for number in of.of(("clone", "unshare")):
        words += _for(number, _unless_bits(0, _NEW_NAMESPACES & ~_signal_bits(of, number)))
    for number in of.of(("socket", "socketpair")):
        words += _for(number, _only(0, FAMILIES.values(), errno.EAFNOSUPPORT))
    for number in of.of(("personality",)):
        words += _for(number, _only(0, PERSONALITIES, errno.EPERM))
    if not set_id_files:
        words += _without_set_id(of)
    return [*words, (_RETURN, 0, 0, _ALLOW)]


def confine(*, set_id_files: bool) -> None:
    """Hold this process and all it starts to the filter, for good, and leave the keyring of whoever
    started us. Needs no new privileges (`PR_SET_NO_NEW_PRIVS`) or CAP_SYS_ADMIN."""
    here = architecture()
    if here is None:
        return
    joined = _libc.syscall(here.numbers["keyctl"], _KEYCTL_JOIN_SESSION_KEYRING, None)
    # Where there are no keyrings, or a filter around us keeps them from us, there is none to leave.
    if joined < 0 and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        raise _failed("keyctl")
    code = assembled(set_id_files=set_id_files)
    held = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(held))
    # All threads at once; and without the second, older kernels would slow down every program by
    # what they do against Spectre.
    flags = _SECCOMP_FILTER_FLAG_TSYNC | _SECCOMP_FILTER_FLAG_SPEC_ALLOW
    if _libc.syscall(here.numbers["seccomp"], _SECCOMP_SET_MODE_FILTER, flags, header) != 0:
        raise _failed("seccomp")


@cache
def assembled(*, set_id_files: bool) -> bytes:
    """The filter of this machine, as the kernel takes it. A zygote has it made once."""
    here = architecture()
    words = [] if here is None else program(here, set_id_files=set_id_files)
    return b"".join(_INSTRUCTION.pack(*word) for word in words)


def _without_set_id(of: Architecture) -> list[Instruction]:
    words: list[Instruction] = []
    for name, at in _MODE_AT:
        for number in of.of((name,)):
            words += _for(number, _unless_bits(at, _SET_ID))
    for name, at in _FLAGS_AT:
        for number in of.of((name,)):
            creates = [*_argument(at), (_JUMP_ANY_BIT, 1, 0, _CREATES), (_RETURN, 0, 0, _ALLOW)]
            words += _for(number, [*creates, *_unless_bits(at + 1, _SET_ID)])
    # Its flags and mode are behind a pointer. Programs then use `openat`.
    return words + _for(of.numbers["openat2"], [_refuse(errno.ENOSYS)])


def _for(number: int, then: Sequence[Instruction]) -> list[Instruction]:
    """`then` has to end in a return."""
    return [(_JUMP_EQUAL, 0, len(then), number), *then]


def _unless_bits(at: int, bits: int) -> list[Instruction]:
    refused = [(_JUMP_ANY_BIT, 0, 1, bits), _refuse(errno.EPERM)]
    return [*_argument(at), *refused, (_RETURN, 0, 0, _ALLOW)]


def _only(at: int, allowed: Iterable[int], error: int) -> list[Instruction]:
    values = list(allowed)
    found = [(_JUMP_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*_argument(at), *found, _refuse(error), (_RETURN, 0, 0, _ALLOW)]


def _argument(at: int) -> list[Instruction]:
    """The lower half: each that we look at is an `int` to the kernel, which ignores the rest."""
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * at)]


def _signal_bits(of: Architecture, number: int) -> int:
    """The lowest byte of the flags of `clone` is a signal; `unshare` has CLONE_NEWTIME there."""
    return 0xFF if number == of.numbers["clone"] else 0


def _refuse(error: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | error)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
