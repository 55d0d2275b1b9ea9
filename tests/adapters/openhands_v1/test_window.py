"""The same agent in a VS Code window: on a real hub, with a window that has no editor."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bascule.adapters.openhands_v1 import use_bascule
from bascule.core.actions import CmdRun
from bascule.core.editor_actions import OpenFile, ShowDiff
from bascule.core.errors import AmbiguousWindow, HubUnreachable, NoWindow
from tests.adapters.window_hub import HubWithWindow, open_hub_with_window

from .talk import call, conversation, converse, text_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The window's; what OpenHands holds for the workspace is elsewhere, on its own machine."""
    folder = tmp_path / "window"
    folder.mkdir()
    return folder


@pytest.fixture
def place(folder: Path) -> Iterator[HubWithWindow]:
    with open_hub_with_window(folder) as place:
        yield place


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "openhands"


def test_an_agent_mends_a_failing_test_in_the_window(
    place: HubWithWindow, folder: Path, workspace: Path
) -> None:
    (folder / "sums.py").write_text("print(2 - 2 == 4)\n")

    failing, found, listed, _, passing = converse(
        workspace,
        use_bascule("window", hub=place.url, token=place.token),
        call("terminal", command="python3 sums.py"),
        call("grep", pattern="print"),
        call("glob", pattern="*.py"),
        call(
            "file_editor", command="str_replace", path="sums.py", old_str="2 - 2", new_str="2 + 2"
        ),
        call("terminal", command="python3 sums.py; pwd"),
    )

    assert text_of(failing).startswith("False\n")
    assert text_of(found) == f"{folder}/sums.py:1:print(2 - 2 == 4)"
    assert text_of(listed) == f"{folder}/sums.py"
    assert text_of(passing).startswith(f"True\n{folder}\n")
    assert place.window.agents == {"agent"}


