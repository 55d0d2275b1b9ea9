"""Busy cores are busy only as long as somebody wants them to be."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import processes
from benchmarks.spinning import spinning

pytestmark = pytest.mark.slow

HOLDER = """
import sys
from benchmarks.spinning import spinning
with spinning(spare={spare}):
    print("spinning", flush=True)
    sys.stdin.read()
"""


def test_the_spinner_keeps_all_cores_busy_except_spare_ones() -> None:
    before = _children(os.getpid())
    with spinning(spare=1):
        loops = _children(os.getpid()) - before
        assert len(loops) == len(os.sched_getaffinity(0)) - 1

    assert not _children(os.getpid()) & loops


def test_the_loops_end_when_their_owner_is_killed(project: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(spare=0)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=project,
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        owner.stdout.readline()
        handles = [os.pidfd_open(pid) for pid in _children(owner.pid)]

        owner.send_signal(signal.SIGKILL)
        owner.wait()

    assert handles
    for handle in handles:
        _wait_for_end(handle)


def _children(pid: int) -> frozenset[int]:
    return processes.family(pid, mark="nobody") - {pid}


def _wait_for_end(handle: int) -> None:
    """A pidfd is readable once its process has ended; the loop looks every fraction of a second."""
    ready, _, _ = select.select([handle], [], [], 30)
    os.close(handle)
    assert ready
