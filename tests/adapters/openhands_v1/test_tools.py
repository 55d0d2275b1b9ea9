"""An agent of OpenHands at work in a sandbox: it edits, runs, finds, and mends a failing test."""

from __future__ import annotations

from pathlib import Path

import pytest
from openhands.sdk import Tool
from openhands.sdk.tool.registry import get_tool_module_qualnames
from openhands.tools.file_editor.definition import FileEditorObservation
from openhands.tools.glob.definition import GlobObservation
from openhands.tools.grep.definition import GrepObservation
from openhands.tools.preset.default import get_default_tools

import bascule.adapters.openhands_v1 as face
from bascule.adapters.openhands_v1 import use_bascule

from .talk import call, conversation, converse, text_of

BROKEN = "def add(a, b):\n    return a\n"
"""Not as long as when it is mended: Python knows by the size, and the second of the time, whether a
module was changed since it compiled it, and all of this takes less than a second."""
TEST = "from sums import add\nassert add(2, 2) == 4, add(2, 2)\nprint('passed')\n"


def test_an_agent_mends_a_failing_test(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(BROKEN)
    (tmp_path / "check.py").write_text(TEST)

    failing, found, viewed, edited, passing = converse(
        tmp_path,
        use_bascule("sandbox"),
        call("terminal", command="python3 check.py"),
        call("grep", pattern="return"),
        call("file_editor", command="view", path=f"{tmp_path}/sums.py"),
        call(
            "file_editor",
            command="str_replace",
            path=f"{tmp_path}/sums.py",
            old_str="return a",
            new_str="return a + b",
        ),
        call("terminal", command="python3 check.py"),
    )

    assert "AssertionError: 2" in text_of(failing)
    assert text_of(found) == f"{tmp_path}/sums.py:2:    return a"
    assert "     2\t    return a\n" in text_of(viewed)
    assert "     2\t    return a + b" in text_of(edited)
    assert text_of(passing).startswith("passed\n")
    assert (tmp_path / "sums.py").read_text() == BROKEN.replace("return a", "return a + b")


def test_importing_the_adapter_registers_its_tools_under_openhands_names() -> None:
    homes = get_tool_module_qualnames()
    names = ("terminal", "file_editor", "glob", "grep", "vscode")

    assert {homes[name].rpartition(".")[0] for name in names} == {face.__name__}
    assert [tool.name for tool in use_bascule()] == list(names)


def test_the_openhands_default_agent_uses_bascule_tools(tmp_path: Path) -> None:
    tools = get_default_tools(enable_browser=False)

    (seen,) = converse(tmp_path, tools, call("terminal", command="echo $BASH_VERSION; exit 0"))

    assert "The shell itself ended" in text_of(seen)


class TestEditor:
    def edit(self, workspace: Path, *calls: dict[str, object]) -> list[FileEditorObservation]:
        script = [call("file_editor", **each) for each in calls]
        seen = converse(workspace, [Tool(name="file_editor")], *script)
        return [each for each in seen if isinstance(each, FileEditorObservation)]

    def test_an_edit_observation_has_the_whole_file_before_and_after(self, tmp_path: Path) -> None:
        path = f"{tmp_path}/notes.txt"
        created, inserted, replaced, undone = self.edit(
            tmp_path,
            {"command": "create", "path": path, "file_text": "one\nthree"},
            {"command": "insert", "path": path, "insert_line": 1, "new_str": "two"},
            {"command": "str_replace", "path": path, "old_str": "three", "new_str": "3\n"},
            {"command": "undo_edit", "path": path},
        )

        assert (created.prev_exist, created.new_content) == (False, "one\nthree")
        assert inserted.old_content == "one\nthree"
        assert inserted.new_content == "one\ntwo\nthree"
        assert (replaced.old_content, replaced.new_content) == (
            "one\ntwo\nthree",
            "one\ntwo\n3\n",
        )
        assert (undone.old_content, undone.new_content) == ("one\ntwo\n3\n", "one\ntwo\nthree")
        assert "three" in str(inserted.visualize)

    def test_an_impossible_edit_is_an_error_and_changes_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "twice").write_text("a\na\n")
        ambiguous, missing, there = self.edit(
            tmp_path,
            {"command": "str_replace", "path": "twice", "old_str": "a", "new_str": "b"},
            {"command": "view", "path": "nowhere"},
            {"command": "create", "path": "twice", "file_text": ""},
        )

        assert [each.is_error for each in (ambiguous, missing, there)] == [True] * 3
        assert (tmp_path / "twice").read_text() == "a\na\n"
        assert f"{tmp_path}/nowhere" in text_of(missing)

    def test_relative_paths_start_in_the_workspace_wherever_the_shell_is(
        self, tmp_path: Path
    ) -> None:
        converse(
            tmp_path,
            use_bascule("sandbox"),
            call("terminal", command="cd /"),
            call("file_editor", command="create", path="here", file_text="x"),
        )

        assert (tmp_path / "here").read_text() == "x"

    def test_a_directory_is_listed(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "file").touch()
        (seen,) = self.edit(tmp_path, {"command": "view", "path": str(tmp_path)})

        assert f"{tmp_path}/sub/file" in text_of(seen)


