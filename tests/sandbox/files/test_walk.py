"""Walking a tree, and leaving out what git would."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import tempfile
from pathlib import Path

import pytest

from bascule.core.ignore_rules import parse_rules
from bascule.sandbox.files.walk import walk_files


def walked(root: Path, *, include_ignored: bool = False) -> list[str]:
    directory = os.open(root, os.O_RDONLY)
    try:
        return [found.path for found in walk_files(directory, include_ignored=include_ignored)]
    finally:
        os.close(directory)


def plant(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_a_walk_yields_files_in_name_order(tmp_path: Path) -> None:
    plant(tmp_path, "b", "a/y", "a/x/z", "a.txt", "B", ".h")

    assert walked(tmp_path) == [".h", "B", "a/x/z", "a/y", "a.txt", "b"]


def test_a_walk_skips_symlinks_pipes_and_version_control(tmp_path: Path) -> None:
    plant(tmp_path, "a", ".git/config", "sub/.hg/x", "sub/f")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe")

    assert walked(tmp_path, include_ignored=True) == ["a", "sub/f"]


def test_ignore_rules_apply_below_their_file(tmp_path: Path) -> None:
    plant(tmp_path, "x.log", "a/x.log", "a/keep.log", "a/b/keep.log", "c/x.log", "build/o", "a/n")
    (tmp_path / ".gitignore").write_text("*.log\n/build\n")
    (tmp_path / "a" / ".gitignore").write_text("!keep.log\n/n\n")

    assert walked(tmp_path) == [".gitignore", "a/.gitignore", "a/b/keep.log", "a/keep.log"]
    assert "build/o" in walked(tmp_path, include_ignored=True)


def test_ignore_rules_of_parent_directories_apply_up_to_the_repository_root(tmp_path: Path) -> None:
    plant(tmp_path, "repo/.git/HEAD", "repo/src/a.txt", "repo/src/b.log", "repo/src/out/x")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "repo" / ".gitignore").write_text("*.log\n/src/out\n")

    assert walked(tmp_path / "repo" / "src") == ["a.txt"]


def test_ignore_rules_of_an_outer_repository_do_not_apply_in_an_inner_one(tmp_path: Path) -> None:
    plant(tmp_path, "a.log", "inner/.git/HEAD", "inner/a.log")
    (tmp_path / ".gitignore").write_text("*.log\n")

    assert walked(tmp_path) == [".gitignore", "inner/a.log"]


def test_a_deep_tree_is_walked_to_its_end() -> None:
    """Deeper than Python recurses, by relative steps because no path is that long."""
    deep = 1100
    root = tempfile.mkdtemp(prefix="bascule-")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        here = os.open(root, os.O_RDONLY)
        for _ in range(deep):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)

        assert walked(Path(root)) == ["d/" * deep + "f"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        # Python's own removal recurses, and fails like pytest's would.
        subprocess.run(["rm", "-rf", root], check=True)


def test_an_abandoned_walk_leaves_no_descriptor_open(tmp_path: Path) -> None:
    plant(tmp_path, "a/b/c/f", "a/b/c/g")
    directory = os.open(tmp_path, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    walk = walk_files(directory)
    next(walk)
    assert len(os.listdir("/proc/self/fd")) > before
    walk.close()

    assert len(os.listdir("/proc/self/fd")) == before
    os.close(directory)


@pytest.mark.parametrize("text", ["", "# comment\n", "\n\n", "/\n", "[\n"])
def test_text_without_rules_gives_no_ignore_rules(text: str) -> None:
    assert parse_rules(text) is None


PIECES = ["a", "b", "*", "?", "**", "/", "/", "[ab]", "[!a]", "a*", "*.x", "\\a", "!", " ", "#"]


@pytest.mark.slow
def test_random_ignore_rules_match_git(tmp_path: Path) -> None:
    """Git itself is the model: `ls-files` with the same rules, for rules made at random."""
    plant(tmp_path, "a2", "ab", "c.x", "#", "!a", "a/a", "a/b", "a/c.x")
    plant(tmp_path, "b/a/b", "b/ab/a", "b/b/a/c.x", "b/b2", "b/ ", " a")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    chance = random.Random(4)
    for _ in range(150):
        rules = [
            "".join(chance.choices(PIECES, k=chance.randint(1, 5)))
            for _ in range(chance.randint(1, 3))
        ]
        (tmp_path / ".gitignore").write_text("\n".join(rules) + "\n")
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )

        assert sorted(walked(tmp_path)) == sorted(filter(None, listed.stdout.split("\0"))), rules
