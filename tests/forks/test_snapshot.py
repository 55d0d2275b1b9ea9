"""A snapshot has every file and a git repository of its own, and leaves the source as it was."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bascule.core.errors import QuotaExceeded, StorageFailed
from bascule.forks.file_copy import copy_tree
from bascule.forks.snapshot import Snapshot, take_snapshot
from bascule.forks.tree_files import UNREAD, differing, list_tree, opened_tree
from tests.checkpoints.trees import git, git_picture, picture


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository with commits, a stash, a remote with a password, hooks and local changes."""
    root = tmp_path / "source"
    (root / "src").mkdir(parents=True)
    (root / "src/main.py").write_text("print(1)\n")
    (root / "cert.pem").write_text("a test certificate that is tracked\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    (root / "src/main.py").write_text("print(2)\n")
    git(root, "stash", "-q")
    git(root, "gc", "-q")
    (root / "staged").write_text("staged\n")
    git(root, "add", "staged")
    git(root, "commit", "-qm", "two")
    git(root, "config", "remote.origin.url", "https://ada:secret@example.org/x.git")
    git(root, "config", "core.fsmonitor", str(tmp_path / "program"))
    hook = root / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/witness\n")
    hook.chmod(0o755)
    (root / "src/main.py").write_text("print(3)\n")
    (root / "untracked").write_text("untracked\n")
    (root / "link").symlink_to("/etc/passwd")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o750)
    (root / "empty").mkdir()
    return root


def test_files_modes_times_and_links_are_copied(source: Path, tmp_path: Path) -> None:
    snapshot = take_snapshot(source, tmp_path / "base")
    assert picture(snapshot.tree) == picture(source)
    assert snapshot.left_out == {}
    fork = tmp_path / "fork"
    fork.mkdir()
    asyncio.run(copy_tree(snapshot.tree, fork))
    assert picture(fork) == picture(source)
    assert (fork / "src/main.py").stat().st_ino != (source / "src/main.py").stat().st_ino


def test_the_source_repository_is_not_touched(source: Path, tmp_path: Path) -> None:
    of_git, before = git_picture(source), picture(source)
    snapshot = take_snapshot(source, tmp_path / "base")
    fork = tmp_path / "fork"
    fork.mkdir()
    asyncio.run(copy_tree(snapshot.tree, fork))
    git(fork, "checkout", "-q", "-b", "work")
    git(fork, "commit", "-qam", "in the fork")
    git(fork, "gc", "-q", "--prune=now")
    assert git_picture(source) == of_git
    assert picture(source) == before
    assert not (tmp_path / "witness").exists()


def test_the_clone_is_complete_and_has_nothing_private(source: Path, tmp_path: Path) -> None:
    tree = take_snapshot(source, tmp_path / "base").tree
    before = git(source, "log", "--format=%H", "main")
    moved = source.rename(tmp_path / "elsewhere")  # the clone must not need it
    assert git(tree, "log", "--format=%H", "main") == before
    git(tree, "fsck", "--strict", "--no-dangling")
    assert git(tree, "status", "--porcelain") == git(
        moved, "-c", "core.fsmonitor=", "status", "--porcelain"
    )
    config = (tree / ".git/config").read_text()
    assert "secret" not in config
    assert "program" not in config
    assert "\tname = Ada" in config
    assert git(tree, "stash", "list") == ""
    assert not (tree / ".git/hooks").exists()
    assert not (tree / ".git/objects/info/alternates").exists()
    assert not any(
        each.stat().st_nlink > 1 for each in (tree / ".git").rglob("*") if each.is_file()
    )


def test_secrets_are_copied_only_on_request(source: Path, tmp_path: Path) -> None:
    (source / ".env").write_text("KEY=1\n")
    (source / "src/.ssh").mkdir()
    (source / "src/.ssh/id_ed25519").write_text("key\n")
    left_out = take_snapshot(source, tmp_path / "without").left_out
    reason = "its name is that of a secret"
    assert left_out == {".env": reason, "src/.ssh": reason}
    snapshot = take_snapshot(source, tmp_path / "with", with_secrets=True)
    assert snapshot.left_out == {}
    assert (snapshot.tree / "src/.ssh/id_ed25519").read_text() == "key\n"


