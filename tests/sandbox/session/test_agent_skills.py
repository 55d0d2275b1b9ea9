"""The editor that OpenHands' cells call."""

from __future__ import annotations

from pathlib import Path

from bascule.sandbox.session.agent_skills import PRELUDE, skills


def test_file_editor_creates_views_edits_and_undoes(tmp_path: Path) -> None:
    edit, path = skills()["file_editor"], str(tmp_path / "made")
    said = [
        edit("create", path, file_text="Line 1\nLine 2"),
        edit("view", path, view_range=[1, 1]),
        edit(command="str_replace", path=path, old_str="Line 2", new_str="New Line 2"),
        edit("undo_edit", path, enable_linting=True),
    ]

    assert "File created successfully" in said[0]
    assert "Line 1" in said[1]
    assert "Line 2" not in said[1]
    assert "New Line 2" in said[2]
    assert "undone successfully" in said[3]
    assert (tmp_path / "made").read_text() == "Line 1\nLine 2"


def test_file_editor_prints_errors_instead_of_raising_them(tmp_path: Path) -> None:
    assert skills()["file_editor"]("view", str(tmp_path / "none")).startswith("ERROR:")


def test_the_kernel_prelude_defines_file_editor() -> None:
    kernel: dict[str, object] = {}
    exec(PRELUDE, kernel)  # as a kernel does

    assert callable(kernel["file_editor"])
