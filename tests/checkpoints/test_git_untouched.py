"""No byte and no time below any `.git` changes, whatever checkpoints and restores do."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from bascule.checkpoints import CheckpointStore
from bascule.checkpoints.git_index import parse_index
from tests.checkpoints.trees import git, git_picture, picture


def make_repository(directory: Path, files: int) -> None:
    directory.mkdir(exist_ok=True)
    for number in range(files):
        (directory / f"{number}.txt").write_text(f"text {number}\n")
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "all")


@pytest.mark.slow
def test_one_hundred_checkpoints_and_restores_do_not_change_the_git_directory(
    store: CheckpointStore, workspace: Path
) -> None:
    make_repository(workspace, 250)
    make_repository(workspace / "nested", 3)
    git(workspace, "worktree", "add", "-q", "tree")
    git(workspace, "gc", "-q")
    (workspace / "0.txt").write_text("dirty\n")
    # Another process is about to write the index, and keeps it locked all the time.
    (workspace / ".git/index.lock").write_text("")
    of_git, before = git_picture(workspace), picture(workspace)
    for turn in range(100):
        number = store.begin("agent", f"turn {turn}")
        (workspace / f"{turn}.txt").write_text("changed\n")
        (workspace / f"nested/{turn % 3}.txt").unlink()
        (workspace / f"tree/{turn}.txt").unlink()
        (workspace / "new").mkdir()
        (workspace / "new/file").write_text("new\n")
        store.end(number)
        assert store.restore(number, number).conflicts == []

    assert git_picture(workspace) == of_git
    assert picture(workspace) == before


def test_checkpoints_run_no_hooks_or_commands_from_git_configuration(
    store: CheckpointStore, workspace: Path, tmp_path: Path
) -> None:
    make_repository(workspace, 250)
    witness = tmp_path / "witness"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {witness}\ncat\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "filter.x.smudge", "filter.x.clean"):
        git(workspace, "config", key, str(program))
    for key, value in (("remote.origin.url", f"ext::{program}"), ("remote.origin.promisor", "1")):
        git(workspace, "config", key, value)
    (workspace / ".gitattributes").write_text("* filter=x\n")
    (workspace / ".git/objects/info/alternates").write_text(f"{tmp_path}/nowhere\n")
    witness.unlink(missing_ok=True)

    number = store.begin("agent", "rm")
    subprocess.run("rm -f *.txt", shell=True, cwd=workspace, check=True)
    store.end(number)
    assert store.restore(number, number).conflicts == []

    assert not witness.exists()


def test_a_repository_elsewhere_is_not_read(
    store: CheckpointStore, workspace: Path, tmp_path: Path
) -> None:
    """An agent could otherwise have objects copied that only the store may read."""
    make_repository(tmp_path / "elsewhere", 250)
    subprocess.run(["cp", "-a", f"{tmp_path}/elsewhere/.", workspace], check=True)
    subprocess.run(["rm", "-r", workspace / ".git"], check=True)
    (workspace / ".git").write_text(f"gitdir: {tmp_path}/elsewhere/.git\n")
    store.begin("agent", "ls")
    assert not list((tmp_path / "store/git").glob("objects/*/*"))

    (workspace / ".git").unlink()
    (workspace / ".git").symlink_to(tmp_path / "elsewhere/.git")
    for number in range(250):
        os.utime(workspace / f"{number}.txt")
    store.begin("agent", "ls")
    assert not list((tmp_path / "store/git").glob("objects/*/*"))


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_index_is_read_as_git_reads_it(workspace: Path, version: int) -> None:
    make_repository(workspace, 30)
    (workspace / "deep/er").mkdir(parents=True)
    (workspace / ("deep/er/" + "n" * 200)).write_text("x")
    (workspace / os.fsdecode(b"bad\xff")).write_text("x")
    git(workspace, "add", "-A")
    if version == 3:
        (workspace / "later").write_text("x")
        git(workspace, "add", "--intent-to-add", "later")
    git(workspace, "update-index", f"--index-version={version}")
    listed = git(workspace, "ls-files", "-z", "--stage").split("\0")[:-1]
    wanted = {line.partition("\t")[2]: line.split(" ")[1] for line in listed}

    data = (workspace / ".git/index").read_bytes()
    entries = parse_index(data)

    assert data[7] == version
    assert {path: entry.object_name.hex() for path, entry in entries.items()} == wanted
    for path, entry in entries.items():
        found = (workspace / path).stat()
        if path != "later":
            assert (entry.size, entry.mtime_ns, entry.ctime_ns, entry.inode & 0xFFFFFFFF) == (
                found.st_size,
                found.st_mtime_ns,
                found.st_ctime_ns,
                found.st_ino & 0xFFFFFFFF,
            )


def test_an_unreadable_git_index_is_ignored(workspace: Path) -> None:
    make_repository(workspace, 30)
    data = (workspace / ".git/index").read_bytes()
    assert len(parse_index(data)) == 30
    for damaged in (b"", b"DIRC", data[:100], b"x" * 500, data[:7] + b"\x09" + data[8:]):
        assert parse_index(damaged) == {}

    git(workspace, "update-index", "--split-index")
    assert parse_index((workspace / ".git/index").read_bytes()) == {}


def test_an_index_with_sha256_object_names_is_not_misread(workspace: Path) -> None:
    git(workspace, "init", "-q", "--object-format=sha256")
    for number in range(30):
        (workspace / f"{number}.txt").write_text(f"text {number}\n")
    git(workspace, "add", "-A")

    entries = parse_index((workspace / ".git/index").read_bytes())

    assert not {f"{number}.txt" for number in range(30)} & entries.keys()


@pytest.mark.parametrize(
    ("attributes", "is_copied"),
    [
        ("*.txt filter=rot\n", True),
        ("*.txt working-tree-encoding=UTF-16\n", True),
        ("[attr]odd filter=rot\n*.txt odd\n", True),
        ("*.bin filter=lfs\n", False),
        ("*.txt text=auto\n", False),
    ],
)
def test_files_that_a_filter_may_have_changed_are_copied(
    store: CheckpointStore, workspace: Path, attributes: str, is_copied: bool
) -> None:
    make_repository(workspace, 250)
    (workspace / ".gitattributes").write_text(attributes)
    later = (workspace / ".git/index").stat().st_mtime_ns + 1_000_000_000
    os.utime(workspace / ".git/index", ns=(later, later))

    store.begin("agent", "ls")

    assert (store.used_bytes() > 250 * 4096) is is_copied


def test_an_index_with_ever_longer_names_is_rejected() -> None:
    """In version 4 each name extends the previous one, so a small index could hold gigabytes."""
    entry = struct.pack(">10I20sH", *[0] * 10, b"", 0)
    longer = entry + b"\0" + b"a" * 100 + b"\0"
    data = struct.pack(">4sII", b"DIRC", 4, 500) + longer * 500 + bytes(20)
    assert parse_index(data) == {}
