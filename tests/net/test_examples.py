"""Every net in examples/ does what it says."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bascule.net import RunOutcome, RunResult, explore, load
from bascule.net.trace import tokens_by_place
from tests.net.test_schema import errors
from tests.net.writing import Window, play

EXAMPLES = Path(__file__).parents[2] / "examples"
NETS = sorted(EXAMPLES.glob("*.evolve.yaml"))


def run(name: str, window: object = None) -> RunResult:
    result, _ = asyncio.run(play(load(EXAMPLES / f"{name}.evolve.yaml").unwrap(), window))
    return result


def test_there_are_at_least_five_example_nets() -> None:
    assert len(NETS) >= 5


@pytest.mark.parametrize("file", NETS, ids=lambda path: path.name)
def test_an_example_loads_without_diagnostics(file: Path) -> None:
    assert load(file).diagnostics == ()
    assert errors(file.read_text()) == []


def test_the_interop_example_shows_a_message_and_prints_the_models_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    window = Window(chat="4")
    result = run("VsCodeInterop", window)

    assert (result.outcome, tokens_by_place(result.marking)) == (RunOutcome.COMPLETED, {"p2": [1]})
    assert window.calls == [
        ("show_message", "Transition t1 fired!", "info"),
        ("chat", "What is 2+2?"),
    ]
    assert capsys.readouterr().out == "Message sent to VS Code\nThe model says: 4\n"


def test_the_interop_example_completes_without_a_window(capsys: pytest.CaptureFixture[str]) -> None:
    result = run("VsCodeInterop", Window(show_message=RuntimeError("nobody there")))

    assert result.outcome is RunOutcome.COMPLETED
    assert capsys.readouterr().out == "Bridge not available: nobody there\n"


@pytest.mark.parametrize(
    ("answer", "place", "reason"),
    [
        ({"approved": True, "reason": "fine"}, "approved", "fine"),
        ({"approved": False}, "refused", ""),
        (None, "refused", "nobody answered"),
    ],
)
def test_a_large_expense_is_routed_by_the_form_answer(answer: Any, place: str, reason: str) -> None:
    result = run("approval", Window(form=answer))

    assert result.outcome is RunOutcome.COMPLETED
    assert tokens_by_place(result.marking)[place][-1] == {
        "who": "Bob",
        "what": "a workstation",
        "amount": 4200,
        "reason": reason,
    }
    assert tokens_by_place(result.marking)["approved"][0]["who"] == "Ann"


@pytest.mark.slow
def test_each_changed_file_is_reviewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        "git init -q",
        "git config user.email a@example.org",
        "git config user.name A",
        "touch one two",
        "git add one two",
        "git commit -qm Begin",
    ):
        subprocess.run(command.split(), check=True)
    (tmp_path / "one").write_text("1\n")
    (tmp_path / "two").write_text("2\n")
    window = Window(chat="Looks right.")
    result = run("review", window)

    assert result.outcome is RunOutcome.COMPLETED
    assert capsys.readouterr().out.splitlines() == ["one: Looks right.", "two: Looks right."]
    assert ["+1" in window.calls[0][1], "+2" in window.calls[1][1]] == [True, True]


@pytest.mark.slow
def test_the_build_example_builds_and_links_three_parts() -> None:
    result = run("build")

    assert tokens_by_place(result.marking) == {
        "release": [{"parts": ["client 7", "server 7", "manual 7"]}]
    }


def test_the_store_place_never_holds_more_than_three_tokens() -> None:
    result = run("producer_consumer")
    space = explore(load(EXAMPLES / "producer_consumer.evolve.yaml").unwrap())

    assert (result.outcome, len(tokens_by_place(result.marking)["sold"])) == (
        RunOutcome.COMPLETED,
        6,
    )
    assert (space.bounds["store"], space.ends, space.complete) == (3, 1, True)  # type: ignore[index]
