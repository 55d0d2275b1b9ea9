"""Language features and debugger of a real window for Python: basedpyright, debugpy, our nets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import FileRead
from bascule.core.editor_actions import OpenFile
from bascule.core.editor_observations import DebugSnapshot
from bascule.core.errors import (
    DebugFailed,
    ExecutionError,
    LanguageServerFailed,
    NoDebugConfiguration,
    NoDebugSession,
    NoSuchCodeAction,
    NoSuchSymbol,
    NotSupported,
    OutcomeUnknown,
    ProgramRunning,
)
from bascule.runtime.vscode import VSCodeRuntime
from tests.contracts.runtime import gone

from .driving import run_command
from .python_window import close_window, open_python_window
from .rig import EditorWindow, Rig

_FILES = {
    "shapes.py": '''\
from abc import ABC, abstractmethod


class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...


class Square(Shape):
    """A square by the length of its side."""

    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        return self.side * self.side


def total(shapes: list[Shape]) -> float:
    return sum(shape.area() for shape in shapes)
''',
    "report.py": """\
from shapes import Square, total


def report() -> str:
    square = Square(1)
    return f"total: {total([square])}"
""",
    "main.py": "from shapes import total\n\nprint(total([]))\n",
    "missing.py": "print(Square(2))\n",
    "loop.py": """\
def add(one, other):
    result = one + other
    return result


total = 0
for each in [1, 2, 3]:
    total = add(total, each)
print("total", total)
""",
    "fails.py": """\
def check(value):
    if value < 0:
        raise ValueError("negative")


try:
    check(-1)
except ValueError:
    print("caught")
check(-2)
""",
    "threads.py": """\
import threading

stop = threading.Event()


def work(number):
    stop.wait()
    print("worker", number)


workers = [threading.Thread(target=work, args=(n,), name=f"worker-{n}") for n in (1, 2)]
for each in workers:
    each.start()
stop.set()
for each in workers:
    each.join()
""",
    "waits.py": """\
import os, threading

print("up", os.getpid(), flush=True)
threading.Event().wait()
""",
    "sums.evolve.yaml": """\
pnml:
  net:
    - id: sums
      page:
        - id: main
          place:
            - id: numbers
              marking: [20]
            - id: doubled
          transition:
            - id: double
              arcs: [{source: numbers}, {target: doubled}]
              inscriptions:
                - id: twice
                  code: |
                    number = token
                    return 2 * number