def test_hub_token_and_window_come_from_the_environment(
    place: HubWithWindow, folder: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASCULE_HUB", place.url)
    monkeypatch.setenv("BASCULE_TOKEN", place.token)
    monkeypatch.setenv("BASCULE_WINDOW", str(folder))

    (seen,) = converse(workspace, use_bascule(), call("terminal", command="pwd"))

    assert text_of(seen).startswith(f"{folder}\n")


def test_editor_tools_show_diagnostics_and_diffs_and_ask_questions(
    place: HubWithWindow, folder: Path, workspace: Path
) -> None:
    wrong, opened, diff, answer = converse(
        workspace,
        use_bascule("window", hub=place.url, token=place.token),
        call("vscode_diagnostics", path="a.py"),
        call("vscode_open", path="a.py", line=3),
        call("vscode_diff", path="a.py", content="new\n"),
        call("vscode_ask", question="Which colour?", options=["red", "blue"]),
    )

    assert text_of(wrong) == f"{folder}/a.py:1: error: undefined name"
    assert text_of(opened) == "Done"
    assert text_of(diff) == f"The diff of {folder}/a.py is shown"
    assert text_of(answer) == "blue"
    shown = [
        (each.path, type(each))
        for each in place.window.editor_sandbox.shown
        if hasattr(each, "path")
    ]
    assert (f"{folder}/a.py", OpenFile) in shown
    assert (f"{folder}/a.py", ShowDiff) in shown


def test_language_features_are_tools(place: HubWithWindow, folder: Path, workspace: Path) -> None:
    spot = {"path": "a.py", "line": 1, "symbol": "add"}
    found, renamed, command = converse(
        workspace,
        use_bascule("window", hub=place.url, token=place.token),
        call("vscode_references", **spot),
        call("vscode_rename_symbol", **spot, new_name="plus"),
        call("vscode_command", command="vscode.open", arguments=[{"$uri": "a.py"}]),
    )

    assert text_of(found) == f"{folder}/a.py:1: references of add"
    assert text_of(renamed) == "Renamed 'add' to 'plus'"
    assert "$uri" in text_of(command)


def test_the_debugger_is_available_as_tools(place: HubWithWindow, workspace: Path) -> None:
    stopped, value = converse(
        workspace,
        use_bascule("window", hub=place.url, token=place.token),
        call("vscode_debug_start", name="Main"),
        call("vscode_debug_evaluate", expression="a"),
    )

    assert text_of(stopped) == "Stopped by debug_start at sums.py:2 in add"
    assert text_of(value) == "a = 3"


def test_running_tests_is_a_tool(place: HubWithWindow, folder: Path, workspace: Path) -> None:
    listed, ran = converse(
        workspace,
        use_bascule("window", hub=place.url, token=place.token),
        call("vscode_list_tests", path="a.py"),
        call("vscode_run_tests", failed=True),
    )

    assert text_of(listed) == f"test_sums.py::test_add in {folder}/a.py"
    assert text_of(ran) == "1 failed"


def test_notebook_cells_are_tools(place: HubWithWindow, workspace: Path, folder: Path) -> None:
    read, ran = converse(
        workspace,
        use_bascule("window", hub=place.url, token=place.token),
        call("vscode_read_cells", path="a.ipynb"),
        call("vscode_run_cells", path="a.ipynb", cells=[2]),
    )

    assert text_of(read) == f"read_cells of {folder}/a.ipynb"
    assert text_of(ran) == f"run_cells of {folder}/a.ipynb"


def test_tasks_and_git_are_tools(place: HubWithWindow, workspace: Path) -> None:
    listed, ran, status = converse(
        workspace,
        use_bascule("window", hub=place.url, token=place.token),
        call("vscode_list_tasks"),
        call("vscode_run_task", name="build"),
        call("vscode_git_status"),
    )

    assert text_of(listed) == "build: make"
    assert text_of(ran) == "'build' ended with exit code 0"
    assert text_of(status) == "On branch main, git_status"


def test_an_interrupt_withdraws_an_unanswered_question(
    place: HubWithWindow, workspace: Path
) -> None:
    place.window.editor_sandbox.answer = None
    tools = use_bascule("window", hub=place.url, token=place.token)
    with conversation(workspace, tools) as talk, ThreadPoolExecutor() as threads:
        talk.send_message("Please.")
        ask = talk.agent.tools_map["vscode_ask"]
        seen = threads.submit(ask, ask.action_from_arguments({"question": "Why?"}), talk)
        place.window.editor_sandbox.was_asked.wait()
        ask.executor.interrupt()

        assert seen.result().is_error


def test_concurrent_conversations_have_separate_shells(
    place: HubWithWindow, workspace: Path
) -> None:
    tools = use_bascule("window", hub=place.url, token=place.token)
    script = call("terminal", command="echo $COLOUR; COLOUR=blue")
    with (
        conversation(workspace, tools, script) as one,
        conversation(workspace, tools, script) as other,
    ):
        for talk in (one, other):
            talk.send_message("Please.")
            talk.run()
    commands = [each for each in place.window.editor_sandbox.shown if isinstance(each, CmdRun)]

    assert [each.shell for each in commands if "COLOUR" in each.command] == ["", "openhands-2"]


def test_each_conversation_starts_with_a_clean_shell(place: HubWithWindow, workspace: Path) -> None:
    tools = use_bascule("window", hub=place.url, token=place.token)
    script = call("terminal", command="echo [$COLOUR]; export COLOUR=blue")
    (_,) = converse(workspace, tools, script)
    (seen,) = converse(workspace, tools, script)

    assert text_of(seen).startswith("[]\n")


def test_the_agent_is_told_that_its_window_was_lost(place: HubWithWindow, workspace: Path) -> None:
    tools = use_bascule("window", hub=place.url, token=place.token)
    with conversation(workspace, tools) as talk:
        talk.send_message("Please.")
        terminal = talk.agent.tools_map["terminal"]
        talk.agent.tools_map["file_editor"].executor._runtime.runtime._runtime._patience = 0.1
        place.wait(place.window.aclose())
        seen = terminal(terminal.action_from_arguments({"command": "true"}), talk)

    assert seen.is_error


def test_without_a_window_a_conversation_does_not_start(
    place: HubWithWindow, workspace: Path
) -> None:
    tools = use_bascule("window", hub=place.url, token=place.token, window="another")
    with (
        pytest.raises(NoWindow, match="another"),
        conversation(workspace, tools) as talk,
    ):
        talk.send_message("Please.")


def test_without_a_hub_a_conversation_does_not_start(workspace: Path) -> None:
    tools = use_bascule("window", hub="http://127.0.0.1:9", token="t")
    with (
        pytest.raises((HubUnreachable, AmbiguousWindow)),
        conversation(workspace, tools) as talk,
    ):
        talk.send_message("Please.")
