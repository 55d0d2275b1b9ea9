"""The temporary file of a killed merge is removed, and no other file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bascule.forks.apply import apply_changes
from bascule.forks.change_set import PathChange
from bascule.forks.merge_journal import merge_journal
from bascule.forks.merge_rules import PathVersion

_KILLED = """
import os, signal, sys
from pathlib import Path
from bascule.forks.apply import apply_changes
from bascule.forks.change_set import PathChange
from bascule.forks.merge_journal import merge_journal
from bascule.forks.merge_rules import PathVersion

os.rename = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
journal, home, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
with merge_journal(journal, home) as opened:
    change = PathChange("caf\\udce9/new", None, PathVersion(kind, b"text"))
    apply_changes(home, [change], journal=opened)
"""
DIRECTORY = os.fsdecode(b"caf\xe9")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / DIRECTORY).mkdir(parents=True)
    return tmp_path / "home"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "link"])
def test_the_file_of_a_killed_merge_is_removed_and_no_other(home: Path, kind: str) -> None:
    journal = home.parent / "merge.journal"
    mine = home / DIRECTORY / ".bascule-0123456789abcdef"
    mine.write_text("mine\n")
    done = subprocess.run([sys.executable, "-c", _KILLED, journal, home, kind], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(home / DIRECTORY)) == 2
    with merge_journal(journal, home) as opened:
        assert os.listdir(home / DIRECTORY) == [mine.name]
        apply_changes(
            home, [PathChange("a", None, PathVersion("file", b"a", 0o644))], journal=opened
        )
    assert mine.read_text() == "mine\n"
    assert (home / "a").read_text() == "a"
    assert journal.read_bytes() == b""


@pytest.mark.parametrize(
    "named",
    [
        "mine",
        ".bascule-notes",
        ".bascule-0123456789abcdef/file",
        "../.bascule-0123456789abcdef",
        "/{outside}/.bascule-0123456789abcdef",
        "{outside}/.bascule-0123456789abcdef",
        "way/.bascule-0123456789abcdef",
        ".git/.bascule-0123456789abcdef",
        "d/.bascule-0123456789abcdef",
        "\0",
        "",
    ],
)
def test_a_journal_cannot_name_other_files(home: Path, named: str) -> None:
    outside = home.parent
    for directory in (home, outside, home / ".git"):
        directory.mkdir(exist_ok=True)
        for name in ("mine", ".bascule-notes"):
            (directory / name).touch()
    (home / "way").symlink_to(outside)
    (home / ".bascule-0123456789abcdef").mkdir()
    (home / ".bascule-0123456789abcdef/file").touch()
    (home / "d/.bascule-0123456789abcdef").mkdir(parents=True)
    for directory in (outside, home / ".git"):
        (directory / ".bascule-0123456789abcdef").touch()
    before = sorted(outside.rglob("*"))
    journal = outside / "merge.journal"
    journal.write_text(named.format(outside=str(outside)[1:]))
    with merge_journal(journal, home):
        pass
    assert sorted([*before, journal]) == sorted(outside.rglob("*"))


def test_merges_with_one_journal_wait_for_each_other(home: Path) -> None:
    journal = home.parent / "merge.journal"
    began, order = threading.Event(), []

    def second() -> None:
        began.set()
        with merge_journal(journal, home):
            order.append("second")

    thread = threading.Thread(target=second)
    with merge_journal(journal, home) as opened:
        thread.start()
        assert began.wait(60)
        name = opened.temporary_in("")
        (home / name).touch()
        order.append("first")
        assert (home / name).exists()  # the second does not remove a file of a running merge
        (home / name).unlink()
    thread.join()
    assert order == ["first", "second"]
