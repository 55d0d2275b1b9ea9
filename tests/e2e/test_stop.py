"""The user stops everything that agents do in a window."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import CmdRun
from bascule.core.editor_actions import OpenFile, VscodeCommand
from bascule.core.errors import ActionCancelled
from bascule.core.observations import BrowserOutput, CmdOutput, Error
from bascule.runtime.vscode import VSCodeRuntime
from tests.contracts.runtime import Seen, gone
from tests.sandbox.browser.pages import serving_pages

from .driving import (
    answer_question,
    clear_toast,
    detached,
    open_question,
    question,
    run_command,
)
from .rig import EditorWindow, Rig

STOP = "Bascule: Stop Everything Agents Do Here"
FOLLOW = "Bascule: Apply the Consent Settings Again"
DEBUG = VscodeCommand("evolve.debugNet")
WAITING_NET = """\
pnml:
  net:
    - id: waits
      page:
        - id: main
          place:
            - id: start
              marking: [1]
            - id: done
          transition:
            - id: wait
              arcs: [{source: start}, {target: done}]
              inscriptions:
                - id: sleep
                  code: |
                    import os, pathlib, time
                    pathlib.Path("net.pid.new").write_text(str(os.getpid()))
                    pathlib.Path("net.pid.new").rename("net.pid")
                    time.sleep(600)
"""


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    """Its settings allow everything, so that nobody is asked until everything was stopped."""
    settings = {
        "bascule.allowedCommands": ["*"],
        # A net that is debugged takes a while to begin on a busy machine.
        "debug.openDebug": "neverOpen",
    }
    server = rig.wait(rig.serve("stopped", settings))
    window = rig.wait(rig.open_window(tmp_path_factory.mktemp("stop") / "stopped", server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


@pytest.fixture(autouse=True)
def allowed_again(rig: Rig, window: EditorWindow) -> Iterator[None]:
    yield
    rig.wait(run_command(window.page, FOLLOW))
    rig.wait(clear_toast(window.page, "the setting bascule.consent applies again"))


@asynccontextmanager
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[tuple[str, VSCodeRuntime]]:
    name = rig.new_name()
    token = await rig.on(rig.hub.tokens.create(name, "agent"))
    async with VSCodeRuntime(rig.url, token, window=window.id) as runtime:
        yield name, runtime


async def test_stopping_ends_running_commands_and_those_that_returned_early(
    rig: Rig, window: EditorWindow
) -> None:
    """A list of commands goes on with the next when one is killed: its shell has to end."""
    folder = window.folder
    async with agent(rig, window) as (one, first), agent(rig, window) as (other, second):
        early = await first.act(CmdRun("echo $$ > early; sleep 600; touch late", timeout=1))
        assert isinstance(early, CmdOutput)
        assert early.metadata.state == "running"
        await second.run(detached("background"))
        seen = Seen()
        running = asyncio.create_task(
            second.run("echo up; sleep 600; touch late", blocking=True, on_progress=seen)
        )
        await seen.wait_for(b"up")
        terminals = window.page.locator(
            ".terminal-tabs-entry", has_text=re.compile(f"{one}|{other}")
        )
        await rig.on(expect(terminals).to_have_count(2))
        await stop(rig, window.page)
        with pytest.raises(ActionCancelled):
            await running
        await rig.on(expect(terminals).to_have_count(0))
        for name in ("early", "background"):
            await gone(int((folder / name).read_text()))
    assert not (folder / "late").exists()


async def test_stopping_ends_cells_and_browsers(rig: Rig, window: EditorWindow) -> None:
    code = (
        "import pathlib, subprocess, threading\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "pathlib.Path('cell').write_text(str(child.pid))\n"
        "while True:\n"
        "    try:\n"
        "        threading.Event().wait()\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
    )
    async with agent(rig, window) as (_, runtime):
        with serving_pages() as pages:
            assert isinstance(await runtime.browse(f"{pages.url}/next"), BrowserOutput)
        await runtime.run_ipython(code, timeout=5)
        marked = _marked(window)
        assert any("chrom" in name for name in marked.values())
        await stop(rig, window.page)
        for pid in (int((window.folder / "cell").read_text()), *marked):
            await gone(pid)


async def test_stopping_ends_debug_sessions_that_agents_started(
    rig: Rig, window: EditorWindow
) -> None:
    (window.folder / "waits.evolve.yaml").write_text(WAITING_NET)
    async with agent(rig, window) as (_, runtime):
        for action in (OpenFile("waits.evolve.yaml", preview=False), DEBUG):
            seen = await runtime.act(action)
            assert not isinstance(seen, Error), seen
        pid = await _written(window.folder / "net.pid")
        await rig.on(expect(window.page.locator(".debug-toolbar")).to_be_visible())
        await stop(rig, window.page)
        await rig.on(expect(window.page.locator(".debug-toolbar")).to_be_hidden())
        await gone(pid)


async def test_stopping_withdraws_admission_and_open_questions(
    rig: Rig, window: EditorWindow
) -> None:
    """Also where the settings allow what an agent does; the agent's new shell is told to be new."""
    page = window.page
    async with agent(rig, window) as (name, runtime):
        assert (await runtime.run("word=kept; echo $word")).content == "kept\n"
        await stop(rig, page)
        await rig.on(expect(page.locator(".terminal-tabs-entry, .xterm")).to_have_count(0))
        asking = asyncio.create_task(runtime.run("echo [$word]"))
        await rig.on(open_question(page, name))
        await stop(rig, page)
        await rig.on(expect(question(page)).to_have_count(0))
        with pytest.raises(ActionCancelled):
            await asking
        asking = asyncio.create_task(runtime.run("echo [$word]"))
        await rig.on(open_question(page, name))
        await rig.on(answer_question(page, "Allow in This Workspace"))
        seen = await asking
        assert "[]" in seen.content
        assert seen.metadata.new_shell
        assert (await runtime.run("echo again")).content == "again\n"


async def stop(rig: Rig, page: Page) -> None:
    """By the command; returns once the window says that it is done."""
    await rig.on(run_command(page, STOP))
    await rig.on(clear_toast(page, "Bascule: stopped"))


def _marked(window: EditorWindow) -> dict[int, str]:
    """Processes that were started for agents of this window, with their names."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            name = (process / "comm").read_text().strip()
        except OSError:
            continue
        if f"BASCULE_SHELL={window.id}".encode() in environment:
            found[int(process.name)] = name
    return found


async def _written(file: Path) -> int:
    """The number in a file that another process makes; there is no event for it."""
    while not file.exists():
        await asyncio.sleep(0.1)
    return int(json.loads(file.read_text()))
