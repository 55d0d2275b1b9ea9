"""Reloads, cuts, a killed browser and several windows: nothing is lost, doubled or left hanging."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun
from bascule.core.editor_actions import VscodeCommand
from bascule.core.errors import AmbiguousWindow, OutcomeUnknown, WindowUnhealthy
from bascule.core.observations import CmdOutput
from bascule.runtime.vscode import VSCodeRuntime
from tests.contracts.runtime import Seen, gone
from tests.hub.serving import TcpRelay

from .driving import detached
from .rig import EditorWindow, Rig


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    """A window to be ill-treated; each test leaves it alive."""
    window = rig.wait(rig.open_window(tmp_path_factory.mktemp("trouble") / "ill-treated"))
    yield window
    rig.wait(window.page.context.close())


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    token = await rig.agent_token()
    async with VSCodeRuntime(rig.url, token, window=window.id) as agent:
        yield agent


async def test_a_reload_in_the_middle_of_a_command_ends_it_and_says_so(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    await agent.run(f"word=lost; {detached('pid')}")
    seen = Seen()
    running = asyncio.create_task(agent.run("echo up; sleep 600", blocking=True, on_progress=seen))
    await seen.wait_for(b"up")
    before = await rig.on(rig.host_number(window.id))
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as other:
        reload = asyncio.create_task(other.act(VscodeCommand("workbench.action.reloadWindow")))
        await rig.on(rig.newer_host(window.id, before))
        reload.cancel()

    with pytest.raises(OutcomeUnknown):
        await running
    assert (await agent.run("echo [$word]")).content == "[]\n"
    await gone(int((window.folder / "pid").read_text()))


async def test_a_page_that_disappears_abruptly_leaves_nothing_behind(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    """Its extension host lives on without an editor until the new page's takes over."""
    await agent.run("sleep 600 & echo $! > pid")
    context = window.page.context
    before = await rig.on(rig.host_number(window.id))
    await rig.on(rig.crash(window.page))
    window.page = await rig.on(window.server.open_tab(context, window.folder))
    await rig.on(rig.newer_host(window.id, before))

    assert (await agent.run("echo new")).content == "new\n"
    await gone(int((window.folder / "pid").read_text()))


