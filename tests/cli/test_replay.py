"""`bascule session export` and `bascule replay`, with a hub that is killed in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.processes import bascule
from tests.cli.test_session import Machine, machine

pytestmark = pytest.mark.slow

__all__ = ["machine"]


def test_replaying_a_session_reports_whether_results_differ(
    machine: Machine, tmp_path: Path
) -> None:
    file = tmp_path / "did.jsonl"
    with machine.hub() as hub:
        machine.must("create", "--name", "mine", "--secret", "SECRET_WORD")
        machine.must("exec", "mine", "mkdir -p a; echo $$ > 'a/x\x1b[31m<b>'; ls a; pwd; date")
        machine.session("exec", "mine", "echo 1 >> n; cat n; (exit 3)")
        hub.kill()
    with machine.hub():
        machine.must("exec", "mine", "echo the word: $SECRET_WORD")
        machine.must("export", "mine", "-o", str(file))
        events = [json.loads(line) for line in file.read_text().splitlines()]
        assert [event["id"] for event in events] == [1, 2, 3, 4, 5, 6]
        assert events[5]["content"] == "the word: ***\n"

        played = bascule("replay", str(file), env=machine.env)
        assert (played.returncode, played.stdout) == (0, "3 steps: 3 same\n"), played.stderr
        assert [each["name"] for each in json.loads(machine.must("list", "--json"))] == ["mine"]

        again = bascule("replay", str(file), "--session", "mine", "--json", env=machine.env)
        assert again.returncode == 1
        report = json.loads(again.stdout)
        assert report["counts"] == {"different": 1, "masked": 0, "unknown": 0, "same": 2}
        assert report["steps"][1]["differences"] == [{"what": "content", "was": "1", "now": "1\n1"}]
        machine.must("rm", "--all")
        assert machine.session("export", "mine").returncode == 2


def test_a_recording_is_replayed_in_a_folder_and_skipped_steps_are_reported(
    machine: Machine, tmp_path: Path
) -> None:
    ran = {"metadata": {"exit_code": 0, "working_dir": "/workspace"}}
    events = [
        {"id": 1, "action": "write", "args": {"path": "/workspace/f", "content": "x\n"}},
        {"id": 2, "cause": 1, "observation": "write", "extras": {"path": "/workspace/f"}},
        {"id": 3, "action": "run", "args": {"command": "curl ***"}, "bascule": {"masked": True}},
        {"id": 4, "action": "run", "args": {"command": "printf 'one\\ntwo\\n\\033]0;x'; false"}},
        {"id": 5, "cause": 4, "observation": "run", "content": "one\n2\n", "extras": ran},
        {"id": 6, "action": "finish", "args": {}},
    ]
    file = tmp_path / "did.json"
    file.write_text(json.dumps(events))
    folder = tmp_path / "place"
    folder.mkdir()
    played = bascule("replay", str(file), "--folder", str(folder), env=machine.env)
    assert played.returncode == 1
    assert "not run: it contains a masked secret" in played.stdout
    assert "    exit_code: 0 → 1\n" in played.stdout
    assert "      -2\n      +two\n      +\\x1b]0;x\n" in played.stdout
    assert played.stdout.endswith(
        "3 steps: 1 same, 1 different, 1 masked; 1 events skipped (finish 1)\n"
    )
    assert (folder / "f").read_text() == "x\n"
    file.write_text('{"id": 1, "action": "null"}\n{"id": 2, "act')
    broken = bascule("replay", str(file), "--local", env=machine.env)
    assert broken.returncode == 2
    assert f"{file}, line 2: " in broken.stderr
    unclear = bascule("replay", str(file), "--local", "--session", "mine", env=machine.env)
    assert (unclear.returncode, "give only one of --session" in unclear.stderr) == (2, True)


def test_replay_without_a_reachable_hub_runs_nothing(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "did.jsonl"
    made = tmp_path / "made"
    file.write_text(json.dumps({"action": "run", "args": {"command": f"touch {made}"}}) + "\n")
    machine.env["BASCULE_TOKEN"] = "any"
    machine.env["BASCULE_HUB"] = "http://127.0.0.1:9"
    played = bascule("replay", str(file), env=machine.env)
    assert played.returncode == 125
    assert "no hub answers" in played.stderr
    assert not made.exists()
