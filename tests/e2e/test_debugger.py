"""The debugger in a real window, with the JavaScript debugger that VS Code has built in."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import expect

from bascule.core.editor_observations import DebugSnapshot
from bascule.core.errors import (
    ActionCancelled,
    AlreadyDebugging,
    DebugFailed,
    InvalidRange,
    NoDebugConfiguration,
    NoDebugSession,
    NoSuchPath,
    ProgramRunning,
)
from bascule.runtime.vscode import VSCodeRuntime
from tests.contracts.runtime import gone

from .driving import clear_toast, run_command
from .rig import EditorWindow, Rig

_FILES = {
    "main.js": """\
function add(one, other) {
  const sum = one + other;
  return sum;
}

let total = 0;
for (const each of [1, 2, 3]) {
  total = add(total, each);
}
console.log("total", total);
""",
    "fails.js": """\
function check(value) {
  if (value < 0) throw new Error("negative");
}
try {
  check(-1);
} catch {
  console.log("caught");
}
check(-2);
""",
    "dies.js": 'console.log("before");\nprocess.exit(3);\n',
    "waits.js": 'console.log("up", process.pid);\nsetInterval(() => undefined, 100);\n',
    ".vscode/launch.json": json.dumps(
        {
            "version": "0.2.0",
            "configurations": [
                {
                    "name": "Main",
                    "type": "node",
                    "request": "launch",
                    "program": "${workspaceFolder}/main.js",
                },
                {
                    "name": "Dies",
                    "type": "node",
                    "request": "launch",
                    "program": "${workspaceFolder}/dies.js",
                },
            ],
        }
    ),
}


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("debugger") / "debugged"
    for name, content in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    server = rig.wait(rig.serve("debugger", {"debug.openDebug": "neverOpen"}))
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as runtime:
        yield runtime
        await runtime.set_breakpoints(clear=True)
        with suppress(NoDebugSession):
            await runtime.debug_stop()


@pytest.fixture
def folder(window: EditorWindow) -> Path:
    return window.folder


async def test_a_program_stops_at_a_breakpoint_and_runs_to_its_end(
    agent: VSCodeRuntime, folder: Path
) -> None:
    listed = await agent.debug_configurations()
    assert [item["name"] for item in listed.items] == ["Main", "Dies"]
    assert "node" in listed.types
    assert listed.content.startswith("Main: node, launch, ${workspaceFolder}/main.js\n")
    points = await agent.set_breakpoints("main.js", add=[{"line": 2, "condition": "other === 2"}])
    assert points.content == f"{folder}/main.js:2 (if other === 2)"

    stopped = await agent.debug_start("Main")

    assert (stopped.state, stopped.path, stopped.line) == ("stopped", f"{folder}/main.js", 2)
    assert f"at {folder}/main.js:2 in " in stopped.content.splitlines()[0]
    assert "> 2:   const sum = one + other;" in stopped.content.splitlines()
    values = {item["name"]: item["value"] for item in stopped.variables}
    assert (values["one"], values["other"]) == ("1", "2")
    assert stopped.frames[1]["line"] == 8
    caller = await agent.debug_state(frame=1)
    assert (caller.line, "each" in {item["name"] for item in caller.variables}) == (8, True)

    assert (await agent.debug_evaluate("one + other * 10")).value == "21"
    with pytest.raises(DebugFailed, match="nowhere is not defined"):
        await agent.debug_evaluate("nowhere")
    assert (await agent.debug_set_variable("other", "5")).value == "5"

    over = await agent.debug_step()
    assert (over.state, over.line) == ("stopped", 3)
    assert {item["name"]: item["value"] for item in over.variables}["sum"] == "6"
    out = await agent.debug_step("out")
    assert out.line in (7, 8)  # after the call, in its line or at the head of the loop

    assert (await agent.set_breakpoints(clear=True)).content == "No breakpoints"
    ended = await agent.debug_continue()
    assert ended.state == "ended"
    assert "total 9" in ended.output
    with pytest.raises(NoDebugSession, match="'Main' has ended"):
        await agent.debug_step()


async def test_impossible_actions_return_clear_errors(agent: VSCodeRuntime) -> None:
    with pytest.raises(NoDebugSession):
        await agent.debug_continue()
    with pytest.raises(NoDebugConfiguration, match="There are: 'Main', 'Dies'"):
        await agent.debug_start("Nothing")
    with pytest.raises(NoDebugConfiguration, match="no debugger of the type 'magic'"):
        await agent.debug_start(configuration={"type": "magic", "program": "main.js"})
    with pytest.raises(NoDebugConfiguration, match="either"):
        await agent.debug_start()
    with pytest.raises(InvalidRange, match="has lines 1 to 11"):
        await agent.set_breakpoints("main.js", add=[{"line": 99}])
    with pytest.raises(NoSuchPath):
        await agent.set_breakpoints("missing.js", add=[{"line": 1}])


async def test_the_exit_code_of_a_crashed_program_is_reported(agent: VSCodeRuntime) -> None:
    ended = await agent.debug_start("Dies")

    assert (ended.state, ended.exit_code) == ("ended", 3)
    assert ended.content.startswith("'Dies' has ended with exit code 3\n")
    assert "before" in ended.output


async def test_hit_counts_log_messages_and_exceptions_work_in_javascript(
    agent: VSCodeRuntime, folder: Path
) -> None:
    add = [{"line": 2, "hit_condition": "3"}, {"line": 3, "log_message": "sum is {sum}"}]
    await agent.set_breakpoints("main.js", add=add)
    stopped = await agent.debug_start("Main")
    assert stopped.line == 2
    assert {item["name"]: item["value"] for item in stopped.variables}["other"] == "3"
    again = await agent.debug_stop(restart=True)
    assert (again.line, again.taken_over) == (2, False)
    await agent.set_breakpoints("main.js", remove=[2])
    ended = await agent.debug_continue()
    assert (ended.state, ended.taken_over) == ("ended", False)
    assert (again.output + ended.output).count("sum is") == 3

    program = {"type": "node", "name": "Fails", "program": f"{folder}/fails.js"}
    await agent.set_breakpoints(exceptions=["uncaught"])
    uncaught = await agent.debug_start(configuration=program)
    assert (uncaught.reason, uncaught.line) == ("exception", 2)
    assert "negative" in uncaught.content
    with pytest.raises(DebugFailed, match="no filter 'raised'"):
        await agent.set_breakpoints(exceptions=["raised"])


async def test_a_running_program_is_reported_as_running_until_paused_or_stopped(
    agent: VSCodeRuntime, folder: Path
) -> None:
    program = {"type": "node", "name": "Waits", "program": f"{folder}/waits.js"}
    running = await agent.debug_start(configuration=program, timeout=1)
    assert running.state == "running"
    assert "debug_pause" in (running.note or "")
    with pytest.raises(AlreadyDebugging, match="'Waits'"):
        await agent.debug_start("Main")
    with pytest.raises(ProgramRunning):
        await agent.debug_evaluate("1")
    await _prints(agent, running, "up")

    paused = await agent.debug_pause()
    assert (paused.state, paused.taken_over) == ("stopped", False)
    ended = await agent.debug_stop()
    assert (ended.state, ended.taken_over) == ("ended", False)


async def test_the_agent_is_told_that_the_person_stepped(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    page = window.page
    await agent.set_breakpoints("main.js", add=[{"line": 2}])
    assert (await agent.debug_start("Main")).line == 2
    caret = page.locator("#status\\.editor\\.selection")
    await rig.on(expect(caret).to_contain_text("Ln 2,"))

    await rig.on(run_command(page, "Debug: Step Over"))
    await rig.on(expect(caret).to_contain_text("Ln 3,"))

    seen = await agent.debug_state()
    assert (seen.line, seen.taken_over) == (3, True)
    assert seen.note == "The user took over the debugger since your last answer: stepped over"
    following = await agent.debug_continue()
    assert (following.line, following.taken_over) == (2, False)


async def test_an_agent_that_waits_is_answered_when_the_person_pauses(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    program = {"type": "node", "name": "Waits", "program": f"{window.folder}/waits.js"}
    await _prints(agent, await agent.debug_start(configuration=program, timeout=1), "up")
    waiting = asyncio.create_task(agent.debug_continue())

    await rig.on(run_command(window.page, "Debug: Pause"))

    seen = await waiting
    assert (seen.state, seen.taken_over) == ("stopped", True)
    assert seen.note == "The user took over the debugger since your last answer: paused"


async def test_stopping_everything_ends_the_program(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    program = {"type": "node", "name": "Waits", "program": f"{window.folder}/waits.js"}
    started = await agent.debug_start(configuration=program, timeout=1)
    printed = await _prints(agent, started, "up")
    waiting = asyncio.create_task(agent.debug_continue())

    await rig.on(run_command(window.page, "Bascule: Stop Everything Agents Do Here"))

    with pytest.raises(ActionCancelled):
        await waiting
    await gone(int(re.findall(r"up (\d+)", printed)[0]))
    await rig.on(clear_toast(window.page, "Bascule: stopped"))
    await rig.on(run_command(window.page, "Bascule: Apply the Consent Settings Again"))
    await rig.on(clear_toast(window.page, "the setting bascule.consent applies again"))
    assert (await agent.debug_state()).state == "ended"


async def _prints(agent: VSCodeRuntime, seen: DebugSnapshot, text: str) -> str:
    """Wait until the program in the debugger has printed this, in this answer or a later one."""
    async with asyncio.timeout(60):
        while text not in seen.output:
            seen = await agent.debug_continue(timeout=0.5)
    return seen.output