""",
    ".vscode/tasks.json": json.dumps(
        {
            "version": "2.0.0",
            "tasks": [{"label": "prepare", "type": "shell", "command": "echo done > prepared"}],
        }
    ),
    ".vscode/launch.json": json.dumps(
        {
            "version": "0.2.0",
            "configurations": [
                {
                    "name": "Prepared",
                    "type": "debugpy",
                    "request": "launch",
                    "program": "${workspaceFolder}/loop.py",
                    "console": "internalConsole",
                    "python": sys.executable,
                    "preLaunchTask": "prepare",
                }
            ],
        }
    ),
}


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("python") / "python"
    settings = {"bascule.allowedCommands": ["testsPython.*", "workbench.action.*"]}
    window = rig.wait(open_python_window(rig, "python", folder, _FILES, settings))
    yield window
    rig.wait(close_window(rig, window))


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    # On a busy machine a reload may take longer than the minute that is the default.
    runtime = VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id, patience=240)
    async with runtime:
        yield runtime
        await runtime.set_breakpoints(clear=True)
        with suppress(NoDebugSession):
            await runtime.debug_stop()


@pytest.fixture
def folder(window: EditorWindow) -> Path:
    return window.folder


# -- language ------------------------------------------------------------------------------------


async def test_lookups_find_python_code(agent: VSCodeRuntime, folder: Path) -> None:
    found = await agent.references("shapes.py", 19, "total")
    places = {(Path(item["path"]).name, item["line"]) for item in found.items}
    assert places == {
        ("shapes.py", 19),
        *(("report.py", 1), ("report.py", 6)),
        *(("main.py", 1), ("main.py", 3)),
    }
    place = (await agent.definition("main.py", 3, "total")).content
    assert place == f"{folder}/shapes.py:19: def total(shapes: list[Shape]) -> float:"
    of_type = await agent.type_definition("report.py", 6, "square")
    assert f"{folder}/shapes.py:9: class Square(Shape):" in of_type.content
    made = await agent.implementations("shapes.py", 6, "area")
    assert f"{folder}/shapes.py:15" in made.content
    assert "by the length of its side" in (await agent.hover("report.py", 5, "Square")).content
    named = await agent.workspace_symbols("Squ", path="main.py")
    assert f"{folder}/shapes.py:9: class Square" in named.content
    callers = await agent.call_hierarchy("shapes.py", 19, "total")
    assert f"{folder}/report.py:4: function report" in callers.content
    callees = await agent.call_hierarchy("report.py", 4, "report", direction="outgoing")
    assert f"{folder}/shapes.py:19: function total" in callees.content
    nothing = await agent.definition("shapes.py", 10, "square")
    assert (nothing.content, nothing.note) == ("No definition for 'square'", None)
    with pytest.raises(NoSuchSymbol, match="The line is: def total"):
        await agent.hover("shapes.py", 19, "sum")


async def test_problems_of_a_file_in_no_tab_are_not_said_to_be_none(agent: VSCodeRuntime) -> None:
    # This language client asks its server only about files in tabs, as others do.
    unknown = await agent.diagnostics("missing.py", settle=True)
    assert (unknown.content, unknown.settled) == ("No problems", False)
    assert "open_file shows it" in (unknown.note or "")

    await agent.open_file("missing.py")
    seen = await agent.diagnostics("missing.py", settle=True)
    assert '/missing.py:1:7: error: "Square" is not defined' in seen.content
    assert (seen.settled, seen.note) == (True, None)

    title = "from shapes import Square"
    listed = await agent.code_actions("missing.py", 1, "Square", only="quickfix")
    assert title in [item["title"] for item in listed.items]
    with pytest.raises(NoSuchCodeAction, match=title):
        await agent.apply_code_action("missing.py", 1, "Do magic", symbol="Square")
    done = await agent.apply_code_action("missing.py", 1, title, symbol="Square")
    assert done.content.startswith(f"Applied '{title}'")
    assert (await agent.diagnostics("missing.py", settle=True)).content == "No problems"


async def test_what_no_extension_offers_is_said(agent: VSCodeRuntime) -> None:
    formatted = await agent.format("loop.py")
    assert "or VS Code has no formatter for python" in formatted.content
    with pytest.raises(NotSupported, match="no extension offers it"):
        await agent.organize_imports("loop.py")


async def test_a_rename_changes_three_files_and_one_undo_takes_it_back(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    with pytest.raises(ExecutionError, match="cannot rename"):
        await agent.rename_symbol("shapes.py", 19, "total", "not a name")
    files = [folder / name for name in ("shapes.py", "report.py", "main.py")]
    before = [file.read_text() for file in files]

    done = await agent.rename_symbol("shapes.py", 19, "total", "sum_of_areas")

    assert done.content.startswith("Renamed 'total' to 'sum_of_areas': 5 lines in 3 files\n")
    assert [file.read_text() for file in files] == [
        re.sub(r"\btotal\b(?!:)", "sum_of_areas", text) for text in before
    ]

    async def undo(page: Page) -> None:
        await page.locator('.monaco-editor[data-uri$="report.py"] .view-lines').first.click()
        await page.keyboard.press("Control+z")

    await agent.act(OpenFile("report.py", preview=False))
    await rig.on(undo(window.page))
    async with asyncio.timeout(60):
        for file, text in zip(files, before, strict=True):
            while (await agent.act(FileRead(str(file)))).content != text:
                await asyncio.sleep(0.05)
    await rig.on(run_command(window.page, "File: Save All Files"))
    await rig.on(expect(window.page.locator(".tab.dirty")).to_have_count(0))


async def test_a_crashed_language_server_is_waited_for(agent: VSCodeRuntime) -> None:
    before = await agent.references("shapes.py", 19, "total")
    await agent.definition("main.py", 3, "total")
    os.kill(await _server(agent), signal.SIGKILL)

    again = await agent.references("shapes.py", 19, "total")

    assert again.items == before.items
    # A rename in the middle of a crash changes nothing, or everything.
    asked = asyncio.create_task(agent.rename_symbol("shapes.py", 13, "side", "width"))
    os.kill(await _server(agent), signal.SIGKILL)
    with suppress(ExecutionError):
        assert (await asked).content.startswith("Renamed 'side' to 'width': 2 lines")
    await agent.references("shapes.py", 19, "total")
    await agent.vscode_command("testsPython.stopServer")  # as after too many crashes
    with pytest.raises(LanguageServerFailed, match="ask the user to reload the window"):
        await agent.references("shapes.py", 19, "total", timeout=5)


# -- debugger ------------------------------------------------------------------------------------


async def test_a_condition_steps_and_values_work_in_python(
    agent: VSCodeRuntime, folder: Path
) -> None:
    await agent.set_breakpoints("loop.py", add=[{"line": 8, "condition": "each == 2"}])

    stopped = await agent.debug_start(configuration=_program(folder, "loop.py"))

    assert (stopped.line, _values(stopped)["each"]) == (8, "2")
    into = await agent.debug_step("into")
    assert (into.line, into.frames[0]["name"], _values(into)["one"]) == (2, "add", "1")
    assert (await agent.debug_state(frame=1)).line == 8
    assert (await agent.debug_evaluate("one + other * 10")).value == "21"
    with pytest.raises(DebugFailed, match="'nowhere' is not defined"):
        await agent.debug_evaluate("nowhere")
    changed = await agent.debug_set_variable("other", "40 + 1")
    assert (changed.value, changed.note) == ("41", None)
    unchanged = await agent.debug_set_variable("other", "((")
    assert (unchanged.value, "had this value before" in (unchanged.note or "")) == ("41", True)
    with pytest.raises(DebugFailed, match=r"no variable 'nothing' in this frame\. There are: one"):
        await agent.debug_set_variable("nothing", "1")
    over = await agent.debug_step()
    assert (over.line, _values(over)["result"]) == (3, "42")
    out = await agent.debug_step("out")
    assert out.line in (7, 8)

    again = await agent.debug_stop(restart=True)
    assert (again.line, _values(again)["each"], again.taken_over) == (8, "2", False)
    await agent.set_breakpoints(clear=True)
    ended = await agent.debug_continue()
    assert (ended.state, ended.exit_code, ended.taken_over) == ("ended", 0, False)
    assert "total 6" in ended.output


async def test_hit_counts_and_log_messages_work_in_python(
    agent: VSCodeRuntime, folder: Path
) -> None:
    points = await agent.set_breakpoints(
        "loop.py",
        add=[{"line": 2, "hit_condition": "3"}, {"line": 3, "log_message": "sum is {result}"}],
    )
    assert points.content.endswith(f"{folder}/loop.py:3 (logs sum is {{result}})")

    stopped = await agent.debug_start(configuration=_program(folder, "loop.py"))

    assert (stopped.line, _values(stopped)["other"]) == (2, "3")
    ended = await agent.debug_continue()
    assert (ended.state, (stopped.output + ended.output).count("sum is")) == ("ended", 3)


async def test_exceptions_stop_python_by_their_filters(agent: VSCodeRuntime, folder: Path) -> None:
    await agent.set_breakpoints(exceptions=["raised"])
    raised = await agent.debug_start(configuration=_program(folder, "fails.py"))
    assert (raised.reason, raised.line, _values(raised)["value"]) == ("exception", 3, "-1")
    assert "ValueError" in raised.description
    with pytest.raises(DebugFailed, match=r"no filter 'all' .* It has: raised, uncaught"):
        await agent.set_breakpoints(exceptions=["all"])
    await agent.set_breakpoints(exceptions=["uncaught"])
    uncaught = await agent.debug_continue()
    assert (uncaught.line, _values(uncaught)["value"]) == (3, "-2")
    assert "caught" in uncaught.output
    ended = await agent.debug_continue()
    assert (ended.state, ended.exit_code, ended.taken_over) == ("ended", 1, False)
    assert "ValueError: negative" in ended.output


async def test_threads_are_named_and_chosen(agent: VSCodeRuntime, folder: Path) -> None:
    await agent.set_breakpoints("threads.py", add=[{"line": 8}])
    stopped = await agent.debug_start(configuration=_program(folder, "threads.py"))

    by_name = {each["name"]: each for each in stopped.threads}
    assert {"MainThread", "worker-1", "worker-2"} >= set(by_name)
    assert [each["id"] for each in stopped.threads if each["stopped"]].count(stopped.thread) == 1
    seen = await agent.debug_state(thread=stopped.thread)
    assert (seen.line, seen.thread) == (8, stopped.thread)
    if not by_name["MainThread"]["stopped"]:
        with pytest.raises(ProgramRunning, match="Thread 1 of"):
            await agent.debug_evaluate("1", thread=by_name["MainThread"]["id"])
    with pytest.raises(DebugFailed, match=r"no thread 99\. There are: 1 \(MainThread\)"):
        await agent.debug_state(thread=99)
    await agent.set_breakpoints(clear=True)
    ended = await agent.debug_continue()
    while ended.state == "stopped":  # the other thread had reached the line as well
        ended = await agent.debug_continue()
    assert ended.state == "ended"


async def test_an_agent_that_waits_is_told_that_its_program_was_killed(
    agent: VSCodeRuntime, folder: Path
) -> None:
    pid = await _started(agent, folder)
    waiting = asyncio.create_task(agent.debug_continue())
    await agent.debug_configurations()  # the window has the action before this one
    os.kill(pid, signal.SIGKILL)

    ended = await waiting

    assert (ended.state, ended.taken_over) == ("ended", False)
    assert ended.exit_code != 0
    with pytest.raises(NoDebugSession, match="has ended; debug_start starts one"):
        await agent.debug_step()


async def test_wrong_configurations_are_clear_errors(agent: VSCodeRuntime, folder: Path) -> None:
    loop = _program(folder, "loop.py")
    with pytest.raises(DebugFailed, match="/no/python"):
        await agent.debug_start(configuration={**loop, "python": "/no/python"})
    with pytest.raises(DebugFailed, match='either "program", "module", or "code"'):
        await agent.debug_start(configuration={"type": "debugpy"})
    with pytest.raises(NoDebugConfiguration, match=r"no task 'nothing'.*There are: 'prepare'"):
        await agent.debug_start(configuration={**loop, "preLaunchTask": "nothing"})
    hidden = {**loop, "args": ["${command:testsPython.serverPid}"]}
    with pytest.raises(NoDebugConfiguration, match=r"contains \$\{command:testsPython.serverPid\}"):
        await agent.debug_start(configuration=hidden)
    missing = await agent.debug_start(configuration=_program(folder, "nothing.py"))
    assert (missing.state, missing.exit_code) == ("ended", 1)
    assert "No such file" in missing.output


async def test_a_named_configuration_runs_its_task_first(
    agent: VSCodeRuntime, folder: Path
) -> None:
    ended = await agent.debug_start("Prepared")

    assert (ended.state, ended.exit_code) == ("ended", 0)
    assert (folder / "prepared").read_text() == "done\n"


async def test_a_net_is_debugged(agent: VSCodeRuntime, folder: Path) -> None:
    net = {"type": "evolve", "name": "Net", "program": f"{folder}/sums.evolve.yaml"}
    await agent.set_breakpoints("sums.evolve.yaml", add=[{"line": 17}])

    stopped = await agent.debug_start(configuration=net)

    assert (stopped.state, stopped.line, _values(stopped)["number"]) == ("stopped", 17, "20")
    assert (await agent.debug_evaluate("number + 1")).value == "21"
    ended = await agent.debug_continue()
    assert (ended.state, ended.taken_over) == ("ended", False)
    assert "completed after 1 firing" in ended.output


# -- reloads, at the end: they restart the language server ---------------------------------------


async def test_a_reload_ends_the_program_and_the_agent_is_told(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    pid = await _started(agent, folder)
    waiting = asyncio.create_task(agent.debug_continue())
    await agent.debug_configurations()  # the window has the action before this one

    await rig.on(rig.reload(window))

    with pytest.raises(OutcomeUnknown, match="reloaded"):
        await waiting
    await gone(pid)
    with pytest.raises(NoDebugSession, match="debug_start starts one"):
        await agent.debug_state()
    ended = await agent.debug_start(configuration=_program(folder, "loop.py"))
    assert (ended.state, ended.exit_code) == ("ended", 0)


async def test_a_rename_is_not_repeated_after_a_reload(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    await agent.references("shapes.py", 19, "total")
    before = (folder / "shapes.py").read_text()
    server = await _server(agent)
    os.kill(server, signal.SIGSTOP)
    asked = asyncio.create_task(agent.rename_symbol("shapes.py", 19, "total", "sum_of_areas"))
    await agent.debug_configurations()  # the window has the action before this one

    await rig.on(rig.reload(window))
    os.kill(server, signal.SIGKILL)

    with pytest.raises(OutcomeUnknown, match="reloaded"):
        await asked
    assert (folder / "shapes.py").read_text() == before
    done = await agent.rename_symbol("shapes.py", 19, "total", "sum_of_areas")
    assert done.content.startswith("Renamed 'total' to 'sum_of_areas': 5 lines in 3 files\n")


# ------------------------------------------------------------------------------------------------


def _program(folder: Path, name: str) -> Mapping[str, Any]:
    return {
        "type": "debugpy",
        "name": name,
        "program": f"{folder}/{name}",
        "python": sys.executable,
        "console": "internalConsole",
    }


def _values(seen: DebugSnapshot) -> dict[str, str]:
    return {item["name"]: item["value"] for item in reversed(seen.variables)}


async def _server(agent: VSCodeRuntime) -> int:
    """The process of the language server."""
    return int((await agent.vscode_command("testsPython.serverPid")).result)


async def _started(agent: VSCodeRuntime, folder: Path) -> int:
    """Start a program that waits for ever in the debugger. Returns its process id."""
    seen = await agent.debug_start(configuration=_program(folder, "waits.py"), timeout=1)
    async with asyncio.timeout(120):
        while not (found := re.findall(r"up (\d+)", seen.output)):
            seen = await agent.debug_continue(timeout=0.5)
    return int(found[0])