class TestSearch:
    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "main.ts").write_text("const Colour = 1\n")
        (tmp_path / "src" / "view.tsx").write_text("colour()\n")
        (tmp_path / "top.py").write_text("COLOUR\n")
        return tmp_path

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*.ts", {"src/main.ts"}),
            ("**/*.{ts,tsx}", {"src/main.ts", "src/view.tsx"}),
            ("src/*", {"src/main.ts", "src/view.tsx"}),
            ("*.rs", set()),
        ],
    )
    def test_files_are_found_by_name(self, workspace: Path, pattern: str, found: set[str]) -> None:
        (seen,) = converse(workspace, [Tool(name="glob")], call("glob", pattern=pattern))

        assert isinstance(seen, GlobObservation)
        assert set(seen.files) == {f"{workspace}/{name}" for name in found}

    def test_a_glob_pattern_may_contain_its_directory(self, workspace: Path) -> None:
        (seen,) = converse(
            workspace, [Tool(name="glob")], call("glob", pattern=f"{workspace}/src/*.ts")
        )

        assert isinstance(seen, GlobObservation)
        assert (seen.files, seen.search_path) == (
            [f"{workspace}/src/main.ts"],
            f"{workspace}/src",
        )

    def test_grep_ignores_case(self, workspace: Path) -> None:
        every, some = converse(
            workspace,
            [Tool(name="grep")],
            call("grep", pattern="colo.r"),
            call("grep", pattern="colo.r", path=f"{workspace}/src", include="*.{ts,js}"),
        )

        assert isinstance(every, GrepObservation)
        assert isinstance(some, GrepObservation)
        assert len(every.matches) == 3
        assert some.matches == [f"{workspace}/src/main.ts"]
        assert text_of(some) == f"{workspace}/src/main.ts:1:const Colour = 1"

    def test_an_invalid_pattern_is_an_error(self, workspace: Path) -> None:
        (seen,) = converse(workspace, [Tool(name="grep")], call("grep", pattern="(open"))

        assert seen.is_error

    def test_a_truncated_search_result_says_so(self, workspace: Path) -> None:
        (workspace / "long").write_text("colour\n" * 5000)
        (seen,) = converse(workspace, [Tool(name="grep")], call("grep", pattern="colour"))

        assert isinstance(seen, GrepObservation)
        assert seen.truncated
        assert "narrow the search" in text_of(seen)


def test_without_an_editor_there_are_no_editor_tools(tmp_path: Path) -> None:
    with conversation(tmp_path, use_bascule("sandbox")) as talk:
        talk.send_message("Please.")
        assert [name for name in talk.agent.tools_map if name.startswith("vscode")] == []


def test_the_package_exports_only_use_bascule() -> None:
    assert face.__all__ == ["use_bascule"]
