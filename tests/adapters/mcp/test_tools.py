"""What tools do, over a sandbox in this process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import ClientSession, McpError
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification

from bascule.adapters.mcp import SingleTarget, ToolTargets
from bascule.adapters.mcp._pages import PAGE_CHARACTERS
from bascule.core.contracts import Runtime
from bascule.runtime import LocalRuntime

from .clients import at, call, code_of, held, names_of, sandbox_in, text_of

SANDBOX_TOOLS = {
    *("run_command", "read_output", "type_input", "interrupt", "read_file", "write_file"),
    *("edit_file", "list_directory", "find_files", "search_text", "run_python", "read_more"),
}


@pytest.fixture
def sandbox(tmp_path: Path) -> ToolTargets:
    return sandbox_in(tmp_path)


@pytest.fixture
async def client(sandbox: ToolTargets) -> AsyncIterator[ClientSession]:
    async with held(at(sandbox)) as session:
        yield session


async def test_the_tool_list_matches_the_capabilities_of_the_sandbox(client: ClientSession) -> None:
    names = names_of(await client.list_tools())

    assert names >= SANDBOX_TOOLS
    assert not names & {"ask_user", "open_file", "list_windows", "use_session"}


async def test_every_tool_is_described_and_annotated(client: ClientSession) -> None:
    for tool in (await client.list_tools()).tools:
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.readOnlyHint is not None
        for name, schema in tool.inputSchema["properties"].items():
            assert {"type"} <= schema.keys(), (tool.name, name)


async def test_tools_are_annotated_as_read_only_or_modifying(client: ClientSession) -> None:
    hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    assert hints["read_file"] is not None
    assert hints["read_file"].readOnlyHint
    assert hints["write_file"] is not None
    assert hints["write_file"].destructiveHint


@pytest.mark.slow
async def test_a_failing_test_is_mended(client: ClientSession, tmp_path: Path) -> None:
    await call(client, "write_file", path="sums.py", content="assert 2 - 2 == 4\n")
    before = await call(client, "run_command", command="python3 sums.py")
    await call(client, "edit_file", path="sums.py", old="2 - 2", new="2 + 2")
    after = await call(client, "run_command", command="python3 sums.py")

    assert before.structuredContent is not None
    assert before.structuredContent["exit_code"] == 1
    assert after.structuredContent is not None
    assert after.structuredContent["exit_code"] == 0
    assert (tmp_path / "sums.py").read_text() == "assert 2 + 2 == 4\n"


async def test_an_edit_that_fails_names_the_arguments_of_the_tool(
    client: ClientSession, tmp_path: Path
) -> None:
    await call(client, "write_file", path="a.txt", content="one one\nold_str\n")
    answers = [
        await call(client, "edit_file", path="a.txt", old=old, new=new)
        for old, new in (("old_str none", "x"), ("one", "x"), ("one one", "one one"))
    ]

    begin = "No replacement was performed"
    none, several, same = (text_of(each).removeprefix(begin) for each in answers)
    assert none.startswith(f", `old` `old_str none` did not appear verbatim in {tmp_path}/a.txt.")
    assert several.startswith(". Multiple occurrences of `old` `one` in lines [1]. Please ensure")
    assert same.startswith(". `new` and `old` must be different.")
    assert all("_str`" not in str(each.structuredContent) for each in answers)


async def test_files_are_found_listed_searched_and_read(client: ClientSession) -> None:
    await call(client, "write_file", path="deep/one.py", content="first\nneedle here\nlast\n")

    listed = await call(client, "list_directory", depth=2)
    found = await call(client, "find_files", pattern="**/*.py")
    searched = await call(client, "search_text", pattern="need.e")
    read = await call(client, "read_file", path="deep/one.py", first_line=2, last_line=2)

    assert "deep/" in text_of(listed)
    assert text_of(found).strip().endswith("deep/one.py")
    assert "needle here" in text_of(searched)
    assert text_of(read) == "needle here\n"


@pytest.mark.slow
async def test_a_program_is_read_on_typed_into_and_interrupted(client: ClientSession) -> None:
    started = await call(client, "run_command", command="read word; echo got $word; cat", wait=0.1)
    typed = await call(client, "type_input", text="hello", wait=0.1)
    refused = await call(client, "run_command", command="echo too early")
    interrupted = await call(client, "interrupt")
    ended = await call(client, "read_output")

    assert "still runs" in text_of(started)
    assert "got hello" in text_of(typed)
    assert refused.isError
    assert "NOT run" in text_of(refused)
    assert not interrupted.isError
    assert ended.structuredContent is not None
    assert ended.structuredContent["state"] in ("done", "idle")


@pytest.mark.slow
async def test_cells_keep_state_between_calls(client: ClientSession) -> None:
    await call(client, "run_python", code="x = 20")
    seen = await call(client, "run_python", code="x + 1")

    assert "21" in text_of(seen)


async def test_a_path_outside_the_roots_is_refused(client: ClientSession) -> None:
    for tool, more in (("read_file", {}), ("write_file", {"content": "x"})):
        assert code_of(await call(client, tool, path="/etc/passwd", **more)) == "path.outside_roots"


async def test_a_missing_file_returns_an_error_result(client: ClientSession) -> None:
    assert code_of(await call(client, "read_file", path="nowhere")) == "path.not_found"


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("run_command", {}, "'command' is a required property"),
        ("run_command", {"command": "ls", "timeout": 3}, "'timeout' was unexpected"),
        ("run_command", {"command": 3}, "command: 3 is not of type 'string'"),
        ("read_file", {"path": "x", "first_line": 0}, "first_line: 0 is less than the minimum"),
        ("fly", {}, "There is no tool 'fly'"),
        ("ask_user", {"question": "?"}, "ask_user is not available here"),
    ],
)
async def test_a_wrong_tool_argument_is_explained_in_the_result(
    client: ClientSession, tool: str, arguments: dict[str, object], complaint: str
) -> None:
    result = await client.call_tool(tool, arguments)

    assert result.isError
    assert complaint in text_of(result)


@pytest.mark.slow
async def test_ten_megabytes_are_cut_and_can_be_read_to_the_end(client: ClientSession) -> None:
    command = (
        "for i in $(seq 1 10); do head -c 1000000 /dev/zero | tr '\\0' x; echo; done; echo end"
    )
    result = await call(client, "run_command", command=command)
    text = text_of(result)

    assert len(text) < PAGE_CHARACTERS + 1000
    assert "end" in text[-100:]
    assert "exit status 0" in text
    head = text.partition("\n[…")[0]
    whole = head + "".join(await read_all(client, text))
    assert whole == ("x" * 1_000_000 + "\n") * 10 + "end\n"


async def read_all(client: ClientSession, text: str) -> list[str]:
    """What `read_more` gives, page after page, without the notes."""
    pages = []
    while where := re.search(r"read_more with answer '(\w+)' and offset (\d+)", text):
        more = await call(client, "read_more", answer=where[1], offset=int(where[2]))
        text = text_of(more)
        pages.append(text.partition("\n[…")[0])
    return pages


async def test_a_long_file_ends_with_how_to_read_on(client: ClientSession) -> None:
    await call(client, "write_file", path="long", content="line\n" * 20_000)

    text = text_of(await call(client, "read_file", path="long"))

    assert "read_more" in text[-200:]
    assert len((await read_all(client, text))[-1]) > 0


async def test_reading_more_of_an_unknown_answer_is_a_usage_error(client: ClientSession) -> None:
    assert code_of(await call(client, "read_more", answer="a9", offset=0)) == "usage"


async def test_progress_is_reported_while_a_command_runs(client: ClientSession) -> None:
    told: list[str] = []
    said = asyncio.Event()

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        said.set()

    running = asyncio.ensure_future(
        client.call_tool(
            "run_command", {"command": "echo one; read; echo two"}, progress_callback=listen
        )
    )
    await asyncio.wait_for(said.wait(), 20)
    await call(client, "type_input", text="")
    result = await running

    assert told[0].startswith("one")
    assert "one" in text_of(result)


async def test_a_call_that_is_cancelled_interrupts_its_command(client: ClientSession) -> None:
    begun = asyncio.Event()

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    number = client._request_id
    running = asyncio.ensure_future(
        client.call_tool(
            "run_command",
            {"command": "echo begun; sleep 600", "wait": 600},
            progress_callback=listen,
        )
    )
    await asyncio.wait_for(begun.wait(), 20)
    params = CancelledNotificationParams(requestId=number)
    await client.send_notification(ClientNotification(CancelledNotification(params=params)))
    with pytest.raises(McpError, match="cancelled"):
        await running
    after = await call(client, "run_command", command="echo usable")

    assert text_of(after).startswith("usable\n")


async def test_the_changes_of_a_command_are_listed_shown_and_restored(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "notes").write_text("one\n")
    runtime = LocalRuntime(workspace, checkpoints=tmp_path / "store")

    async def opened() -> Runtime:
        await runtime.connect()
        return runtime

    async with at(SingleTarget(opened)) as client:
        assert text_of(await call(client, "list_checkpoints")) == "No checkpoints yet"
        await call(client, "run_command", command="echo two > notes; touch made")
        listed = await call(client, "list_checkpoints")
        assert listed.structuredContent is not None
        (found,) = listed.structuredContent["checkpoints"]
        shown = await call(client, "show_checkpoint", checkpoint=found["id"], paths=["notes"])
        assert "-one\n+two" in text_of(shown)
        (workspace / "notes").write_text("mine\n")
        restored = await call(client, "restore_checkpoint", checkpoint=found["id"])
        missing = await call(client, "restore_checkpoint", checkpoint=99)

    assert "removed made" in text_of(restored)
    assert "left alone: notes: it was changed since" in text_of(restored)
    assert (workspace / "notes").read_text() == "mine\n"
    assert not (workspace / "made").exists()
    assert code_of(missing) == "checkpoint.not_found"
