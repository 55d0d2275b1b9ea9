"""`/etc` of sessions is a read-only tree of mounts, made anew when a file was replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes mounts")

PROGRAM = """
import os, sys
from pathlib import Path
from bascule.runtime.spawn.local import bind_mounts
from bascule.runtime.spawn.local.etc_tree import EtcTree

machine, stage = Path(sys.argv[1]), Path(sys.argv[2])
sources = {"/etc/zone": f"{machine}/zone", "/etc/ssl/certs": f"{machine}/certs"}
bind_mounts.open_stage(stage)
tree = EtcTree(stage / "etc", empty=["hosts"])

def show():
    tree.refresh(sources)
    shown = sorted(str(p.relative_to(stage / "etc")) for p in (stage / "etc").rglob("*"))
    zone = stage / "etc/zone"
    print(*shown, zone.read_text() if zone.exists() else "", os.stat(stage / "etc").st_dev)

show()
show()
Path(machine, "new").write_text("second")
Path(machine, "new").rename(machine / "zone")
show()
try:
    (stage / "etc/zone").write_text("changed")
except OSError as error:
    print(error.strerror)
(machine / "zone").unlink()
show()
"""

FAILS_ONCE = """
import sys
from pathlib import Path
from bascule.runtime.spawn.local import bind_mounts
from bascule.runtime.spawn.local.etc_tree import EtcTree

zone, stage = sys.argv[1], Path(sys.argv[2])
bind_mounts.open_stage(stage)
tree = EtcTree(stage / "etc", empty=[])
good, bad, other = ["/etc/zone"], ["/etc/zone", "/etc/zone/below"], ["/etc/a"]
for seen in (good, bad, other):
    try:
        tree.refresh(dict.fromkeys(seen, zone))
        print(*(path.name for path in (stage / "etc").iterdir()))
    except OSError as error:
        print(type(error).__name__)
"""


def test_a_replaced_etc_file_is_visible_and_none_can_be_changed(tmp_path: Path) -> None:
    machine, stage = tmp_path / "machine", tmp_path / "stage"
    (machine / "certs").mkdir(parents=True)
    stage.mkdir()
    (machine / "certs/a.pem").write_text("a")
    (machine / "zone").write_text("first")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, machine, stage], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    first, again, replaced, refused, removed = done.stdout.splitlines()
    assert first.startswith("hosts ssl ssl/certs ssl/certs/a.pem zone first ")
    assert again == first, "made anew, although nothing was replaced"
    assert replaced.startswith("hosts ssl ssl/certs ssl/certs/a.pem zone second ")
    assert refused == "Read-only file system"
    assert removed.startswith("hosts ssl ssl/certs ssl/certs/a.pem  ")
    assert list(stage.iterdir()) == [], "mounts are seen outside of the process"


def test_a_start_after_a_failed_one_rebuilds_the_etc_tree(tmp_path: Path) -> None:
    (tmp_path / "zone").write_text("a file, below which nothing can be shown")
    (tmp_path / "stage").mkdir()

    done = subprocess.run(
        [sys.executable, "-c", FAILS_ONCE, tmp_path / "zone", tmp_path / "stage"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines() == ["zone", "FileExistsError", "a"], done.stderr
