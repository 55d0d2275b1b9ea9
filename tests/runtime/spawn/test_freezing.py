"""The order in which processes are stopped, whatever the machine does meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bascule.runtime.spawn import freezing
from bascule.sandbox.process_table import ProcessInfo

PARENT, CHILD = 10, 11


class Machine:
    """A parent and its child. A process that was sent SIGSTOP shows it after `delay` seconds."""

    def __init__(self, delay: float, busy: Mapping[int, str] | None = None) -> None:
        self.now = 0.0
        self.delay = delay
        self.busy = busy or {}
        self.signalled: dict[int, float] = {}

    def processes(self) -> dict[int, ProcessInfo]:
        found = [self.info(PARENT), self.info(CHILD)]
        return {each.pid: each for each in found}

    def info(self, pid: int) -> ProcessInfo:
        parent = {PARENT: 1, CHILD: PARENT}[pid]
        info = ProcessInfo(pid, parent, 1, -1, -1, self.busy.get(pid, "S"), 0, 0)
        is_stopped = self.now >= self.signalled.get(pid, float("inf")) + self.delay
        return replace(info, state="T") if is_stopped and pid not in self.busy else info

    def signal(self, pid: int, number: signal.Signals) -> None:
        assert number is signal.SIGSTOP
        self.signalled.setdefault(pid, self.now)

    def sleep(self, _seconds: float) -> None:
        self.now += 0.5

    def monotonic(self) -> float:
        self.now += 0.01
        return self.now


def freeze(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezing, "monotonic", machine.monotonic)
    monkeypatch.setattr(freezing, "sleep", machine.sleep)
    monkeypatch.setattr(freezing, "signal_one", machine.signal)
    monkeypatch.setattr(freezing, "process_info", machine.info)
    freezing.freeze(machine.processes)


def test_on_a_busy_machine_no_child_is_stopped_before_its_parent_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(delay=8.0)
    freeze(machine, monkeypatch)
    assert machine.signalled[CHILD] >= machine.signalled[PARENT] + machine.delay
    assert all(each.is_stopped for each in machine.processes().values())


def test_a_child_does_not_wait_for_a_parent_that_cannot_be_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A parent in `vfork` waits for its child: it stops when the child continues."""
    machine = Machine(delay=0.0, busy={PARENT: "D"})
    freeze(machine, monkeypatch)
    assert machine.signalled.keys() == {PARENT, CHILD}
    assert machine.signalled[CHILD] <= 1.0
    assert machine.info(CHILD).is_stopped
