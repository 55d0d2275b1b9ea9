"""Changes of a fork are merged into a workspace: nothing in conflict is overwritten."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from bascule.core.errors import InvalidRequest
from bascule.forks.apply import apply_changes as apply_in_order
from bascule.forks.apply import merge_order
from bascule.forks.change_set import (
    Choice,
    PathChange,
    PathResult,
    decode_changes,
    encode_changes,
)
from bascule.forks.merge_rules import PathVersion
from tests.checkpoints.trees import picture


def file(content: str, mode: int = 0o644) -> PathVersion:
    return PathVersion("file", content.encode(), mode)


DIRECTORY = PathVersion("directory")


def apply_changes(
    home: Path, changes: Iterable[PathChange], *, dry_run: bool = False
) -> Sequence[PathResult]:
    return apply_in_order(home, sorted(changes, key=merge_order), dry_run=dry_run)


def change(
    path: str, base: PathVersion | None, theirs: PathVersion | None, choice: Choice = ""
) -> PathChange:
    return PathChange(path, base, theirs, choice)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "home"
    (root / "d").mkdir(parents=True)
    (root / "a").write_text("one\ntwo\nthree\n")
    (root / "d/b").write_text("b\n")
    for name in ("a", "d/b"):
        (root / name).chmod(0o644)
    return root


def outcomes(results: object) -> dict[str, str]:
    assert isinstance(results, list)
    return {each.path: each.outcome for each in results}


def test_a_merge_takes_merges_adds_and_removes_files(home: Path) -> None:
    (home / "a").write_text("ONE\ntwo\nthree\n")
    changes = [
        change("a", file("one\ntwo\nthree\n"), file("one\ntwo\nTHREE\n")),
        change("d", DIRECTORY, None),
        change("d/b", file("b\n"), None),
        change("new", None, DIRECTORY),
        change("new/run", None, file("#!/bin/sh\n", 0o755)),
        change("new/link", None, PathVersion("link", b"run")),
    ]
    results = apply_changes(home, changes)
    assert outcomes(results) == {
        "a": "merged", "d": "taken", "d/b": "taken",
        "new": "taken", "new/link": "taken", "new/run": "taken",
    }  # fmt: skip
    assert (home / "a").read_text() == "ONE\ntwo\nTHREE\n"
    assert not (home / "d").exists()
    assert (home / "new/run").stat().st_mode & 0o777 == 0o755
    assert os.readlink(home / "new/link") == "run"
    assert not list(home.rglob(".bascule-*"))


def test_a_conflict_reports_its_lines_and_leaves_the_file(home: Path) -> None:
    (home / "a").write_text("zero\none\nhere\nthree\n")
    wanted = change("a", file("one\ntwo\nthree\n"), file("one\nfork\nthree\n"))
    before = picture(home)
    (result,) = apply_changes(home, [wanted])
    reason = "the same lines were changed in both"
    assert result == PathResult("a", "conflict", reason, ((3, 3),))
    assert picture(home) == before


def test_a_choice_settles_only_a_conflict(home: Path) -> None:
    (home / "a").write_text("here\n")
    wanted = [
        change("a", file("one\ntwo\nthree\n"), file("fork\n"), "here"),
        change("d/b", file("b\n"), file("fork\n"), "here"),
    ]
    assert outcomes(apply_changes(home, wanted)) == {"a": "kept", "d/b": "taken"}
    assert (home / "a").read_text() == "here\n"
    wanted = [change("a", file("one\ntwo\nthree\n"), file("fork\n"), "fork")]
    assert outcomes(apply_changes(home, wanted)) == {"a": "taken"}
    assert (home / "a").read_text() == "fork\n"


def test_a_dry_run_changes_nothing(home: Path) -> None:
    before = picture(home)
    wanted = [
        change("a", file("one\ntwo\nthree\n"), None),
        change("x/y", None, file("new\n")),
    ]
    assert outcomes(apply_changes(home, wanted, dry_run=True)) == {"a": "taken", "x/y": "taken"}
    assert picture(home) == before


def test_a_removed_directory_with_other_files_here_stays(home: Path) -> None:
    (home / "d/mine").write_text("mine\n")
    wanted = [change("d", DIRECTORY, None), change("d/b", file("b\n"), None)]
    results = apply_changes(home, wanted)
    assert outcomes(results) == {"d": "kept", "d/b": "taken"}
    assert results[0].reason == "the directory has other files here"
    assert (home / "d/mine").read_text() == "mine\n"


def test_a_file_can_become_a_directory_and_vice_versa(home: Path) -> None:
    wanted = [
        change("a", file("one\ntwo\nthree\n"), DIRECTORY),
        change("a/x", None, file("x\n")),
        change("d", DIRECTORY, file("d\n")),
        change("d/b", file("b\n"), None),
    ]
    assert set(outcomes(apply_changes(home, wanted)).values()) == {"taken"}
    assert (home / "a/x").read_text() == "x\n"
    assert (home / "d").read_text() == "d\n"


def test_a_directory_with_other_files_is_not_replaced_by_a_file(home: Path) -> None:
    (home / "d/mine").write_text("mine\n")
    (result,) = apply_changes(home, [change("d", DIRECTORY, file("d\n"))])
    assert (result.outcome, result.reason) == ("conflict", "the directory has other files here")
    assert (home / "d/mine").read_text() == "mine\n"


def test_symlinks_in_a_path_are_not_followed(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside\n")
    (home / "way").symlink_to(outside)
    wanted = [
        change("way/file", file("outside\n"), file("changed\n")),
        change("way/new", None, file("new\n")),
    ]
    assert set(outcomes(apply_changes(home, wanted)).values()) == {"conflict"}
    assert picture(outside).keys() == {"file"}
    assert (outside / "file").read_text() == "outside\n"


def test_changes_with_any_file_name_survive_serialization(home: Path) -> None:
    name = os.fsdecode(b"caf\xe9\nx")
    sent = [change(name, None, PathVersion("file", bytes(range(256)), 0o600), "fork")]
    assert list(decode_changes(encode_changes(sent))) == sent
    apply_changes(home, sent)
    assert (home / name).read_bytes() == bytes(range(256))


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ".git/config", "", "a//b"])
def test_paths_outside_of_the_workspace_are_refused(path: str) -> None:
    lines = encode_changes([change(path, None, file("x"))])
    with pytest.raises(InvalidRequest):
        list(decode_changes(lines))
