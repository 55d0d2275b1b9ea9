"""Limits are written as the kernel reads them, in both versions of cgroups.

A tree of plain files stands in for the kernel's: what is written into which file is all there is
to see of version 2 on a machine that has version 1, and the other way round.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bascule.core.sessions import SessionLimits
from bascule.runtime.spawn.local.cgroups import CgroupsV1, CgroupsV2, find_cgroups

LIMITS = SessionLimits(memory=64 << 20, cpus=0.5, processes=20)


@pytest.fixture
def second(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    return tmp_path


@pytest.fixture
def first(tmp_path: Path) -> Path:
    for kind in ("memory", "cpu,cpuacct", "pids", "freezer"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "cgroup.procs").touch()
    for name in ("cpu", "cpuacct"):
        (tmp_path / name).symlink_to("cpu,cpuacct")
    return tmp_path


def test_cgroups_v2_is_detected_and_its_controllers_enabled(second: Path) -> None:
    cgroups, why = find_cgroups("ours", second)
    assert isinstance(cgroups, CgroupsV2), why
    for place in (second, second / "ours"):
        assert (place / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"


def test_cgroups_v2_sets_all_limits_in_one_group(second: Path) -> None:
    joins = CgroupsV2("ours", second).make("one", LIMITS)
    group = second / "ours" / "one"
    assert joins == [group / "cgroup.procs"]
    written = {file.name: file.read_text() for file in group.iterdir()}
    assert written == {"memory.max": "67108864", "cpu.max": "50000 100000", "pids.max": "20"}


def test_cgroups_v2_limits_swap_only_if_swap_accounting_exists(second: Path) -> None:
    group = second / "ours" / "one"
    group.mkdir(parents=True)
    (group / "memory.swap.max").write_text("max")
    CgroupsV2("ours", second).make("one", LIMITS)
    assert (group / "memory.swap.max").read_text() == "0"


def test_cgroups_v2_freezes_kills_and_reports_usage(second: Path) -> None:
    cgroups = CgroupsV2("ours", second)
    cgroups.make("one", LIMITS)
    group = second / "ours" / "one"
    (group / "cgroup.kill").touch()
    (group / "cgroup.procs").write_text("17\n4\n")
    (group / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (group / "memory.current").write_text("5000\n")
    (group / "memory.stat").write_text("anon 3000\ninactive_file 1500\n")
    (group / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (group / "pids.current").write_text("3\n")
    assert not cgroups.is_frozen("one")
    cgroups.freeze("one", on=True)
    assert (group / "cgroup.freeze").read_text() == "1"
    assert cgroups.is_frozen("one")
    cgroups.freeze("one", on=False)
    assert not cgroups.is_frozen("one")
    cgroups.kill("one")
    assert (group / "cgroup.kill").read_text() == "1"
    usage = cgroups.usage("one")
    assert (usage.cpu_seconds, usage.memory_bytes, usage.processes) == (2.5, 3500, 3)
    assert cgroups.kills_for_memory("one") == 1
    assert cgroups.processes("one") == {4, 17}
    assert cgroups.names() == ["one"]


def test_cgroups_v1_sets_limits_in_each_hierarchy(first: Path) -> None:
    cgroups, why = find_cgroups("ours", first)
    assert isinstance(cgroups, CgroupsV1), why
    joins = cgroups.make("one", LIMITS)
    assert len(joins) == 4, "cpu and cpuacct are one place"
    read = {
        name: (first / name / "ours" / "one" / file).read_text()
        for name, file in {
            "memory": "memory.limit_in_bytes",
            "cpu": "cpu.cfs_quota_us",
            "pids": "pids.max",
        }.items()
    }
    assert read == {"memory": "67108864", "cpu": "50000", "pids": "20"}
    cgroups.freeze("one", on=True)
    assert (first / "freezer" / "ours" / "one" / "freezer.state").read_text() == "FROZEN"
    assert cgroups.is_frozen("one")


@pytest.mark.parametrize("limits", [SessionLimits(memory=None, cpus=None, processes=None)])
def test_unset_limits_write_no_cgroup_file(second: Path, limits: SessionLimits) -> None:
    CgroupsV2("ours", second).make("one", limits)
    assert list((second / "ours" / "one").iterdir()) == []


def test_the_parent_cgroup_is_removed_with_the_last_group(second: Path) -> None:
    cgroups = CgroupsV2("ours", second)
    cgroups.make("one", SessionLimits(memory=None, cpus=None, processes=None))
    cgroups.remove("one")
    cgroups.remove("one")
    assert cgroups.names() == []
    assert cgroups.usage("one").processes == 0


def test_a_machine_without_cgroups_gets_the_reason(tmp_path: Path) -> None:
    cgroups, why = find_cgroups("ours", tmp_path)
    assert cgroups is None
    assert str(tmp_path) in why


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cgroup_tree_is_reported(second: Path) -> None:
    second.chmod(0o500)
    cgroups, why = find_cgroups("ours", second)
    assert cgroups is None
    assert "Permission denied" in why
