"""The temporary file of a killed merge is removed, and no other file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.core.errors import StorageFailed
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
def test_only_the_temporary_file_of_a_killed_merge_is_removed(home: Path, kind: str) -> None:
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


def test_a_merge_is_refused_while_another_one_runs(home: Path) -> None:
    """It must not remove the file that the other one is writing."""
    journal = home.parent / "merge.journal"
    with merge_journal(journal, home) as opened:
        name = opened.new_temporary_name("")
        (home / name).touch()
        with (
            pytest.raises(StorageFailed, match="Another merge into this workspace is running"),
            merge_journal(journal, home),
        ):
            pass
        assert (home / name).exists()


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_a_journal_path_that_is_not_a_regular_file_is_rejected(home: Path, kind: str) -> None:
    journal, other = home.parent / "merge.journal", home / "other"
    other.write_text("mine\n")
    if kind == "pipe":
        os.mkfifo(journal)
    elif kind == "link":
        journal.symlink_to(other)
    else:
        journal.mkdir()
    with (
        pytest.raises(StorageFailed, match="The journal of merges cannot be used"),
        merge_journal(journal, home),
    ):
        pass
    assert other.read_text() == "mine\n"