def test_files_that_cannot_be_copied_are_reported(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(source / "sock"))
    listening.close()
    git(source, "worktree", "add", "-q", "tree")
    (source / "nested").mkdir()
    git(source / "nested", "init", "-q")
    (source / "nested/.git/objects/info/alternates").write_text(f"{source}/.git/objects\n")
    left_out = take_snapshot(source, tmp_path / "base").left_out
    assert left_out == {
        "pipe": "not a file, directory or link",
        "sock": "not a file, directory or link",
        "tree/.git": "its git repository is elsewhere",
        "tree/cert.pem": "its name is that of a secret",  # nobody knows that it is tracked
        "nested/.git": "its git repository needs another one (objects/info/alternates)",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read files of other users")
def test_private_files_of_other_users_are_left_out(source: Path, tmp_path: Path) -> None:
    (source / "theirs").write_text("private\n")
    (source / "public").write_text("public\n")
    os.chown(source / "theirs", 12345, 12345)
    os.chown(source / "public", 12345, 12345)
    (source / "theirs").chmod(0o600)
    snapshot = take_snapshot(source, tmp_path / "base")
    assert snapshot.left_out == {"theirs": "it belongs to another user"}
    assert (snapshot.tree / "public").exists()


def test_a_link_in_place_of_a_directory_is_not_followed(tmp_path: Path) -> None:
    source, private = tmp_path / "source", tmp_path / "private"
    source.mkdir()
    private.mkdir()
    (private / "key").write_text("private\n")
    (source / "objects").symlink_to(private)
    (source / ".git").symlink_to(private)
    tree = take_snapshot(source, tmp_path / "base").tree
    assert (tree / "objects").is_symlink()
    assert sorted(each.name for each in tree.iterdir()) == ["objects"]


def test_a_snapshot_that_was_not_finished_is_refused(source: Path, tmp_path: Path) -> None:
    take_snapshot(source, tmp_path / "base")
    (tmp_path / "base/snapshot.json").unlink()
    with pytest.raises(StorageFailed, match="snapshot base cannot be read"):
        Snapshot.read(tmp_path / "base")


def test_a_stopped_snapshot_ends_early(source: Path, tmp_path: Path) -> None:
    turns = iter([False, True])
    with pytest.raises(InterruptedError):
        take_snapshot(source, tmp_path / "base", is_stopped=lambda: next(turns))
    assert not (tmp_path / "base/snapshot.json").exists()


async def test_a_copy_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match=r"could not be copied: .*No such file"):
        await copy_tree(tmp_path / "missing", tmp_path / "target")


def test_only_changed_paths_differ_and_ignored_ones_do_not_count(
    source: Path, tmp_path: Path
) -> None:
    (source / ".gitignore").write_text("*.o\n/build/\n!keep.o\n")
    (source / "tracked.o").write_text("tracked\n")
    git(source, "add", "-f", "tracked.o", ".gitignore")
    snapshot = take_snapshot(source, tmp_path / "base")
    fork = tmp_path / "fork"
    fork.mkdir()
    asyncio.run(copy_tree(snapshot.tree, fork))
    assert stat.S_IMODE((fork / "run.sh").stat().st_mode) == 0o750
    (fork / "src/main.py").write_text("print(4)\n")
    (fork / "untracked").unlink()
    (fork / "tracked.o").write_text("changed\n")
    (fork / "a.o").write_text("ignored\n")
    (fork / "keep.o").write_text("kept\n")
    (fork / "node_modules").mkdir()
    (fork / "build").mkdir()
    (fork / "build/out").write_text("ignored\n")
    git(fork, "commit", "-qam", "nothing below .git counts")
    with opened_tree(fork) as root:
        listing = list_tree(root, snapshot.tracked)
    found = [path for path, _, _ in differing(snapshot.entries(), listing.entries)]
    assert found == ["keep.o", "src/main.py", "tracked.o", "untracked"]
    assert sorted(listing.ignored) == ["a.o", "build", "node_modules"]


