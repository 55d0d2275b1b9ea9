"""Which steps a file has, and what is said of one that is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import CmdRun, Glob
from bascule.runtime.replay import InvalidTrajectory, Script, read_script


def run(number: int, command: str, **event: Any) -> dict[str, Any]:
    return {"id": number, "action": "run", "args": {"command": command}, **event}


def ran(number: int, cause: int | None, content: str = "", **event: Any) -> dict[str, Any]:
    extras = {"command": "", "metadata": {"exit_code": 0, "working_dir": "/workspace"}}
    told = {} if cause is None else {"cause": cause}
    seen = {"id": number, "observation": "run", "content": content, "extras": extras}
    return {**seen, **told, **event}


def script(tmp_path: Path, events: list[dict[str, Any]], *, form: str = "jsonl") -> Script:
    file = tmp_path / "file"
    texts = {
        "jsonl": "\n".join(map(json.dumps, events)) + "\n",
        "json": json.dumps(events, indent=2),
        "openhands": json.dumps({"trajectory": events}),
        "openhands, indented": json.dumps({"trajectory": events}, indent=2),
    }
    file.write_text(texts[form])
    return read_script(file)


@pytest.mark.parametrize("form", ["jsonl", "json", "openhands", "openhands, indented"])
def test_json_lines_and_lists_are_read_and_messages_counted(tmp_path: Path, form: str) -> None:
    talk = [
        {"id": 0, "action": "message", "args": {"content": "hi"}},
        {"id": 1, "observation": "agent_state_changed", "extras": {"agent_state": "running"}},
        {"id": 2, "action": "think", "args": {"thought": "hm"}},
        {"id": 3, "cause": 2, "observation": "think", "content": ""},
    ]
    found = script(tmp_path, [*talk, run(4, "ls"), ran(5, 4, "f\n")], form=form)
    (step,) = found.steps
    assert isinstance(step.action, CmdRun)
    assert (step.action.command, step.line) == ("ls", 5)
    assert step.seen is not None
    assert step.seen["content"] == "f\n"
    assert found.passed_over == {"message": 1, "think": 1, "agent_state_changed": 1}
    assert found.working_dir == "/workspace"


def test_bascule_kinds_and_arguments_are_restored(tmp_path: Path) -> None:
    overlay = {"action": "glob", "args": {"pattern": "*.py"}, "id": "uuid", "working_dir": "/w"}
    answer = {"observation": "glob", "extras": {"pattern": "*.py", "path": "/w", "paths": ["a"]}}
    found = script(
        tmp_path,
        [
            {"id": 1, "action": "null", "args": {}, "bascule": overlay},
            {"id": 2, "cause": 1, "observation": "null", "content": "a", "bascule": answer},
            run(3, "ls", bascule={"args": {"shell": "two"}, "masked": True}),
        ],
    )
    glob, ls = found.steps
    assert isinstance(glob.action, Glob)
    assert glob.seen is not None
    assert (glob.seen["observation"], glob.seen["extras"]["paths"]) == ("glob", ["a"])
    assert isinstance(ls.action, CmdRun)
    assert (ls.action.shell, ls.is_masked, ls.seen) == ("two", True, None)
    assert found.working_dir == "/w"


def test_an_observation_without_a_cause_belongs_to_the_previous_action(tmp_path: Path) -> None:
    state = {"observation": "agent_state_changed", "extras": {"agent_state": "running"}}
    found = script(tmp_path, [run(1, "ls"), state, ran(2, None, "mine"), run(3, "pwd")])
    assert [step.seen and step.seen["content"] for step in found.steps] == ["mine", None]


def test_overlapping_actions_are_recognised(tmp_path: Path) -> None:
    events = [run(1, "a"), run(2, "b"), ran(3, 2), run(4, "c"), ran(5, 1), ran(6, 4), run(7, "d")]
    assert [step.answered_before for step in script(tmp_path, events).steps] == [
        (),
        (),
        (2,),
        (1, 3),
    ]


def test_a_lost_observation_is_ignored_and_a_later_one_used(tmp_path: Path) -> None:
    lost = {
        "id": 2,
        "cause": 1,
        "observation": "error",
        "content": "gone",
        "bascule": {"lost": True},
    }
    assert script(tmp_path, [run(1, "a"), lost]).steps[0].seen is None
    seen = script(tmp_path, [run(1, "a"), lost, ran(3, 1, "after all")]).steps[0].seen
    assert seen is not None
    assert seen["content"] == "after all"


def test_secrets_hidden_by_openhands_count_as_masked(tmp_path: Path) -> None:
    found = script(tmp_path, [run(1, "echo <secret_hidden>"), ran(2, 1, "<secret_hidden>")])
    assert (found.steps[0].is_masked, found.steps[0].is_seen_masked) == (True, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": 3, "action": "ru', "line 2: This is not valid JSON"),
        ("17", "line 2: this is not an event"),
        ('{"id": 3}', "line 2: this is not an event"),
        ('{"id": 3, "action": "run", "args": {}}', "line 2: run action: "),
        ('{"id": 3, "action": "run", "args": {"command": 7}}', "line 2: run action: "),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "file"
    file.write_text(json.dumps(run(1, "ls")) + f"\n{line}\n")
    with pytest.raises(InvalidTrajectory, match=said):
        read_script(file)


def test_a_missing_recording_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidTrajectory, match=r"cannot read .*: No such file"):
        read_script(tmp_path / "none")
