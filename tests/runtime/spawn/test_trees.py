"""Trees that a session nested as deep as it liked."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from bascule.runtime.spawn import trees

DEEP = 3000
"""Past what Python's own recursion reaches, and past the descriptors of an ordinary process."""


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=here)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    yield top
    trees.remove(top)


def test_a_tree_of_any_depth_is_removed_with_few_descriptors(deep: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        trees.remove(deep)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not deep.exists()


def test_entries_are_visited_before_their_directory(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("")
    (tmp_path / "a/link").symlink_to(tmp_path / "e")
    opened = os.open(tmp_path, os.O_RDONLY)
    try:
        seen = [(set(folders), set(others)) for _, folders, others in trees.innermost_first(opened)]
    finally:
        os.close(opened)
    assert seen[-1] == ({"a", "e"}, set())
    assert seen.index(({"c"}, {"file"})) < seen.index(({"b", "d"}, {"link"}))
    assert len(seen) == 6


def test_a_directory_moved_during_removal_does_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "in/a/b").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/kept").write_text("kept")
    opened = os.open(tmp_path / "in", os.O_RDONLY)
    try:
        walk = trees.innermost_first(opened)
        next(walk)
        (tmp_path / "in/a/b").rename(tmp_path / "out/b")
        with pytest.raises(OSError, match="moved"):
            next(walk)
    finally:
        os.close(opened)
    assert (tmp_path / "out/kept").read_text() == "kept"


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("kept")
    (tmp_path / "top/closed").mkdir(parents=True)
    (tmp_path / "top/closed/link").symlink_to(tmp_path / "kept")
    (tmp_path / "top/closed").chmod(0)
    trees.remove(tmp_path / "top")
    trees.remove(tmp_path / "top")
    assert (tmp_path / "kept/file").read_text() == "kept"
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(OSError, match="link"):
        trees.remove(tmp_path / "link")
