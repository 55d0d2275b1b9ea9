"""Changes of several files, which are made completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.core.actions import FileEdit
from bascule.core.errors import EditConflict, EditInvalid, PathExists, PathOutsideRoots
from bascule.sandbox.files.file_actions import FileActions
from bascule.sandbox.files.text_changes import TextChange


@pytest.fixture
def files(tmp_path: Path) -> FileActions:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "b").write_bytes("grün\n".encode("latin-1"))
    return FileActions(roots=[tmp_path], owner=None)


def test_files_keep_encoding_and_line_endings(files: FileActions, tmp_path: Path) -> None:
    files.changes.apply(
        [
            TextChange(str(tmp_path / "b"), "grün\n", "blün\n"),
            TextChange(str(tmp_path / "a"), "one\r\ntwo\r\n", "one\r\nthree\n"),
            TextChange(str(tmp_path / "new/c"), None, "new\n"),
        ]
    )
    assert (tmp_path / "a").read_bytes() == b"one\r\nthree\r\n"
    assert (tmp_path / "b").read_bytes() == "blün\n".encode("latin-1")
    assert (tmp_path / "new/c").read_bytes() == b"new\n"
    files.execute(FileEdit("b", "undo_edit"), str(tmp_path))
    assert (tmp_path / "b").read_bytes() == "grün\n".encode("latin-1")


def test_a_conflict_in_one_file_changes_none(files: FileActions, tmp_path: Path) -> None:
    first = TextChange(str(tmp_path / "a"), "one\r\ntwo\r\n", "x\n")
    for second, error in (
        (TextChange(str(tmp_path / "b"), "other\n", "y\n"), EditConflict),
        (TextChange(str(tmp_path / "missing"), "other\n", "y\n"), EditConflict),
        (TextChange(str(tmp_path / "b"), None, "y\n"), PathExists),
        (TextChange(str(tmp_path.parent / "b"), "z", "y\n"), PathOutsideRoots),
        (first, EditInvalid),
    ):
        with pytest.raises(error):
            files.changes.apply([first, second])
        assert (tmp_path / "a").read_bytes() == b"one\r\ntwo\r\n"
        assert (tmp_path / "b").read_bytes() == "grün\n".encode("latin-1")
