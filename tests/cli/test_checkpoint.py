"""`bascule checkpoint`: looking at a store, and restoring from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bascule.checkpoints import CheckpointStore
from bascule.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    (directory / "a.txt").write_text("one\n")
    (directory / "b.bin").write_bytes(b"\xff\x00")
    return directory


@pytest.fixture
def store(tmp_path: Path, workspace: Path) -> str:
    """Checkpoint 1: a text and a binary file were changed, a file was made."""
    with CheckpointStore(tmp_path / "store", workspace) as opened:
        number = opened.begin("agent", "make\nall")
        (workspace / "a.txt").write_text("two\n")
        (workspace / "b.bin").write_bytes(b"\xfe\x00")
        (workspace / "new.txt").write_text("new\n")
        opened.end(number)
    return str(tmp_path / "store")


def test_list_names_checkpoints_by_number_agent_and_title(store: str, capsys: Captured) -> None:
    assert main(["checkpoint", "list", "--store", store]) == 0
    assert "   1  " in (said := capsys.readouterr().out)
    assert said.endswith("agent: make\\nall, 3 files\n")

    assert main(["checkpoint", "list", "--json", "--store", store]) == 0
    (found,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert (found["id"], found["agent"], found["title"], found["files"]) == (
        *(1, "agent", "make\nall"),
        3,
    )


def test_show_lists_the_changed_files(store: str, capsys: Captured) -> None:
    assert main(["checkpoint", "show", "--store", store, "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["  M a.txt", "  M b.bin", "  A new.txt"]


def test_diff_shows_text_line_by_line(store: str, capsys: Captured) -> None:
    assert main(["checkpoint", "diff", "--store", store, "1"]) == 0
    said = capsys.readouterr().out
    assert "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n" in said
    assert "Binary files a/b.bin and b/b.bin differ\n" in said
    assert "--- /dev/null\n+++ b/new.txt\n" in said

    assert main(["checkpoint", "diff", "--store", store, "1", "new.txt"]) == 0
    assert "a.txt" not in capsys.readouterr().out


def test_restore_restores_files_and_lists_those_it_left_alone(
    store: str, workspace: Path, capsys: Captured
) -> None:
    (workspace / "new.txt").write_text("mine\n")

    assert main(["checkpoint", "restore", "--store", store, "1", "--dry-run"]) == 1
    assert capsys.readouterr().out == "would restore a.txt\nwould restore b.bin\n"
    assert (workspace / "a.txt").read_text() == "two\n"

    assert main(["checkpoint", "restore", "--store", store, "1"]) == 1
    said = capsys.readouterr()
    assert said.out == "restored a.txt\nrestored b.bin\n"
    assert "left alone: new.txt: it was changed since" in said.err
    assert f"To undo: bascule checkpoint restore 2 --store {store}" in said.err
    assert (workspace / "a.txt").read_text() == "one\n"

    assert main(["checkpoint", "restore", "--store", store, "2"]) == 0
    assert (workspace / "a.txt").read_text() == "two\n"


def test_restore_of_one_file_and_since_a_checkpoint(
    store: str, workspace: Path, capsys: Captured
) -> None:
    assert main(["checkpoint", "restore", "--store", store, "1", "a.txt"]) == 0
    assert (workspace / "b.bin").read_bytes() == b"\xfe\x00"
    assert main(["checkpoint", "restore", "--store", store, "1", "--since"]) == 0
    assert sorted(each.name for each in workspace.iterdir()) == ["a.txt", "b.bin"]
    capsys.readouterr()
    assert main(["checkpoint", "restore", "--store", store, "1", "--since"]) == 0
    assert "nothing had to be restored" in capsys.readouterr().err


def test_unknown_checkpoints_and_paths_are_reported(
    store: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["checkpoint", "list", "--store", str(tmp_path / "none")]) == 2
    assert "There is no checkpoint store in" in capsys.readouterr().err
    assert main(["checkpoint", "show", "--store", store, "7"]) == 2
    assert "There is no checkpoint 7" in capsys.readouterr().err
