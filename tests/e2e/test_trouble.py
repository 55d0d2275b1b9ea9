"""Reloads, cuts, a killed browser and several windows: nothing is lost, doubled or left hanging."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.errors import AmbiguousWindow, LinkError, OutcomeUnknown, WindowUnhealthy
from bascule.runtime.vscode import VSCodeRuntime
from tests.contracts.runtime import Seen, gone

from .rig import EditorWindow, Rig


@pytest.fixture
async def window(rig: Rig, tmp_path: Path) -> AsyncIterator[EditorWindow]:
    """A window of the test's own, to be ill-treated."""
    window = await rig.on(rig.open_window(tmp_path / "ill-treated"))
    yield window
    await rig.on(window.page.context.close())


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    token = await rig.agent_token()
    async with VSCodeRuntime(rig.url, token, window=window.id) as agent:
        yield agent


async def test_a_reload_in_the_middle_of_a_command_ends_it_and_says_so(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    await agent.run("word=lost; nohup setsid sleep 600 & echo $! > pid")
    seen = Seen()
    running = asyncio.create_task(agent.run("echo up; sleep 600", on_progress=seen))
    await seen.wait_for(b"up")
    await rig.on(rig.reload(window))

    with pytest.raises(OutcomeUnknown):
        await running
    assert (await agent.run("echo [$word]")).content == "[]\n"
    await gone(int((window.folder / "pid").read_text()))


async def test_an_observation_made_while_the_line_is_cut_arrives_once(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    seen = Seen()
    running = asyncio.create_task(
        agent.run("echo up; read word < gate; echo x >> count; echo got $word", on_progress=seen)
    )
    os.mkfifo(window.folder / "gate")
    await seen.wait_for(b"up")
    await rig.on(_call(rig.line.cut))
    await asyncio.to_thread((window.folder / "gate").write_text, "it\n")
    await asyncio.sleep(8)  # the time the line is down is what is tested
    await rig.on(_call(rig.line.mend))

    answer = await running
    assert "got it\n" in answer.content
    assert (window.folder / "count").read_text() == "x\n"


async def test_a_killed_browser_is_noticed_and_what_ran_ends_in_a_named_error(
    rig: Rig, tmp_path: Path
) -> None:
    browser = await rig.on(rig.launch_browser())
    window = await rig.on(rig.open_window(tmp_path / "orphaned", browser))
    async with VSCodeRuntime(
        rig.url, await rig.agent_token(), window=window.id, patience=1
    ) as agent:
        seen = Seen()
        running = asyncio.create_task(agent.run("echo up; sleep 600", on_progress=seen))
        await seen.wait_for(b"up")
        os.kill(await rig.on(rig.browser_pid(browser)), signal.SIGKILL)
        async with asyncio.timeout(10):
            await rig.on(rig.status(window.id, "unhealthy"))
        with pytest.raises(WindowUnhealthy):
            await running
        with pytest.raises(LinkError):
            await agent.read("anything")


async def test_of_two_windows_the_one_that_is_named_acts(
    rig: Rig, vscode_window: EditorWindow, window: EditorWindow
) -> None:
    token = await rig.agent_token()
    with pytest.raises(AmbiguousWindow):
        async with VSCodeRuntime(rig.url, token):
            pass
    for each in (vscode_window, window):
        async with VSCodeRuntime(rig.url, token, window=str(each.folder)) as agent:
            assert (await agent.run("pwd")).content == f"{each.folder}\n"


async def _call(work: object) -> None:
    assert callable(work)
    work()