@pytest.mark.slow
def test_a_repository_repacked_during_the_copy_is_copied_completely(
    source: Path, tmp_path: Path
) -> None:
    """Every object is there, whatever `git gc` moves while the copy is made."""
    for number in range(30):
        (source / "counter").write_text(f"{number}\n")
        git(source, "add", "counter")
        git(source, "commit", "-qm", str(number))
    packing = subprocess.Popen(
        ["git", "-c", "core.fsmonitor=", "gc", "-q", "--prune=now"],
        cwd=source,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    tree = take_snapshot(source, tmp_path / "base").tree
    packing.wait()
    git(tree, "fsck", "--no-dangling")
    assert len(git(tree, "log", "--format=%H").split()) == 32


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to own files as another user")
@pytest.mark.parametrize("place", ["ORIG_HEAD", "objects/x", "refs/heads/x", "index"])
def test_private_files_of_others_are_not_copied_as_part_of_git(tmp_path: Path, place: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q")
    theirs = source / ".git" / place
    theirs.write_text("private\n")
    os.chown(theirs, 12345, 12345)
    theirs.chmod(0o600)
    snapshot = take_snapshot(source, tmp_path / "base")
    assert not (snapshot.tree / ".git").exists()
    assert ".git" in snapshot.left_out


def test_sparse_files_stay_sparse(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "image").open("wb") as file:
        file.seek(32 << 20)
        file.write(b"data")
        file.truncate(64 << 20)
    copy = take_snapshot(source, tmp_path / "base").tree / "image"
    assert copy.read_bytes() == (source / "image").read_bytes()
    assert copy.stat().st_blocks * 512 < 1 << 20


def test_a_packed_stash_is_left_out(source: Path, tmp_path: Path) -> None:
    git(source, "stash", "-q")
    git(source, "pack-refs", "--all")
    assert "refs/stash" in (source / ".git/packed-refs").read_text()
    tree = take_snapshot(source, tmp_path / "base").tree
    assert "refs/stash" not in git(tree, "for-each-ref", "--format=%(refname)")


TOO_DEEP = "below 300 other directories, or its path is longer than 3072 bytes"


def deep(above: Path, levels: int) -> None:
    """Create nested directories, with a file in the innermost one."""
    here = os.open(above, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.mark.parametrize("place", ["refs/heads", "objects"])
def test_a_repository_with_very_deep_directories_is_left_out_and_named(
    source: Path, tmp_path: Path, place: str
) -> None:
    deep(source / ".git" / place, 320)
    snapshot = take_snapshot(source, tmp_path / "base")
    assert snapshot.left_out[".git"] == "its .git has directories below more than 64 others"
    assert not (snapshot.tree / ".git").exists()
    assert (snapshot.tree / "src/main.py").read_text() == "print(3)\n"


def test_a_repository_below_very_deep_directories_is_copied(source: Path, tmp_path: Path) -> None:
    way = "/".join(["d"] * 298)
    (tmp_path / "home" / way).mkdir(parents=True)
    source.rename(tmp_path / "home" / way / "source")
    deep(tmp_path / "home" / way / "source/.git/refs/heads", 60)
    snapshot = take_snapshot(tmp_path / "home", tmp_path / "base")
    assert snapshot.left_out == {f"{way}/source/src/main.py": TOO_DEEP}
    assert f"{way}/source" in snapshot.heads


@pytest.mark.parametrize("place", ["", ".git/refs/heads", "src"])
def test_a_workspace_with_too_many_files_is_refused(
    source: Path, tmp_path: Path, place: str
) -> None:
    fitting = sum(1 for _ in source.rglob("*"))
    take_snapshot(source, tmp_path / "base", max_files=fitting)
    for number in range(fitting):
        (source / place / f"empty-{number}").mkdir()
    with pytest.raises(QuotaExceeded, match=f"more than {fitting} files .* `max_fork_files`"):
        take_snapshot(source, tmp_path / "second", max_files=fitting)
    assert not (tmp_path / "second/snapshot.json").exists()


def test_a_non_file_in_place_of_a_git_file_does_not_abort_the_copy(tmp_path: Path) -> None:
    source, moved = tmp_path / "source", tmp_path / "moved"
    source.mkdir()
    (source / "file").write_text("x\n")
    git(source, "init", "-q")
    (source / ".git/info").mkdir(exist_ok=True)
    (source / ".git/info/exclude").touch()
    kinds: dict[str, Callable[[Path], None]] = {
        "link": lambda there: there.symlink_to(moved),
        "file": lambda there: there.touch(),
        "directory": lambda there: there.mkdir(),
        "pipe": os.mkfifo,
    }
    for place in ("refs", "HEAD", "info/exclude", "objects"):
        for kind, make in kinds.items():
            there = source / ".git" / place
            there.rename(moved)
            make(there)
            snapshot = take_snapshot(source, tmp_path / f"{place.replace('/', '-')}-{kind}")
            assert (snapshot.tree / "file").read_text() == "x\n"
            is_copied = (snapshot.tree / ".git").exists()
            assert (".git" in snapshot.left_out) is not is_copied, (place, kind)
            there.rmdir() if kind == "directory" else there.unlink()
            moved.rename(there)


@pytest.mark.parametrize("head", ["; touch /tmp/x", "$(id)", "--all", "0" * 41, "a" * 20])
def test_a_head_without_a_commit_yields_no_commit(tmp_path: Path, head: str) -> None:
    """It would become part of a command."""
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q", "-b", "main")
    (source / ".git/HEAD").write_text(f"{head}\n")
    assert take_snapshot(source, tmp_path / "base").heads == {"": ""}
    (source / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (source / ".git/refs/heads/main").write_text(f"{head}\n")
    assert take_snapshot(source, tmp_path / "second").heads == {"": ""}


def test_paths_that_the_kernel_rejects_are_left_out(tmp_path: Path) -> None:
    source, name = tmp_path / "source", "d" * 250
    source.mkdir()
    here = os.open(source, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    snapshot = take_snapshot(source, tmp_path / "base")
    assert snapshot.left_out == {"/".join([name] * 13): TOO_DEEP}
    (tmp_path / "fork").mkdir()
    asyncio.run(copy_tree(snapshot.tree, tmp_path / "fork"))
    with opened_tree(source) as root:
        entries = list_tree(root).entries
    assert [path for path, each in entries.items() if each is UNREAD] == ["/".join([name] * 13)]
    assert len(entries) == 13


def test_long_paths_count_as_several_files(tmp_path: Path) -> None:
    inner = tmp_path / "source" / ("d" * 200) / ("e" * 200)
    inner.mkdir(parents=True)
    for number in range(10):
        os.mkfifo(inner / str(number))
    take_snapshot(tmp_path / "source", tmp_path / "base", max_files=24)
    with pytest.raises(QuotaExceeded):
        take_snapshot(tmp_path / "source", tmp_path / "second", max_files=15)
