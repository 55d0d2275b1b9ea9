"""A trace played again gives the same markings, and a wrong one is found out."""

from __future__ import annotations

import json

import pytest

from bascule.core.errors import TraceMismatch
from bascule.net import Net, replay
from bascule.net.trace import line, tokens_by_place
from tests.net.test_runner import CHOICE, PAIR
from tests.net.writing import net, play, step


async def traced(found: Net, window: object = None) -> tuple[list[str], dict[str, list[object]]]:
    result, events = await play(found, window)
    return [line(event) for event in events], tokens_by_place(result.marking)


@pytest.mark.parametrize("body", [CHOICE, PAIR.replace("await vscode_bridge.wait()", "7")])
async def test_replaying_a_trace_reaches_the_final_marking_of_its_run(body: str) -> None:
    lines, marking = await traced(net(body))
    moments = list(replay(net(body), lines))

    assert tokens_by_place(moments[-1].marking) == marking
    assert len(moments) == len(lines)


async def test_a_failed_firing_is_in_the_trace_and_changes_nothing() -> None:
    found = step("1 / 0", mode="async")
    lines, _ = await traced(found)

    kinds = [json.loads(each)["event"] for each in lines]
    assert kinds == ["started", "begun", "undone", "ended"]
    assert tokens_by_place(list(replay(found, lines))[-1].marking) == {"before": [1]}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda lines: [lines[0], lines[1].replace("first", "third")], "no transition 'third'"),
        (lambda lines: [*lines[:1], *lines[2:]], "lead to another marking"),
        (lambda lines: [lines[0], lines[1], lines[1]], "no token 1 in 'p'"),
        (lambda lines: lines[1:], "begins with 'started'"),
        (lambda lines: ["{"], "is not JSON"),
        (lambda lines: ["[]"], "is not an event"),
        (lambda lines: [lines[0].replace('"p"', '"z"')], "no place 'z'"),
    ],
)  # fmt: skip
async def test_a_trace_that_does_not_fit_the_net_is_rejected(
    change: object, complaint: str
) -> None:
    lines, _ = await traced(net(CHOICE))
    assert callable(change)

    with pytest.raises(TraceMismatch, match=complaint):
        list(replay(net(CHOICE), change(lines)))
