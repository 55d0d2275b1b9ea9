"""Commands through VS Code's shell integration, where a terminal of our own cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import CmdRun
from bascule.core.observations import CmdOutput
from bascule.runtime.vscode import VSCodeRuntime
from tests.contracts.runtime import Seen

from .rig import EditorWindow, Rig


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    """A user without start-up files, which the integration would wait for."""
    home = tmp_path_factory.mktemp("integrated")
    settings = {"bascule.terminal.kind": "integrated"}
    server = rig.wait(rig.serve("integrated", settings, {"HOME": str(home)}))
    folder = home / "workspace"
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent:
        yield agent


async def test_commands_run_in_a_shell_that_keeps_state(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow
) -> None:
    first = await agent.run("mkdir -p inner; cd inner; word=kept; echo out; (exit 3)")
    assert (first.content, first.exit_code) == ("out\n", 3)
    assert "shell integration" in first.metadata.prefix
    again = await agent.run("echo $word\nbasename $PWD # of two lines")
    assert (again.content, again.exit_code) == ("kept\ninner\n", 0)
    await agent.write("here.txt", "text")
    assert (window.folder / "inner/here.txt").exists()
    await rig.on(_shows_a_terminal(window.page))


@pytest.mark.parametrize(
    ("command", "status"), [("(exit 7)", 7), ("# a comment", 0), ("echo '", 2)]
)
async def test_commands_without_an_end_mark_from_shell_integration_still_end(
    agent: VSCodeRuntime, command: str, status: int
) -> None:
    assert (await agent.run(command, timeout=20)).exit_code == status


async def test_output_is_complete_and_streamed(agent: VSCodeRuntime) -> None:
    seen = Seen()
    answer = await agent.act(CmdRun("seq 1 20000", output_limit=0), on_progress=seen)
    assert isinstance(answer, CmdOutput)
    assert answer.content == "".join(f"{n}\n" for n in range(1, 20001))
    await seen.wait_for(b"\n20000\n")


async def test_a_program_is_timed_out_typed_into_and_interrupted(agent: VSCodeRuntime) -> None:
    asked = await agent.run("read line; echo got $line", timeout=1)
    assert asked.exit_code == -1
    answered = await agent.run("this", is_input=True)
    assert "got this\n" in answered.content
    assert answered.exit_code == 0

    seen = Seen()
    running = asyncio.create_task(agent.run("echo up; sleep 600", blocking=True, on_progress=seen))
    await seen.wait_for(b"up")
    assert (await agent.interrupt()).was_running
    assert (await running).exit_code == 130


async def test_a_cancelled_command_does_not_block_the_next(agent: VSCodeRuntime) -> None:
    seen = Seen()
    running = asyncio.create_task(agent.run("echo up; sleep 600", blocking=True, on_progress=seen))
    await seen.wait_for(b"up")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await agent.run("echo next")).content == "next\n"


async def test_a_shell_that_ended_is_replaced_and_the_new_shell_says_so(
    agent: VSCodeRuntime,
) -> None:
    await agent.run("word=lost")
    assert (await agent.run("exit 3")).metadata.shell_ended
    answer = await agent.run("echo [$word]")
    assert answer.content == "[]\n"
    assert answer.metadata.new_shell


async def test_a_new_shell_whose_first_command_ends_it_says_so(agent: VSCodeRuntime) -> None:
    """VS Code starts another shell in its place, because it takes an early end for a failure."""
    for number in range(3):
        ended = await agent.run("exit 3", shell=f"short{number}")
        assert ended.metadata.shell_ended
        assert "\x1b" not in ended.content
    again = await agent.run("echo next", shell="short0")
    assert (again.content, again.metadata.new_shell) == ("next\n", True)


async def _shows_a_terminal(page: Page) -> None:
    await expect(page.locator(".terminal-tab, .single-terminal-tab").first).to_be_visible()
