"""Scripts played in a sandbox of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bascule.runtime import LocalRuntime
from bascule.runtime.replay import Script, Step, StepOutcome, Verdict, play
from bascule.wire import decode_action


def step(number: int, command: str, content: str | None = "", **fields: Any) -> Step:
    metadata = {"exit_code": fields.pop("exit_code", 0), "working_dir": "/workspace"}
    seen = {"observation": "run", "content": content, "extras": {"metadata": metadata}}
    action = decode_action({"action": "run", "args": {"command": command}})
    if "answered_before" not in fields and number > 1:
        fields["answered_before"] = (number - 1,)
    return Step(
        number=number,
        line=number,
        action=fields.pop("action", action),
        seen=None if content is None else seen,
        **fields,
    )


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[LocalRuntime]:
    async with LocalRuntime(tmp_path) as opened:
        yield opened


def verdicts(outcomes: list[StepOutcome]) -> list[str]:
    return [str(each.verdict) for each in outcomes]


async def test_replayed_steps_are_compared_in_the_new_directory(runtime: LocalRuntime) -> None:
    script = Script(
        steps=[
            step(1, "cd /workspace && pwd", "/workspace\n"),
            step(2, "echo 1 > /workspace/f; cat f", "1\n"),
            step(3, "cat f; false", "2\n"),
        ],
        working_dir="/workspace",
    )
    told: list[StepOutcome] = []
    outcomes = await play(script, runtime, on_outcome=told.append)
    assert verdicts(outcomes) == ["same", "same", "different"]
    assert [(each.what, each.was, each.now) for each in outcomes[2].differences] == [
        ("content", "2", "1"),
        ("exit_code", "0", "1"),
    ]
    assert told == outcomes


async def test_a_masked_step_is_skipped(runtime: LocalRuntime, tmp_path: Path) -> None:
    script = Script(
        steps=[
            step(1, "echo *** > made", is_masked=True),
            step(2, "echo secret", "***\n", is_seen_masked=True),
        ],
        working_dir="/workspace",
    )
    assert verdicts(await play(script, runtime)) == ["masked", "same"]
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
async def test_overlapping_steps_overlap_in_the_replay(runtime: LocalRuntime) -> None:
    """An interrupt only makes sense while the command runs."""
    interrupt = decode_action({"action": "interrupt", "args": {}})
    script = Script(
        steps=[
            step(1, "sleep 100", "^C\n", exit_code=130, began=0.0),
            step(2, "", None, action=interrupt, answered_before=(), began=0.2),
            step(3, "echo after", "after\n", answered_before=(1,), began=0.3),
        ],
        working_dir="/workspace",
    )
    outcomes = await play(script, runtime)
    assert outcomes[0].seen is not None
    assert outcomes[0].seen["extras"]["metadata"]["exit_code"] == 130
    assert outcomes[1].verdict is Verdict.UNKNOWN
    assert outcomes[2].verdict is Verdict.SAME


@pytest.mark.slow
async def test_steps_without_a_recorded_end_are_interrupted(runtime: LocalRuntime) -> None:
    script = Script(
        steps=[
            step(1, "sleep 100", None, began=0.0),
            step(2, "echo after", "after\n", answered_before=(), began=0.1),
            step(3, "sleep 100", None, answered_before=(2,), began=0.2),
            step(4, "echo ***", None, answered_before=(), began=0.3, is_masked=True),
        ],
        working_dir="/workspace",
    )
    assert verdicts(await play(script, runtime)) == [
        "unknown",
        "same",
        "unknown",
        "masked",
    ]
