"""Without a window, on request: questions are asked in the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import vscode_bridge as vscode
from bascule.bridge import BridgeClient, TerminalTransport


class Terminal:
    def __init__(self, typed: str) -> None:
        self.screen = io.StringIO()
        self.bridge = BridgeClient(TerminalTransport(io.StringIO(typed), self.screen))


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    terminal = Terminal(getattr(request, "param", ""))
    vscode.use(terminal.bridge)
    yield terminal
    vscode.use(None)


def typed(text: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("terminal", [text], indirect=True)


@typed("2\n")
def test_buttons_are_picked_by_number(terminal: Terminal) -> None:
    assert vscode.show_message("Go?", buttons=["Yes", "No"]) == "No"
    assert terminal.screen.getvalue().startswith("Go?\n  1  Yes\n  2  No\n")


@typed("9\nmaybe\n1\n")
def test_an_invalid_choice_is_asked_again(terminal: Terminal) -> None:
    assert vscode.quick_pick(["a", "b"]) == "a"


@typed("1, 3\n")
def test_several_items_are_selected_by_number(terminal: Terminal) -> None:
    assert vscode.quick_pick(["a", "b", "c"], many=True) == ["a", "c"]


@typed("x1\n\n")
def test_an_input_line_must_match_its_pattern_and_may_be_empty_for_the_default(
    terminal: Terminal,
) -> None:
    assert vscode.input_box("Name", value="ab", pattern="[a-z]+") == "ab"
    assert "must match" in terminal.screen.getvalue()


def test_at_the_end_of_the_input_every_question_is_dismissed(terminal: Terminal) -> None:
    assert vscode.input_box("Name") is None
    assert vscode.quick_pick(["a"]) is None
    assert vscode.confirm("Sure?") is False
    assert vscode.form({"properties": {"a": {"type": "string"}}}) is None


@typed("three\n3\nblue\nred\n\n")
def test_a_form_is_asked_field_by_field(terminal: Terminal) -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "colour": {"enum": ["red", "green"]},
            "loud": {"type": "boolean", "default": False},
        },
    }
    assert vscode.form(schema) == {"count": 3, "colour": "red", "loud": False}


def test_shown_messages_are_printed(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")

    vscode.open_file(file, 3)
    vscode.diff(file, "two\n")
    vscode.output("Build").print("done")
    vscode.diagnostics.set(file, [vscode.Diagnostic("bad", 1)])
    with vscode.progress("Work") as bar:
        bar.update("half")

    shown = terminal.screen.getvalue()
    assert f"{file}:3:1\n" in shown
    assert "-one\n+two\n" in shown
    assert "[Build] done\n" in shown
    assert f"{file}:1:1: error: bad\n" in shown
    assert "Work: half\n" in shown


def test_window_only_functions_fail_with_a_clear_error_in_a_terminal(terminal: Terminal) -> None:
    assert vscode.is_available()
    assert vscode.chat_models() == []
    assert vscode.active_editor() is None
    with pytest.raises(vscode.ChatUnavailable, match="terminal"):
        vscode.chat("2+2?")
    with pytest.raises(vscode.BridgeUnavailable, match="terminal"):
        vscode.execute_command("workbench.action.reloadWindow")
