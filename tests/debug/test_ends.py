"""How a debug session ends, whatever the net is doing: in time, and with no process left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.debug.client import Editor, Refused
from tests.debug.test_adapter import TEXT, TWICE, code, write

pytestmark = pytest.mark.slow

TIMEOUT = 60.0
ENDLESS = "[x for x in iter(int, 1) if False]"
"""An evaluation that never ends and takes no memory."""
IN_C = "sum(__import__('itertools').repeat(0))"
"""One that lets no other thread of its process run."""


@pytest.fixture
async def editor() -> AsyncIterator[Editor]:
    async with Editor() as editor:
        yield editor


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write(tmp_path, TEXT)


async def halted(editor: Editor, net: Path) -> None:
    await editor.start(net, stopOnEntry=True)
    await editor.event("stopped")


@pytest.mark.parametrize("expression", [ENDLESS, IN_C])
async def test_terminate_is_answered_while_an_evaluation_never_ends(
    editor: Editor, net: Path, expression: str
) -> None:
    await halted(editor, net)
    evaluating = asyncio.create_task(editor.request("evaluate", expression=expression))
    await asyncio.sleep(0)

    await editor.request("terminate")

    assert await editor.end() != 0
    with pytest.raises(Refused, match="has exited"):
        await evaluating


async def test_terminate_is_answered_while_a_condition_never_ends(
    editor: Editor, net: Path
) -> None:
    told = f"[print('begun', flush=True), {IN_C}]"
    await editor.start(net, breakpoints=[{"line": 11, "condition": told}])
    while "begun" not in editor.output:
        await editor.event("output")

    await editor.request("terminate")

    assert await editor.end() != 0


async def test_terminate_is_answered_while_halted_in_python(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": TWICE}])
    await editor.event("stopped")

    await editor.request("terminate")

    assert await editor.end() != 0


async def test_a_second_launch_is_refused_and_starts_nothing(editor: Editor, net: Path) -> None:
    await halted(editor, net)
    before = family(editor.process.pid)

    with pytest.raises(Refused, match="debugged already"):
        await editor.request("launch", program=str(net))

    assert family(editor.process.pid) == before
    await editor.request("disconnect")


async def test_a_failed_launch_can_be_retried(editor: Editor, net: Path) -> None:
    await editor.request("initialize", adapterID="evolve")
    with pytest.raises(Refused, match="cannot be read"):
        await editor.request("launch", program=f"{net}.not")

    await editor.request("configurationDone")
    await editor.request("launch", program=str(net))

    assert await editor.end() == 0


@pytest.mark.parametrize(
    "moment",
    ["at once", "launching", "halted", "evaluating", "evaluating in C", "in Python", "running"],
)
async def test_no_process_outlives_an_adapter_that_is_killed(tmp_path: Path, moment: str) -> None:
    net = code(
        tmp_path,
        "import subprocess, sys",
        "program = subprocess.Popen(['sleep', '1000'])",
        "print('begun', flush=True)",
        "while True:",
        "    pass",
    )
    editor = Editor()
    await editor.__aenter__()
    adapter = editor.process
    group: set[int] = set()
    try:
        await reach(editor, net, moment)
        group = family(adapter.pid)
    finally:
        adapter.kill()
        await adapter.wait()
    for pid in group - {adapter.pid}:
        await gone(pid)
    if moment in ("running", "in Python"):
        assert len(group) >= 3  # adapter, net, and the program that the net has started


async def reach(editor: Editor, net: Path, moment: str) -> None:
    """Bring a session to a moment."""
    if moment == "at once":
        return
    if moment == "launching":
        await editor.request("initialize", adapterID="evolve")
        assert editor.process.stdin is not None
        launching = asyncio.create_task(editor.request("launch", program=str(net)))
        async with asyncio.timeout(TIMEOUT):
            while len(family(editor.process.pid)) < 2:
                await asyncio.sleep(0.01)
        launching.cancel()
        return
    if moment in ("running", "in Python"):
        await editor.start(net)
        async with asyncio.timeout(TIMEOUT):
            while "begun" not in editor.output:
                await editor.event("output")
        if moment == "in Python":
            await editor.request("pause", threadId=1)
            await editor.event("stopped")
        return
    await halted(editor, net)
    if moment.startswith("evaluating"):
        expression = IN_C if moment.endswith("C") else ENDLESS
        evaluating = asyncio.create_task(editor.request("evaluate", expression=expression))
        await asyncio.sleep(0.5)  # nothing tells that it has begun
        evaluating.cancel()


def family(pid: int) -> set[int]:
    """A process and all below it."""
    process = psutil.Process(pid)
    return {pid, *(each.pid for each in process.children(recursive=True))}


async def gone(pid: int) -> None:
    """Wait until there is no such process; one that nobody has waited for counts as gone."""
    async with asyncio.timeout(TIMEOUT):
        while psutil.pid_exists(pid):
            try:
                if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                    return
            except psutil.NoSuchProcess:
                return
            await asyncio.sleep(0.05)


async def test_a_program_that_a_net_left_behind_ends_with_the_session(tmp_path: Path) -> None:
    net = code(
        tmp_path,
        "import subprocess",
        "print(subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL).pid, flush=True)",
    )
    async with Editor() as editor:
        await editor.start(net)
        assert await editor.end() == 0
        program = int(editor.output)

    await gone(program)


# What code breakpoints say ----------------------------------------------------------------


async def test_a_log_point_in_code_prints_and_does_not_halt(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": TWICE + 1, "logMessage": "number is {number}"}])

    assert await editor.end() == 0
    assert [f"number is {each}" in console(editor) for each in (1, 2, 3)] == [True] * 3


@pytest.mark.parametrize("condition", ["no_such_name", "1 / 0", "number +"])
async def test_an_invalid_condition_in_code_is_reported(
    editor: Editor, net: Path, condition: str
) -> None:
    await editor.start(net, breakpoints=[{"line": TWICE + 1, "condition": condition}])
    await editor.event("stopped")

    await editor.request("disconnect")
    assert condition in console(editor)
    assert "Error" in console(editor)


async def test_an_invalid_log_point_expression_is_reported_without_halting(
    editor: Editor, net: Path
) -> None:
    await editor.start(net, breakpoints=[{"line": 11, "logMessage": "{no_such_name}"}])

    assert await editor.end() == 0
    assert "log point at double: NameError: name 'no_such_name'" in console(editor)


async def test_the_transition_is_on_the_stack_of_its_code(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": TWICE}])
    await editor.event("stopped")

    assert [each["name"] for each in await editor.frames()] == [
        "twice",
        "transition double",
        "net sums",
    ]
    await editor.request("disconnect")


async def test_an_exception_is_reported_with_its_type_and_location(
    editor: Editor, tmp_path: Path
) -> None:
    net = code(tmp_path, "def inner():", "    return 1 / 0", "return inner()")
    await editor.start(net)
    await editor.event("stopped")

    told = await editor.request("exceptionInfo", threadId=1)

    assert told["exceptionId"] == told["details"]["typeName"] == "ZeroDivisionError"
    trace = told["details"]["stackTrace"]
    assert f'"{net}", line 13, in inner' in trace
    assert "runner.py" not in trace
    await editor.request("disconnect")


# Odd requests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"linesStartAt1": False}, "'linesStartAt1' must be true"),
        ({"columnsStartAt1": False}, "'columnsStartAt1' must be true"),
        ({"pathFormat": "uri"}, "'pathFormat' must be 'path'"),
    ],
)
async def test_an_editor_with_an_unsupported_line_or_path_format_is_rejected(
    editor: Editor, arguments: dict[str, object], told: str
) -> None:
    with pytest.raises(Refused, match=told):
        await editor.request("initialize", adapterID="evolve", **arguments)


@pytest.mark.parametrize(
    ("command", "arguments", "told"),
    [
        ("scopes", {}, "'frameId' in the request must be"),
        ("variables", {"variablesReference": "x"}, "'variablesReference' in the request must be"),
        ("evaluate", {}, "'expression' in the request must be"),
        ("stackTrace", {"threadId": 77}, "There is no thread 77"),
    ],
)
async def test_a_missing_request_argument_is_named(
    editor: Editor, net: Path, command: str, arguments: dict[str, object], told: str
) -> None:
    await halted(editor, net)

    with pytest.raises(Refused, match=told):
        await editor.request(command, **arguments)

    await editor.request("disconnect")


async def test_a_directory_that_is_not_there_is_named(editor: Editor, net: Path) -> None:
    await editor.request("initialize", adapterID="evolve")

    with pytest.raises(Refused, match="/not/there, does not exist"):
        await editor.request("launch", program=str(net), cwd="/not/there")


async def test_an_aborted_session_does_not_report_a_firing_count(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": 19}])
    await editor.event("stopped")
    os.kill(next(iter(family(editor.process.pid) - {editor.process.pid})), signal.SIGKILL)

    await editor.end()
    assert console(editor).endswith("sums: was ended\n")


def console(editor: Editor) -> str:
    return "".join(
        each["body"]["output"]
        for each in editor.events
        if each["event"] == "output" and each["body"]["category"] == "console"
    )
