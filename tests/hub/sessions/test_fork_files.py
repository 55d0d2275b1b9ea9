"""The files of forks on disk: filled completely, compared with merged versions, and never lost."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.errors import StorageFailed
from bascule.core.sessions import SessionId, SessionSpec, WorkspaceSource
from bascule.forks import tree_files
from bascule.hub.sessions.fork_files import ForkFiles
from bascule.hub.sessions.rows import SessionRow
from tests.checkpoints.trees import git, picture


def row(name: str, source: WorkspaceSource) -> SessionRow:
    spec = SessionSpec(name=name, workspace=source)
    return SessionRow(
        id=SessionId(name),
        owner="a",
        created_by="a",
        spec=spec,
        created=0,
        updated=0,
        last_active=0,
    )


@pytest.fixture
def files(tmp_path: Path) -> ForkFiles:
    made = ForkFiles(tmp_path / "sessions", tmp_path / "bases")
    made.open()
    return made


@pytest.fixture
def home(tmp_path: Path) -> SessionRow:
    folder = tmp_path / "folder"
    (folder / "d").mkdir(parents=True)
    (folder / "d/a").write_text("a\n")
    (folder / "b").write_text("b\n")
    return row("home", WorkspaceSource(kind="folder", folder=str(folder)))


@pytest.fixture
def fork(files: ForkFiles, home: SessionRow, tmp_path: Path) -> SessionRow:
    files.take(home, "base", with_secrets=False)
    made = row("fork", WorkspaceSource(kind="fork", fork_of="home", base="base"))
    (tmp_path / "sessions/fork/workspace").mkdir(parents=True)
    asyncio.run(files.fill(made))
    return made


def test_a_workspace_partly_filled_by_a_killed_hub_is_filled_again(
    files: ForkFiles, home: SessionRow, fork: SessionRow
) -> None:
    workspace = files.workspace(fork)
    (workspace / "b").unlink()
    (workspace / "d/a").write_text("only a pa")
    (workspace / "leftover").write_text("x")
    asyncio.run(files.fill(fork))
    assert picture(workspace) == picture(files.workspace(home))
    assert files.changed_in_fork(fork) == []


def test_a_merged_path_counts_as_changed_only_after_a_new_change(
    files: ForkFiles, fork: SessionRow
) -> None:
    workspace = files.workspace(fork)
    (workspace / "b").write_text("new\n")
    (workspace / "d/a").unlink()
    sent = {each.change.path: each.merged_version for each in files.changes(fork)}
    assert [each.path for each in files.changed_in_fork(fork)] == ["b", "d/a"]
    files.record_merged(fork, sent)
    assert files.changed_in_fork(fork) == []
    (workspace / "b").write_text("newer\n")
    (workspace / "d/a").write_text("back\n")
    (b, a) = files.changes(fork)
    assert b.change.base is not None
    assert b.change.base.content == b"new\n"
    assert a.change.base is None
    files.record_merged(fork, {"b": b.merged_version})
    contents = files.sessions / "fork/merged/contents"
    assert len(os.listdir(contents)) == 1  # the content of the first merge is not needed any more


def test_a_dry_run_stores_nothing(files: ForkFiles, fork: SessionRow) -> None:
    (files.workspace(fork) / "b").write_text("new\n")
    assert [each.change.path for each in files.changes(fork, stores_contents=False)] == ["b"]
    assert not (files.sessions / "fork/merged").exists()


def test_a_file_too_large_to_send_is_named(
    files: ForkFiles, fork: SessionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_files, "MAX_FILE_BYTES", 1 << 20)
    (files.workspace(fork) / "b").write_bytes(bytes((1 << 20) + 1))
    (found,) = files.changes(fork)
    assert (found.change.path, found.problem) == ("b", "larger than 1 MiB")
    assert [each.path for each in files.changed_in_fork(fork)] == ["b"]


def test_files_too_deep_to_be_read_are_named_and_count_as_changes(
    files: ForkFiles, fork: SessionRow
) -> None:
    here = os.open(files.workspace(fork), os.O_RDONLY)
    for _ in range(310):
        os.mkdir("x", dir_fd=here)
        below = os.open("x", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (changed,) = files.changed_in_fork(fork)
    assert changed.path.count("/") == 300
    *_, found = files.changes(fork)
    assert (found.change.path, found.problem) == (changed.path, "its files are too deep")


def test_a_fork_with_a_damaged_snapshot_is_not_treated_as_unchanged(
    files: ForkFiles, fork: SessionRow
) -> None:
    (files.bases / "base/snapshot.json").write_text("{")
    with pytest.raises(StorageFailed):
        files.changed_in_fork(fork)
    gone = replace(fork, id=SessionId("gone"))
    with pytest.raises(StorageFailed):
        files.changed_in_fork(gone)


def test_a_folder_replaced_by_a_link_is_not_followed(
    files: ForkFiles, home: SessionRow, tmp_path: Path
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text("private\n")
    folder = files.workspace(home)
    folder.rename(tmp_path / "old")
    folder.symlink_to(private)
    with pytest.raises(StorageFailed):
        files.take(home, "base", with_secrets=False)


def test_a_merge_into_another_session_does_not_count_for_the_source(
    files: ForkFiles, fork: SessionRow
) -> None:
    (files.workspace(fork) / "b").write_text("new\n")
    sent = {each.change.path: each.merged_version for each in files.changes(fork, into="other")}
    files.record_merged(fork, sent, into="other")
    assert list(files.changes(fork, into="other")) == []
    assert [each.change.path for each in files.changes(fork)] == ["b"]
    assert [each.path for each in files.changed_in_fork(fork)] == ["b"]


def test_commits_of_a_branch_that_is_not_checked_out_are_found(
    files: ForkFiles, home: SessionRow, tmp_path: Path
) -> None:
    folder = files.workspace(home)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a")
    files.take(home, "base2", with_secrets=False)
    made = row("fork", WorkspaceSource(kind="fork", fork_of="home", base="base2"))
    (tmp_path / "sessions/fork/workspace").mkdir(parents=True)
    asyncio.run(files.fill(made))
    workspace = files.workspace(made)
    assert files.unmerged_branches(made) == []
    git(workspace, "switch", "-qc", "feature")
    (workspace / "new").write_text("work\n")
    git(workspace, "add", "new")
    git(workspace, "commit", "-qm", "work")
    assert files.unmerged_branches(made) == []
    git(workspace, "switch", "-q", "main")
    assert files.changed_in_fork(made) == []
    assert files.unmerged_branches(made) == [".git/refs/heads/feature"]
    git(workspace, "gc", "-q")
    assert files.unmerged_branches(made) == [".git/refs/heads/feature"]
