"""How tool calls are followed, and how a permission is chosen: rules only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from bascule.adapters.acp.permissions import chosen, first_answer
from bascule.adapters.acp.tool_calls import ToolCalls
from bascule.core.errors import BasculeError, HubUnreachable, RemoteError


def update(name: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": name, "toolCallId": "1", **fields}


def test_a_tool_call_is_recorded_when_it_runs_and_when_it_ends() -> None:
    recorded: list[Mapping[str, Any]] = []
    times = iter([10.0, 12.5])
    calls = ToolCalls(recorded.append, clock=lambda: next(times))
    calls.on_update("s", update("tool_call", title="Edit", rawInput={}, status="pending"))
    assert recorded == []
    calls.on_update("s", update("tool_call_update", rawInput={"a": 1}, status="in_progress"))
    calls.on_update("s", update("tool_call_update", status="in_progress", title=None))
    diff = {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x"}
    calls.on_update("s", update("tool_call_update", content=[diff], status="failed"))
    began = {"name": "Edit", "arguments": {"a": 1}, "id": recorded[0]["id"]}
    over = {"output": "Changed /w/a", "failed": True, "seconds": 2.5}
    assert recorded == [began, {**began, **over}]


@pytest.mark.parametrize("wrong", [None, 7, [], {}, {"sessionUpdate": "plan"}, {"x": "tool_call"}])
def test_other_updates_are_ignored(wrong: object) -> None:
    recorded: list[Mapping[str, Any]] = []
    ToolCalls(recorded.append).on_update(7, wrong)
    assert recorded == []


def test_hostile_tool_calls_stay_small() -> None:
    recorded: list[Mapping[str, Any]] = []
    calls = ToolCalls(recorded.append)
    for number in range(2000):
        calls.on_update("s", {"sessionUpdate": "tool_call", "toolCallId": number})
    long = "x" * 1_000_000
    content = [{"type": "content", "content": {"type": "text", "text": long}}, 7, {"type": []}]
    calls.on_update(
        "s",
        update("tool_call", title=long, rawInput={"x": long}, content=content, status="completed"),
    )
    assert len(calls._calls) == 1000 - 1
    assert all(len(str(each)) < 32_000 for each in recorded)


def test_what_a_person_decides_on_is_exact() -> None:
    calls = ToolCalls(lambda _: None)
    command = calls.merge("s", {"toolCallId": 1, "kind": "execute", "rawInput": {"command": "ls"}})
    assert (command.command, command.detail, command.directory("/w")) == ("ls", "ls", "/w")
    moved = {"command": "ls", "cwd": "/w/a"}
    assert calls.merge("s", {"toolCallId": 1, "rawInput": moved}).directory("/w") == "/w/a"
    edit = {"type": "diff", "path": "/w/a", "oldText": "1\n2", "newText": "3"}
    changed = calls.merge("s", {"toolCallId": 2, "kind": "edit", "title": "E", "content": [edit]})
    assert (changed.command, changed.detail) == ("", "E\n\n/w/a\n- 1\n- 2\n+ 3")
    for relative, place in (("sub", "/w/sub"), ("../x", "/x"), ("", "/w"), (7, "/w"), (".", "/w")):
        inside = {"command": "ls", "dir_path": relative}
        fields = {"toolCallId": f"at {relative}", "kind": "execute", "rawInput": inside}
        assert calls.merge("s", fields).directory("/w") == place
    unknown = calls.merge("s", {"toolCallId": 4, "rawInput": {"command": "ls"}})
    assert unknown.command == ""
    read = calls.merge("s", {"toolCallId": 3, "kind": "read", "rawInput": {"command": "x"}})
    assert read.command == ""


def test_an_option_for_once_is_preferred() -> None:
    options = [
        "wrong",
        {"kind": "allow_always", "optionId": "a"},
        {"kind": "allow_once", "optionId": "b"},
        {"kind": "reject_always", "optionId": "c"},
    ]
    assert chosen(options, is_allowed=True)["outcome"]["optionId"] == "b"
    assert chosen(options, is_allowed=False)["outcome"]["optionId"] == "c"
    assert chosen([], is_allowed=True) == {"outcome": {"outcome": "cancelled"}}


async def test_the_first_answer_counts_and_failures_do_not() -> None:
    cancelled = asyncio.Event()

    async def never() -> Mapping[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    async def fails(error: BasculeError) -> Mapping[str, Any]:
        raise error

    async def answers() -> Mapping[str, Any]:
        return {"x": 1}

    unreachable = HubUnreachable("gone")
    assert await first_answer([never(), fails(unreachable), answers()]) == {"x": 1}
    assert cancelled.is_set()
    with pytest.raises(HubUnreachable):
        await first_answer([fails(unreachable)])
    with pytest.raises(RemoteError, match="nobody to ask"):
        await first_answer([])
