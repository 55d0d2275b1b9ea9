"""Awkward files come back byte for byte, with mode, owner and time, whatever destroyed them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bascule.checkpoints import CheckpointLimits, CheckpointStore
from tests.checkpoints.awkward import AWKWARD, deep, large, make_all, make_socket
from tests.checkpoints.trees import git, git_picture, hard_links, picture

LIMITS = CheckpointLimits(file_bytes=128 << 20, free_disk_bytes=0)

# What an action may do to every file at once. `.git` is left out, so that its state can be
# compared too; a test of its own removes it.
DESTRUCTION = {
    "append": "find . -name .git -prune -o -type f ! -name file -exec sh -c "
    "'for each; do printf x >> \"$each\"; done' _ {} +",
    "rewrite in place": "find . -name .git -prune -o -type f -exec sh -c "
    "'for each; do : > \"$each\"; done' _ {} +",
    "rm -rf": "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +",
    "mv": "mkdir moved; find . -mindepth 1 -maxdepth 1 ! -name .git ! -name moved "
    "! -name 'nested-*' ! -name submodule -exec mv -t moved -- {} +",
    "sed -i": "find . -name .git -prune -o -type f -size -1000k -exec sed -i 's/^/x/' {} +",
    "chmod": "find . -mindepth 1 -name .git -prune -o ! -type l -exec chmod 777 {} +",
    "touch": "find . -mindepth 1 -name .git -prune -o -exec touch -h {} +",
    "git checkout": "git checkout -qf -b other; git rm -rqf --cached .; git clean -qfdx; "
    "git checkout -q main -- .",
    "kinds swapped": "rm -rf empty-directory nested-empty; touch empty-directory nested-empty; "
    "rm -f link key; mkdir link key; touch key/x; rm -f binary; ln -s key binary; "
    "rm pipe; touch pipe; rm -rf many; mkfifo many",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("awkward") / "workspace"
    directory.mkdir()
    make_all(directory)
    return directory


@pytest.fixture
def workspace(tmp_path: Path, original: Path) -> Iterator[Path]:
    copy = tmp_path / "workspace"
    subprocess.run(["cp", "-a", "--sparse=always", original, copy], check=True)
    git(copy, "status")  # so that the index knows the copies as clean files
    yield copy
    subprocess.run(["rm", "-rf", copy], check=True)


def test_the_table_of_awkward_files_has_at_least_40_entries() -> None:
    assert len(AWKWARD) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("destruction", DESTRUCTION)
def test_every_awkward_file_is_restored(tmp_path: Path, workspace: Path, destruction: str) -> None:
    with CheckpointStore(tmp_path / "store", workspace, LIMITS) as store:
        before, links = picture(workspace), hard_links(workspace)
        number = store.begin("agent", destruction)
        assert store.not_kept() == []
        subprocess.run(["sh", "-c", DESTRUCTION[destruction]], cwd=workspace, check=False)
        after, of_git = picture(workspace), git_picture(workspace)
        store.end(number)

        restored = store.restore(number, number)

        assert restored.conflicts == []
        assert differences(picture(workspace), before) == {}
        assert hard_links(workspace) == links
        assert git_picture(workspace) == of_git
        assert restored.id is not None
        assert store.restore(restored.id, restored.id).conflicts == []
        assert differences(picture(workspace), after) == {}


@pytest.mark.slow
def test_every_awkward_file_is_restored_after_edits(tmp_path: Path, workspace: Path) -> None:
    before = picture(workspace)
    files = [path for path in before if (workspace / path).is_file() and "/" not in path]
    with CheckpointStore(tmp_path / "store", workspace, LIMITS) as store:
        first = 0
        for path in files:
            number = store.begin("agent", "edit", paths=[path])
            first = first or number
            temporary = workspace / "temporary"
            temporary.write_bytes(b"edited")
            os.replace(temporary, workspace / path)
            store.end(number)

        restored = store.restore(first)

        assert restored.conflicts == []
        assert differences(picture(workspace), before) == {}


@pytest.mark.slow
def test_sparse_files_take_little_space_in_the_store_and_once_restored(
    tmp_path: Path, workspace: Path
) -> None:
    with CheckpointStore(tmp_path / "store", workspace, LIMITS) as store:
        number = store.begin("agent", "rm")
        (workspace / "sparse").unlink()
        store.end(number)
        store.restore(number, number)

    assert (workspace / "sparse").stat().st_size == 8 << 20
    assert (workspace / "sparse").stat().st_blocks * 512 < 3 << 20


@pytest.mark.slow
@pytest.mark.parametrize("text", ["rm large", "mv large moved", "sed -i 1d large", ": > large"])
def test_a_file_of_100_megabytes_is_restored(tmp_path: Path, text: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    large(workspace / "large")
    before = picture(workspace)
    with CheckpointStore(tmp_path / "store", workspace, LIMITS) as store:
        number = store.begin("agent", text)
        subprocess.run(["sh", "-c", text], cwd=workspace, check=True)
        store.end(number)

        assert store.restore(number, number).conflicts == []

    assert picture(workspace) == before


def test_a_moved_repository_stays_moved_and_its_files_are_restored(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    AWKWARD["nested-repository"](workspace / "nested")
    with CheckpointStore(tmp_path / "store", workspace, LIMITS) as store:
        number = store.begin("agent", "mv nested moved")
        (workspace / "nested").rename(workspace / "moved")
        recorded = store.end(number)

        restored = store.restore(number, number)

    assert "repository of nested was removed" in recorded.notes[0]
    assert [(each.path, each.reason) for each in restored.conflicts] == [
        ("moved", "the directory is not empty")
    ]
    assert sorted(os.listdir(workspace / "moved")) == [".git"]
    assert sorted(os.listdir(workspace / "nested")) == ["file", "untracked"]


def test_a_socket_is_named_as_not_kept(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    with (
        make_socket(workspace / "socket"),
        CheckpointStore(tmp_path / "store", workspace, LIMITS) as store,
    ):
        number = store.begin("agent", "rm")
        assert [(each.path, each.reason) for each in store.not_kept()] == [
            ("socket", "a socket, which has no content to keep")
        ]
        (workspace / "socket").unlink()
        store.end(number)

        restored = store.restore(number, number)

        assert [(each.path, each.reason) for each in restored.conflicts] == [
            ("socket", "its earlier content was not kept")
        ]


def test_a_path_longer_than_path_max_is_restored(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    deep(workspace / "deep", levels=40, length=200)
    with CheckpointStore(tmp_path / "store", workspace, LIMITS) as store:
        number = store.begin("agent", "rm")
        subprocess.run(["rm", "-r", workspace / "deep"], check=True)
        assert len(store.end(number).changes) == 42

        restored = store.restore(number, number)

        assert restored.conflicts == []
        assert len(restored.paths) == 42
    subprocess.run(["rm", "-r", workspace / "deep"], check=True)


def restore_in_closed_directories(workspace: Path, store: Path) -> str:
    with CheckpointStore(store, workspace, LIMITS) as opened:
        number = opened.begin("agent", "rm")
        not_kept = [(each.path, each.reason) for each in opened.not_kept()]
        (workspace / "closed").chmod(0o700)
        (workspace / "closed/file").unlink()
        (workspace / "closed").chmod(0o555)
        (workspace / "hidden").chmod(0)
        opened.end(number)
        return f"{not_kept} {opened.restore(number, number).conflicts}"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_without_root_unreadable_files_are_named_and_closed_directories_restored(
    short_path: Path,
) -> None:
    short_path.chmod(0o755)  # for the other user, who cannot enter the directories of tmp_path
    workspace = short_path / "w"
    for name in ("closed", "hidden"):
        (workspace / name).mkdir(parents=True)
        (workspace / name / "file").write_text("text")
    (workspace / "unreadable").write_text("secret")
    (workspace / "unreadable").chmod(0)
    (workspace / "closed").chmod(0o555)
    subprocess.run(["chown", "-R", "65534:65534", workspace], check=True)
    (short_path / "store").mkdir()
    os.chown(short_path / "store", 65534, 65534)
    before = picture(workspace)
    # A file that changed within the resolution of timestamps would have to be read again.
    time.sleep(0.05)

    told = as_nobody(restore_in_closed_directories, workspace, short_path / "store")

    assert told == "[('unreadable', 'permission denied')] []"
    assert picture(workspace) == before


def as_nobody(work: Callable[[Path, Path], str], *arguments: Path) -> str:
    """Call a function in a child process that is not root."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, work(*arguments).encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


