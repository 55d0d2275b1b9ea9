"""What becomes of actions when window, hub or network fail under them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun, FileRead, FileWrite
from bascule.core.errors import (
    AccessDenied,
    AmbiguousWindow,
    HubUnreachable,
    InvalidSetting,
    NotSupported,
    NoWindow,
    OutcomeUnknown,
    UsageError,
    WindowGone,
    WindowUnhealthy,
)
from bascule.core.observations import CmdOutput, Error, FileWritten
from bascule.core.windows import ACTION_LIFE, WindowId
from bascule.runtime.sync import SyncRuntime
from bascule.runtime.vscode import VSCodeRuntime
from bascule.testing.window import Journal
from bascule.wire import encode_action, to_json
from tests.hub.serving import RunningHub, TcpRelay

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RunningHub(tmp_path / "state") as hub:
        yield hub


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


class Begun:
    """Notices the first output of a command."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __call__(self, _progress: object) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


# The line -------------------------------------------------------------------------------------


async def test_an_observation_in_flight_when_the_windows_line_is_cut_arrives_once(
    hub: RunningHub, workspace: Path
) -> None:
    async with (
        TcpRelay(hub.port) as relay,
        hub.fake_window(workspace, url=relay.url) as window,
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        os.mkfifo(workspace / "pipe")
        begun = Begun()
        running = asyncio.create_task(
            runtime.run("echo up; read w < pipe; echo $w >> lines; cat lines", on_progress=begun)
        )
        await begun.wait()
        relay.cut()
        await asyncio.to_thread((workspace / "pipe").write_text, "once\n")
        await window.journal.has_ended.wait()
        assert window.journal.unsent()  # the observation is there and nobody has it
        relay.restore()
        assert (await running).content.endswith("once\n")
        assert (workspace / "lines").read_text() == "once\n"


async def test_an_action_sent_while_disconnected_runs_once(
    hub: RunningHub, workspace: Path
) -> None:
    async with (
        TcpRelay(hub.port) as relay,
        hub.fake_window(workspace) as window,
        VSCodeRuntime(relay.url, hub.agent) as runtime,
    ):
        os.mkfifo(workspace / "pipe")
        begun = Begun()
        running = asyncio.create_task(
            runtime.run("echo up; echo x >> lines; read w < pipe; cat lines", on_progress=begun)
        )
        await begun.wait()
        relay.cut()
        relay.restore()
        await runtime.run("true", shell="other")  # the link is back
        await asyncio.to_thread((workspace / "pipe").write_text, "go\n")
        assert (await running).content.endswith("x\n")
        assert (workspace / "lines").read_text() == "x\n"
        assert len(window.done) == 2


async def test_a_silent_connection_loses_nothing(hub: RunningHub, workspace: Path) -> None:
    async with (
        TcpRelay(hub.port) as relay,
        hub.fake_window(workspace, url=relay.url),
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        relay.stall()
        running = asyncio.create_task(runtime.run("echo here"))
        await asyncio.sleep(0.3)
        assert not running.done()
        relay.restore()
        assert (await running).content == "here\n"


# The hub --------------------------------------------------------------------------------------


async def test_a_hub_restart_under_load_loses_and_repeats_no_action(
    hub: RunningHub, workspace: Path
) -> None:
    """Every action leaves a line behind; each must be there once."""
    count, workers = 300, 10
    async with (
        hub.fake_window(workspace) as window,
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        done = 0
        restart = asyncio.Event()

        async def work(worker: int) -> None:
            nonlocal done
            for n in range(count // workers):
                line = f"{worker}.{n}"
                seen = await runtime.run(f"echo {line} | tee -a log.{worker}", shell=f"w{worker}")
                assert seen.content == f"{line}\n"
                done += 1
                if done % 70 == 0:
                    restart.set()

        async def interfere() -> None:
            for _ in range(3):
                await restart.wait()
                restart.clear()
                await hub.stop()
                await hub.start()

        interfering = asyncio.create_task(interfere())
        await asyncio.gather(*map(work, range(workers)))
        await interfering

    for worker in range(workers):
        lines = (workspace / f"log.{worker}").read_text().split()
        assert lines == [f"{worker}.{n}" for n in range(count // workers)]
    assert len(window.done) == len(set(window.done)) == count


async def test_a_hub_that_stays_unreachable_is_reported(hub: RunningHub, workspace: Path) -> None:
    async with (
        hub.fake_window(workspace),
        VSCodeRuntime(hub.url, hub.agent, patience=0.3) as runtime,
    ):
        await runtime.run("true")
        await hub.stop()
        with pytest.raises(HubUnreachable):
            await runtime.run("true")


async def test_a_token_that_was_revoked_meanwhile_ends_the_runtime(
    hub: RunningHub, workspace: Path
) -> None:
    async with hub.fake_window(workspace), VSCodeRuntime(hub.url, hub.agent) as runtime:
        await hub.hub.tokens.revoke("agent")
        await runtime.run("true")  # the socket it has is good
        await hub.stop()
        await hub.start()
        with pytest.raises(AccessDenied):
            await runtime.run("true")


# The window -----------------------------------------------------------------------------------


async def test_an_action_the_reload_killed_ends_in_a_named_error(
    hub: RunningHub, workspace: Path
) -> None:
    journal = Journal()
    async with (
        hub.fake_window(workspace, journal=journal) as before,
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        begun = Begun()
        running = asyncio.create_task(
            runtime.act(CmdRun("echo x >> lines; echo up; sleep 60"), on_progress=begun)
        )
        await begun.wait()
        await before.aclose()
        async with hub.fake_window(workspace, journal=journal) as after:
            seen = await running
            assert isinstance(seen, Error)
            assert seen.error_id == "outcome.unknown"
            assert after.done == []
            assert (await runtime.run("echo alive")).content == "alive\n"
            assert (workspace / "lines").read_text() == "x\n"


async def test_an_action_that_ended_before_a_reload_is_answered_after_it(
    hub: RunningHub, workspace: Path
) -> None:
    journal, action = Journal(), CmdRun("echo x | tee -a lines")
    seen = []
    for _ in range(2):
        async with (
            hub.fake_window(workspace, journal=journal),
            VSCodeRuntime(hub.url, hub.agent) as runtime,
        ):
            seen.append(await runtime.act(action))
    first, again = seen
    assert isinstance(again, CmdOutput)
    assert again.id == first.id
    assert (workspace / "lines").read_text() == "x\n"


async def test_actions_of_a_window_that_does_not_return_have_an_unknown_outcome(
    hub: RunningHub, workspace: Path
) -> None:
    async with (
        hub.fake_window(workspace) as window,
        VSCodeRuntime(hub.url, hub.agent, patience=0.3) as runtime,
    ):
        begun = Begun()
        running = asyncio.create_task(runtime.run("echo up; sleep 60", on_progress=begun))
        await begun.wait()
        await window.aclose()
        with pytest.raises(OutcomeUnknown):
            await running
        with pytest.raises(WindowGone):
            await runtime.run("true")


async def test_the_death_of_an_editor_ends_actions_with_a_named_error(workspace: Path) -> None:
    async with (
        RunningHub(heartbeat=0.05, probe_timeout=1.0) as hub,
        hub.fake_window(workspace) as window,
        VSCodeRuntime(hub.url, hub.agent, patience=0.3) as runtime,
    ):
        begun = Begun()
        running = asyncio.create_task(runtime.run("echo up; sleep 60", on_progress=begun))
        await begun.wait()
        window.editor_is_dead = True
        with pytest.raises(OutcomeUnknown, match="3 bytes of its output arrived") as told:
            await running
        assert told.value.detail["sent"] is True
        assert told.value.detail["output_bytes"] == 3
        with pytest.raises(WindowUnhealthy) as never_sent:
            await runtime.run("echo x >> lines")
        assert never_sent.value.detail["sent"] is False
        assert not (workspace / "lines").exists()


async def test_actions_wait_for_an_editor_that_reconnects(workspace: Path) -> None:
    async with (
        RunningHub(heartbeat=0.05, probe_timeout=1.0) as hub,
        hub.fake_window(workspace) as window,
        VSCodeRuntime(hub.url, hub.agent, patience=60) as runtime,
    ):
        os.mkfifo(workspace / "pipe")
        begun = Begun()
        in_flight = asyncio.create_task(
            runtime.run("echo up; read w < pipe; echo $w | tee -a lines", on_progress=begun)
        )
        await begun.wait()
        window.editor_is_dead = True
        await _status(hub, "unhealthy")
        later = asyncio.create_task(runtime.run("echo later >> lines; echo done", shell="two"))
        await asyncio.to_thread((workspace / "pipe").write_text, "once\n")
        window.editor_is_dead = False
        assert (await in_flight).content.endswith("once\n")
        assert (await later).content == "done\n"
        assert sorted((workspace / "lines").read_text().split()) == ["later", "once"]
        assert len(window.done) == 2


async def test_an_action_id_runs_once_even_after_many_later_actions(
    hub: RunningHub, workspace: Path
) -> None:
    """Its sender never got the answer, and asks for it after thousands of others."""
    journal, action = Journal(), CmdRun("echo x | tee -a lines")
    async with hub.fake_window(workspace, journal=journal) as window:
        async with VSCodeRuntime(hub.url, hub.agent) as runtime:
            begun = asyncio.create_task(runtime._link.act(WindowId(window.id), action))
            await window.journal.has_ended.wait()
            begun.cancel()
            for n in range(1500):
                await runtime.act(FileRead(f"file-{n}"))
            again = await runtime.act(action)
        assert isinstance(again, CmdOutput)
        assert (workspace / "lines").read_text() == "x\n"


async def test_an_expired_action_is_not_started(hub: RunningHub, workspace: Path) -> None:
    async with (
        hub.fake_window(workspace) as window,
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        late = await runtime._link.act(
            WindowId(window.id), CmdRun("echo x > lines"), age=ACTION_LIFE + 1
        )
        assert isinstance(late, Error)
        assert late.error_id == "outcome.unknown"
        assert not (workspace / "lines").exists()


async def test_delivered_observations_are_removed_from_the_journal(
    hub: RunningHub, workspace: Path
) -> None:
    async with hub.fake_window(workspace) as window:
        async with VSCodeRuntime(hub.url, hub.agent) as runtime:
            seen = await runtime.run("echo hi")
        assert seen.cause is not None
        async with asyncio.timeout(60):
            while window.journal.begun[seen.cause].observation is not None:
                await asyncio.sleep(0.01)


async def test_connecting_waits_for_hub_and_window(hub: RunningHub, workspace: Path) -> None:
    await hub.stop()
    runtime = VSCodeRuntime(hub.url, hub.agent, patience=60)
    connecting = asyncio.create_task(runtime.connect())
    await asyncio.sleep(0.3)  # the time without a hub is what is tested
    await hub.start()
    async with hub.fake_window(workspace):
        await connecting
        assert (await runtime.run("echo hi")).content == "hi\n"
        await runtime.aclose()


async def test_oversized_actions_and_observations_are_errors(workspace: Path) -> None:
    async with (
        RunningHub(message_bytes=1 << 20) as hub,
        hub.fake_window(workspace),
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        there = await runtime.act(FileWrite("big", "x" * (2 << 20)))
        assert isinstance(there, Error)
        assert there.error_id == "message.too_large"
        back = await runtime.act(CmdRun("printf '%02000000d' 0", output_limit=0))
        assert isinstance(back, Error)
        assert back.error_id == "message.too_large"
        assert (await runtime.run("echo fine")).content == "fine\n"


async def test_an_action_at_the_size_limit_is_sent_and_its_size_counts_bytes(
    workspace: Path,
) -> None:
    limit = 1 << 18
    async with (
        RunningHub(message_bytes=limit) as hub,
        hub.fake_window(workspace),
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        around = len(to_json(encode_action(FileWrite("big", "")))) + 200
        for text in ("x" * (limit - around), "é" * ((limit - around) // 2)):
            seen = await runtime.act(FileWrite("big", text))
            assert isinstance(seen, FileWritten), seen.content
            assert (workspace / "big").read_text().rstrip("\n") == text
        seen = await runtime.act(FileWrite("big", "é" * (limit // 2)))
        assert isinstance(seen, Error)
        assert seen.error_id == "message.too_large"


async def test_actions_are_begun_in_the_order_they_were_sent(
    hub: RunningHub, workspace: Path
) -> None:
    async with (
        hub.fake_window(workspace) as window,
        VSCodeRuntime(hub.url, hub.agent) as runtime,
    ):
        actions = [FileRead(f"file-{n}") for n in range(200)]
        await asyncio.gather(*map(runtime.act, actions))
        assert window.done == [action.id for action in actions]


# Picking --------------------------------------------------------------------------------------


async def test_two_windows_are_ambiguous_without_a_selector(
    hub: RunningHub, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        hub.fake_window(tmp_path / "one", name="first"),
        hub.fake_window(tmp_path / "two", name="second"),
    ):
        with pytest.raises(AmbiguousWindow, match=r"first.*second"):
            await VSCodeRuntime(hub.url, hub.agent).connect()
        async with VSCodeRuntime(hub.url, hub.agent, window=str(tmp_path / "two")) as runtime:
            assert runtime.window.name == "second"
            assert (await runtime.run("pwd")).content == f"{tmp_path}/two\n"


async def test_connecting_without_a_window_is_reported(hub: RunningHub) -> None:
    with pytest.raises(NoWindow, match="Connect"):
        await VSCodeRuntime(hub.url, hub.agent, patience=0).connect()


async def test_hub_token_and_window_come_from_the_environment(
    hub: RunningHub, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSetting, match="BASCULE_HUB"):
        VSCodeRuntime()
    monkeypatch.setenv("BASCULE_HUB", hub.url)
    with pytest.raises(InvalidSetting, match="BASCULE_TOKEN"):
        VSCodeRuntime()
    monkeypatch.setenv("BASCULE_TOKEN", hub.agent)
    monkeypatch.setenv("BASCULE_WINDOW", "elsewhere")
    async with hub.fake_window(workspace):
        with pytest.raises(NoWindow, match="elsewhere"):
            await VSCodeRuntime(patience=0).connect()
        async with VSCodeRuntime(window="fake") as runtime:
            assert runtime.window.folders[0].path == str(workspace)


async def test_an_unsupported_window_action_is_named(hub: RunningHub, workspace: Path) -> None:
    async with hub.fake_window(workspace), VSCodeRuntime(hub.url, hub.agent) as runtime:
        for work in (
            runtime.upload(workspace, "x"),
            runtime.download("x", workspace),
            runtime.read_log(),
            runtime.search_log("x"),
        ):
            with pytest.raises(NotSupported):
                await work
    with pytest.raises(UsageError):
        await runtime.connect()


async def test_a_vscode_runtime_works_in_sync_code(hub: RunningHub, workspace: Path) -> None:
    def use() -> str:
        with SyncRuntime(VSCodeRuntime(hub.url, hub.agent)) as runtime:
            return runtime.run("echo hi").content

    async with hub.fake_window(workspace):
        assert await asyncio.to_thread(use) == "hi\n"


async def _status(hub: RunningHub, wanted: str) -> None:
    """Wait until the hub says that of its only window."""
    while True:
        change = hub.hub._sockets.next_change()
        if [window.status for window in hub.hub._registry.windows()] == [wanted]:
            return
        await change
