"""The filter of system calls: its rules, run as the kernel would, and its numbers."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from bascule.sandbox.session import seccomp
from bascule.sandbox.session.seccomp import ARCHITECTURES, Architecture, Instruction
from bascule.sandbox.session.system_calls import LAST, NUMBERS

ALLOW = 0x7FFF0000
KILL = 0x80000000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def run(words: Sequence[Instruction], number: int, arguments: Sequence[int], audit: int) -> int:
    """What a program of BPF returns; raises where the kernel would not take it."""
    data = {0: number, 4: audit}
    data |= {16 + 8 * at: value & 0xFFFFFFFF for at, value in enumerate(arguments)}
    at, held = 0, 0
    while True:
        code, if_true, if_false, operand = words[at]
        at += 1
        match code:
            case 0x20:
                held = data[operand]
            case 0x06:
                return operand
            case 0x15:
                at += if_true if held == operand else if_false
            case 0x25:
                at += if_true if held > operand else if_false
            case 0x45:
                at += if_true if held & operand else if_false
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


class Filter:
    def __init__(self, of: Architecture, *, set_id_files: bool) -> None:
        self._of = of
        self._words = seccomp.program(of, set_id_files=set_id_files)

    def __call__(self, call: str | int, *arguments: int) -> int:
        number = call if isinstance(call, int) else self._of.numbers[call]
        given = [*arguments, *[0] * (6 - len(arguments))]
        return run(self._words, number, given, self._of.audit)

    def of_another(self) -> int:
        return run(self._words, 1, [0] * 6, 0x40000003)


@pytest.fixture(params=list(ARCHITECTURES))
def here(request: pytest.FixtureRequest) -> Architecture:
    return ARCHITECTURES[request.param]


@pytest.fixture
def verdict(here: Architecture) -> Filter:
    return Filter(here, set_id_files=False)


def refused(error: int) -> int:
    return 0x00050000 | error


def test_every_listed_system_call_gets_its_documented_verdict(
    verdict: Filter, here: Architecture
) -> None:
    for name in seccomp.DENIED:
        if name in here.numbers:
            assert verdict(name) == refused(errno.EPERM), name
    for name in seccomp.REPORTED_AS_MISSING:
        assert verdict(name) == refused(errno.ENOSYS), name


def test_system_calls_without_a_rule_are_allowed(verdict: Filter, here: Architecture) -> None:
    ruled = set(here.numbers.values()) - {here.numbers["seccomp"]}
    for number in set(range(LAST + 1)) - ruled:
        assert verdict(number) == ALLOW, number


def test_newer_and_x32_system_calls_are_reported_as_missing(verdict: Filter) -> None:
    for number in (LAST + 1, 1000, 1 << 30, (1 << 30) + 39, 0xFFFFFFFF):
        assert verdict(number) == refused(errno.ENOSYS)


def test_a_program_of_another_architecture_is_ended(verdict: Filter) -> None:
    assert verdict.of_another() == KILL


def test_processes_and_threads_can_be_created_but_namespaces_cannot(verdict: Filter) -> None:
    a_thread, a_process = 0x3D0F00, 17
    assert verdict("clone", a_thread) == verdict("clone", a_process) == ALLOW
    assert verdict("clone", 0x80 | 17) == ALLOW  # here it is part of a signal's number
    assert verdict("unshare", 0x400) == ALLOW
    for bit in (17, 25, 26, 27, 28, 29, 30):
        assert verdict("clone", 1 << bit | 17) == refused(errno.EPERM)
        assert verdict("unshare", 1 << bit) == refused(errno.EPERM)
    assert verdict("unshare", 0x80) == refused(errno.EPERM)


def test_only_four_socket_families_are_allowed(verdict: Filter) -> None:
    allowed = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
    for family in range(64):
        answer = ALLOW if family in allowed else refused(errno.EAFNOSUPPORT)
        assert verdict("socket", family) == verdict("socketpair", family) == answer
    # The kernel looks at the lower half alone, and so do we.
    assert verdict("socket", 1 << 32 | 40) == refused(errno.EAFNOSUPPORT)


def test_personalities_that_weaken_security_are_rejected(verdict: Filter) -> None:
    for each in seccomp.PERSONALITIES:
        assert verdict("personality", each) == ALLOW
    for bit in (0x0400000, 0x0100000, 0x0200000 | 0x8):
        assert verdict("personality", bit) == refused(errno.EPERM)


def test_set_id_bits_are_rejected_in_every_call_with_a_mode(verdict: Filter) -> None:
    no = refused(errno.EPERM)
    for bits in (0o4755, 0o2755, 0o6000):
        assert verdict("fchmod", 3, bits) == verdict("fchmodat", 0, 0, bits) == no
        assert verdict("fchmodat2", 0, 0, bits, 0) == verdict("mknodat", 0, 0, bits) == no
        assert verdict("openat", 0, 0, os.O_CREAT | os.O_WRONLY, bits) == no
        assert verdict("openat", 0, 0, os.O_TMPFILE | os.O_RDWR, bits) == no
    assert verdict("fchmod", 3, 0o1777) == verdict("openat", 0, 0, os.O_CREAT, 0o1777) == ALLOW
    assert verdict("openat", 0, 0, os.O_RDONLY, 0o6755) == ALLOW  # a mode that nobody looks at
    assert verdict("openat2") == refused(errno.ENOSYS)


def test_set_id_bits_are_allowed_with_set_id_files_enabled(here: Architecture) -> None:
    verdict = Filter(here, set_id_files=True)
    for name in ("fchmod", "fchmodat", "fchmodat2", "mknodat", "openat", "openat2"):
        assert verdict(name, 0o6755, 0o6755, 0o6755, 0o6755) == ALLOW


def test_the_seccomp_filter_is_short_enough_for_the_kernel(here: Architecture) -> None:
    words = seccomp.program(here, set_id_files=False)
    assert len(words) < 4096
    assert all(0 <= skipped <= 255 for _, *skips, _ in words for skipped in skips)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_system_call_numbers_match_the_kernel_headers(name: str) -> None:
    if not HEADERS[name].exists():
        pytest.skip("the kernel's headers are not installed (linux-libc-dev)")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[name].read_text())
    known = {call: int(number) for call, number in found}
    ours = ARCHITECTURES[name].numbers
    newest = max(known.values())
    assert {call: n for call, n in ours.items() if n <= newest} == {
        call: known[call] for call, n in ours.items() if n <= newest
    }


def test_every_system_call_with_a_rule_has_a_number() -> None:
    ruled = {*seccomp.DENIED, *seccomp.REPORTED_AS_MISSING}
    assert ruled <= NUMBERS.keys()