@pytest.mark.slow
def test_a_shadow_git_repository_loses_files_that_the_store_keeps(
    tmp_path: Path, workspace: Path
) -> None:
    """The reason for a store of our own, and a check that the table is awkward indeed."""
    shadow = tmp_path / "shadow"
    git(tmp_path, "init", "-q", "--bare", str(shadow))
    here = [f"--git-dir={shadow}", f"--work-tree={workspace}"]
    with pytest.raises(subprocess.CalledProcessError):
        git(workspace, *here, "add", "-A")
    subprocess.run(["rm", "-rf", workspace / "nested-without-commit"], check=True)
    before = picture(workspace)
    git(workspace, *here, "add", "-A")
    subprocess.run(["sh", "-c", DESTRUCTION["rm -rf"]], cwd=workspace, check=True)
    git(workspace, *here, "checkout-index", "-a", "-f")

    after = picture(workspace)
    missing = set(before) - set(after)
    contents = {path for path in after if after[path][4] != before[path][4]}
    modes = {path for path in after if after[path][0] != before[path][0]}
    assert {".env", "ignored-directory", "module.pyc", "empty-directory", "pipe"} <= missing
    assert "nested-repository/file" in missing
    assert {"mixed.mixed", "keyword.ident"} <= contents
    assert {"key", "read-only", "setuid"} <= modes
    assert hard_links(workspace) == []


def differences(
    found: dict[str, tuple[object, ...]], wanted: dict[str, tuple[object, ...]]
) -> dict[str, tuple[object, object]]:
    """By path, so that a failure names the files."""
    paths = found.keys() | wanted.keys()
    return {
        path[-60:]: (found.get(path), wanted.get(path))
        for path in paths
        if found.get(path) != wanted.get(path)
    }
