"""What we export is what OpenHands reads, and what it exports is what we play."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openhands.events.action import (
    AgentThinkAction,
    CmdRunAction,
    FileReadAction,
    MessageAction,
    NullAction,
)
from openhands.events.event import Event, EventSource
from openhands.events.observation import CmdOutputMetadata, CmdOutputObservation, ErrorObservation
from openhands.events.serialization import event_from_dict, event_to_trajectory

from bascule.core import actions, observations
from bascule.runtime.replay import read_script
from bascule.wire import encode_action, encode_observation, from_json, to_json
from bascule.wire.timeline import whole
from bascule.wire.trajectory import Trajectory

ASKED: list[actions.Action] = [
    actions.CmdRun("ls", shell="two", output_limit=0, queue=True, timeout=5.0, blocking=True),
    actions.IPythonRun("1 + 1", is_input=True),
    actions.FileRead("/w/f", view_range=[1, 2], impl_source="oh_aci"),
    actions.FileWrite("/w/f", "x"),
    actions.FileEdit("/w/f", "view", view_range=[1, 2]),
    actions.Browse("http://localhost:1"),
    actions.BrowseInteractive("click('1')"),
    actions.McpCall("tool", {"a": 1}),
    actions.MakeDir("/w/d"),
    actions.Glob("*.py"),
    actions.Message("hello"),
]
SEEN: list[observations.Observation] = [
    observations.CmdOutput(content="f\n", command="ls"),
    observations.IPythonOutput(content="2", code="1 + 1"),
    observations.FileContent(content="x", path="/w/f", error_id="path.not_found"),
    observations.FileWritten(path="/w/f"),
    observations.FileEdited(path="/w/f", error_id="edit.no_match"),
    observations.BrowserOutput(url="u", trigger_by_action="browse", dom_object={"big": 1}),
    observations.BrowserOutput(url="u", trigger_by_action="browse_interactive", error=True),
    observations.McpResult(name="tool"),
    observations.DirMade(path="/w/d"),
    observations.GlobResult(path="/w", pattern="*.py", paths=["/w/a.py"]),
    observations.Error(content="no", error_id="capability.missing"),
]


def exported() -> list[dict[str, Any]]:
    """As a hub does, one after the other."""
    trajectory, number, made = Trajectory(), 0, []
    for asked, seen in zip(ASKED, SEEN, strict=True):
        answer = {**encode_observation(seen), "cause": asked.id}
        for kind, event in (("action", encode_action(asked)), ("observation", answer)):
            number += 1
            entry = {"n": number, "kind": kind, "time": 1000.0 + number, "event": whole(event)}
            made.append(from_json(to_json(trajectory.event({**entry, "seconds": 0.5}))))
    lost = {"n": number + 1, "kind": "failed", "time": 2000.0, "cause": "x", "message": "gone"}
    made.append(from_json(to_json(trajectory.event(lost))))
    return made


def test_openhands_parses_every_exported_event() -> None:
    events = exported()
    read: list[Event] = [event_from_dict(event) for event in events]
    ours = {"mkdir", "glob"}
    for event, theirs, asked in zip(events[0::2], read[0::2], ASKED, strict=False):
        assert theirs.id == event["id"]
        assert theirs.source is EventSource.AGENT
        assert theirs.timestamp == event["timestamp"]
        is_ours = asked.kind in ours
        assert isinstance(theirs, NullAction) == is_ours
        assert is_ours or theirs.action == asked.kind  # type: ignore[attr-defined]
    for number, theirs in enumerate(read[1:-1:2]):
        assert theirs.cause == 2 * number + 1
        assert theirs.source is EventSource.ENVIRONMENT
    first, last = read[0], read[-1]
    assert isinstance(first, CmdRunAction)
    assert (first.command, first.timeout, first.blocking) == ("ls", 5.0, True)
    assert isinstance(last, ErrorObservation)
    assert (last.content, last.error_id) == ("gone", "outcome.unknown")


def test_events_survive_a_round_trip_through_openhands(tmp_path: Path) -> None:
    file = tmp_path / "did.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in exported()))
    script = read_script(file)
    assert script.passed_over == {"message": 1, "error": 1}
    for step, asked, seen in zip(script.steps, ASKED, SEEN, strict=False):
        sent = encode_action(asked)
        got = encode_action(step.action)
        assert (got["action"], got["args"]) == (sent["action"], sent["args"])
        assert step.seen is not None
        assert step.seen["observation"] == seen.kind


def test_an_openhands_trajectory_can_be_replayed(tmp_path: Path) -> None:
    metadata = CmdOutputMetadata(exit_code=0, working_dir="/workspace")
    events: list[Event] = [
        MessageAction(content="please"),
        CmdRunAction(command="ls", thought="look"),
        CmdOutputObservation(content="f", command="ls", metadata=metadata),
        AgentThinkAction(thought="hm"),
        FileReadAction(path="/workspace/f"),
        ErrorObservation(content="no such file"),
    ]
    for number, event in enumerate(events):
        event._id = number  # type: ignore[attr-defined]
        event._source = EventSource.AGENT  # type: ignore[attr-defined]
    events[2]._cause = 1  # type: ignore[attr-defined]
    events[5]._cause = 4  # type: ignore[attr-defined]
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps([event_to_trajectory(event) for event in events]))
    script = read_script(file)
    assert [step.action.kind for step in script.steps] == ["run", "read"]
    assert [step.seen and step.seen["observation"] for step in script.steps] == ["run", "error"]
    assert script.passed_over == {"message": 1, "think": 1}
    assert script.working_dir == "/workspace"