async def test_an_action_of_a_live_host_is_not_repeated_by_the_next_host(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    """VS Code gives the second host of a workspace another storage directory than the first."""
    host = int((await agent.run("echo $PPID")).content)
    seen = Seen()
    command = "echo done >> times; echo up; sleep 600"
    running = asyncio.create_task(agent.run(command, blocking=True, on_progress=seen))
    await seen.wait_for(b"up")
    context = window.page.context
    before = await rig.on(rig.host_number(window.id))
    os.kill(host, signal.SIGSTOP)
    try:
        await rig.on(rig.crash(window.page))
        window.page = await rig.on(window.server.open_tab(context, window.folder))
        await rig.on(rig.newer_host(window.id, before))
        with pytest.raises(OutcomeUnknown):
            await running
    finally:
        os.kill(host, signal.SIGCONT)
    assert (await agent.run("cat times")).content == "done\n"


async def test_an_observation_made_while_disconnected_arrives_once(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    seen = Seen()
    running = asyncio.create_task(
        agent.run("echo up; read word < gate; echo x >> count; echo got $word", on_progress=seen)
    )
    os.mkfifo(window.folder / "gate")
    await seen.wait_for(b"up")
    await rig.on(_call(rig.relay.cut))
    await asyncio.to_thread((window.folder / "gate").write_text, "it\n")
    await asyncio.sleep(8)  # the time the line is down is what is tested
    await rig.on(_call(rig.relay.restore))

    answer = await running
    assert "got it\n" in answer.content
    assert (window.folder / "count").read_text() == "x\n"


async def test_a_killed_browser_is_detected_and_running_actions_end_in_a_named_error(
    rig: Rig, tmp_path: Path
) -> None:
    browser = await rig.on(rig.launch_browser())
    window = await rig.on(rig.open_window(tmp_path / "orphaned", browser))
    async with (
        VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id, patience=1) as agent,
        rig.noticing_soon(),
    ):
        seen = Seen()
        running = asyncio.create_task(
            agent.run("echo up; sleep 600", blocking=True, on_progress=seen)
        )
        await seen.wait_for(b"up")
        os.kill(await rig.on(rig.browser_pid(browser)), signal.SIGKILL)
        await rig.on(rig.status(window.id, "unhealthy"))
        with pytest.raises(OutcomeUnknown, match="it had started") as told:
            await running
        assert told.value.detail["sent"] is True
        with pytest.raises(WindowUnhealthy) as never_sent:
            await agent.read("anything")
        assert never_sent.value.detail["sent"] is False


async def test_actions_in_a_frozen_host_run_once_when_it_resumes(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    """What was in flight is answered, what came later waits, and nothing is done twice."""
    host = int((await agent.run("echo $PPID")).content)
    os.mkfifo(window.folder / "frozen")
    seen = Seen()
    in_flight = asyncio.create_task(
        agent.run("echo up; read word < frozen; echo $word >> counted", on_progress=seen)
    )
    await seen.wait_for(b"up")
    async with rig.noticing_soon():
        os.kill(host, signal.SIGSTOP)
        try:
            await rig.on(rig.status(window.id, "unhealthy"))
            later = asyncio.create_task(agent.run("echo later >> counted", shell="two"))
            await asyncio.to_thread((window.folder / "frozen").write_text, "once\n")
        finally:
            os.kill(host, signal.SIGCONT)
        await asyncio.gather(in_flight, later)
    assert sorted((window.folder / "counted").read_text().split()) == ["later", "once"]


async def test_an_action_id_runs_once_even_after_many_later_actions(
    rig: Rig, window: EditorWindow
) -> None:
    """Its sender lost its line before the answer came, and asks again after many others."""
    token = await rig.agent_token()
    action = CmdRun("echo up; read word < late; echo $word | tee -a repeated")
    os.mkfifo(window.folder / "late")
    async with VSCodeRuntime(rig.url, token, window=window.id) as agent:
        async with TcpRelay(int(rig.url.rpartition(":")[2])) as relay:
            lost = VSCodeRuntime(relay.url, token, window=window.id, patience=0.1)
            await lost.connect()
            seen = Seen()
            asking = asyncio.create_task(lost.act(action, on_progress=seen))
            await seen.wait_for(b"up")
            relay.cut()
            with pytest.raises(OutcomeUnknown, match="it had started"):
                await asking
            await lost.aclose()
        await asyncio.to_thread((window.folder / "late").write_text, "once\n")
        for _ in range(1100):
            await agent.list_dir()
        again = await agent.act(action)
    assert isinstance(again, CmdOutput), again
    assert again.content.endswith("once\n")
    assert (window.folder / "repeated").read_text() == "once\n"


async def test_with_two_windows_the_selected_one_acts(
    rig: Rig, vscode_window: EditorWindow, window: EditorWindow
) -> None:
    token = await rig.agent_token()
    with pytest.raises(AmbiguousWindow):
        async with VSCodeRuntime(rig.url, token):
            pass
    for each in (vscode_window, window):
        async with VSCodeRuntime(rig.url, token, window=str(each.folder)) as agent:
            assert (await agent.run("pwd")).content == f"{each.folder}\n"


async def test_of_two_tabs_the_newest_acts_and_the_other_takes_over_when_it_closes(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    await agent.run("name=first")
    before = await rig.on(rig.host_number(window.id))
    tab = await rig.on(window.server.open_tab(window.page.context, window.folder))
    await rig.on(rig.newer_host(window.id, before))
    assert (await agent.run("echo [$name]; name=second")).content == "[]\n"
    assert (await agent.run("echo [$name]")).content == "[second]\n"

    await rig.on(rig.close_tab(window.id, tab))
    assert (await agent.run("echo [$name]")).content == "[first]\n"


async def test_a_hub_restart_under_load_loses_and_repeats_no_action(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    """Every action leaves a line behind; each must be there once, in its order."""
    count, workers = 1000, 10
    done = 0
    wanted = asyncio.Event()

    async def work(worker: int) -> None:
        nonlocal done
        for n in range(count // workers):
            command = f"echo {worker}.{n} | tee -a log.{worker}"
            seen = await agent.act(CmdRun(command, shell=f"w{worker}"))
            assert isinstance(seen, CmdOutput), seen
            assert seen.content == f"{worker}.{n}\n"
            done += 1
            if done % 240 == 0:
                wanted.set()

    async def interfere() -> None:
        for _ in range(3):
            await wanted.wait()
            wanted.clear()
            await rig.on(rig.restart_hub())

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(interfere())
        for worker in range(workers):
            tasks.create_task(work(worker))

    for worker in range(workers):
        lines = (window.folder / f"log.{worker}").read_text().split()
        assert lines == [f"{worker}.{n}" for n in range(count // workers)]


async def test_the_editor_stays_responsive_during_thousands_of_quick_actions(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    """What is drawn for each is gathered, or the question for health would wait behind it all."""
    (window.folder / "file.txt").write_text("x" * 1024)
    for _ in range(1000):
        await agent.run("true")
        await agent.read("file.txt")
    async with rig.noticing_soon():
        assert await rig.on(rig.editor_answers(window.id))


async def _call(work: object) -> None:
    assert callable(work)
    work()
