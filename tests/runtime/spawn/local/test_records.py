"""A lock says that a sandbox lives, from the first moment of its start to the last of its life."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.sessions import Egress, SessionId
from bascule.runtime.spawn.local.records import (
    LockedRecord,
    SandboxRecord,
    SandboxRecords,
    UidLeases,
    claim,
)

ID = SessionId("abcdefgh")


@pytest.fixture
def records(tmp_path: Path) -> SandboxRecords:
    return SandboxRecords(tmp_path / "sandboxes")


def record() -> SandboxRecord:
    egress = Egress(mode="proxy", domains=["example.org"])
    return SandboxRecord(
        session_id=ID, uid=70001, run_dir="/run/x", is_isolated=True, egress=egress
    )


def in_a_fork(holds: int) -> tuple[int, int]:
    """A process that claims the lock and lives until the other number returned is closed."""
    told, tells = os.pipe()
    waits, lives = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(lives)
        claim(holds)
        os.write(tells, b".")
        os.read(waits, 1)
        os._exit(0)
    os.read(told, 1)
    for number in (told, tells, waits):
        os.close(number)
    return pid, lives


def test_a_record_is_held_while_any_process_has_its_lock(records: SandboxRecords) -> None:
    lock = records.take(record())
    assert lock is not None
    assert records.held(ID) == LockedRecord(record(), None), "somebody is starting it"
    assert records.take(record()) is None
    assert records.stale(ID) is None
    os.close(lock)
    assert records.held(ID) is None


def test_the_kernel_reports_which_process_holds_a_record(records: SandboxRecords) -> None:
    lock = records.take(record())
    assert lock is not None
    pid, lives = in_a_fork(lock)
    os.close(lock)
    held = records.held(ID)
    assert held is not None
    assert held.pid == pid
    os.close(lives)
    os.waitpid(pid, 0)
    assert records.held(ID) is None


def test_a_stale_record_is_claimed_by_only_one_cleaner(records: SandboxRecords) -> None:
    lock = records.take(record())
    assert lock is not None
    os.close(lock)
    found = records.stale(ID)
    assert found is not None
    assert found[1] == record()
    assert records.stale(ID) is None, "another has it"
    records.forget(ID, found[0])
    assert records.ids() == []
    assert records.stale(ID) is None


def test_a_held_record_can_be_updated(records: SandboxRecords) -> None:
    lock = records.take(record())
    assert lock is not None
    known = replace(record(), namespace=4026531836)
    records.write(known, lock)
    held = records.held(ID)
    assert held is not None
    assert held.record == known
    os.close(lock)


def test_no_uid_is_leased_twice_and_a_preferred_one_is_given_first(tmp_path: Path) -> None:
    leases = UidLeases(tmp_path / "uids", 100, 3)
    taken = [leases.take([102]), leases.take([102]), leases.take([5])]
    numbers = [lent[0] for lent in taken if lent is not None]
    assert numbers[0] == 102
    assert sorted(numbers) == [100, 101, 102]
    assert leases.take([]) is None
    assert taken[0] is not None
    os.close(taken[0][1])
    again = leases.take([])
    assert again is not None
    assert again[0] == 102
    for lent in (*taken[1:], again):
        assert lent is not None
        leases.tidy(lent[0])
        assert (tmp_path / "uids" / str(lent[0])).exists(), "it is lent"
        os.close(lent[1])
        leases.tidy(lent[0])
    assert list(tmp_path.iterdir()) == []
