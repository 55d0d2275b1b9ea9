"""Whole debug sessions, as an editor has them, each message valid by the protocol's schema."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bascule.net import load
from bascule.net.trace import tokens_by_place
from tests.debug.client import Editor, Refused
from tests.net.writing import Window, play

pytestmark = pytest.mark.slow

INTEROP = Path(__file__).parents[2] / "examples/VsCodeInterop.evolve.yaml"

TEXT = """\
pnml:
  net:
    - id: sums
      page:
        - id: main
          place:
            - {id: numbers, marking: [1, 2, 3]}
            - {id: doubled}
            - {id: done, final: true}
          transition:
            - id: double
              arcs: [{source: numbers}, {target: doubled}]
              inscriptions:
                - id: twice
                  code: |
                    number = token
                    result = 2 * number
                    return result
            - id: finish
              arcs: [{source: doubled}, {target: done}]
              inscriptions:
                - {id: any, kind: guard, code: token > 0}
"""
DOUBLE, TWICE, FINISH = 11, 16, 19


@pytest.fixture
async def editor() -> AsyncIterator[Editor]:
    async with Editor() as editor:
        yield editor


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write(tmp_path, TEXT)


def write(directory: Path, text: str) -> Path:
    file = directory / "sums.evolve.yaml"
    file.write_text(text)
    return file


def code(directory: Path, *lines: str, mode: str = "sync") -> Path:
    """A net with one transition, whose code begins at line 12."""
    head = """\
pnml:
  net:
    id: one
    place: [{id: before, marking: [1]}, {id: after}]
    transition:
      id: t
      arcs: [{source: before}, {target: after}]
      inscriptions:
        - id: work
          execMode: MODE
          code: |
"""
    body = "".join(f"            {line}\n" for line in lines)
    return write(directory, head.replace("MODE", mode) + body)


async def test_without_breakpoints_a_net_runs_to_its_end(editor: Editor, net: Path) -> None:
    await editor.start(net)

    assert await editor.end() == 0
    console = "".join(
        event["body"]["output"]
        for event in editor.events
        if event["event"] == "output" and event["body"]["category"] == "console"
    )
    assert console == "sums: completed after 6 firings\n  done  [2, 4, 6]\n"


async def test_a_trace_reports_firings_while_the_net_runs(
    editor: Editor, net: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    await editor.start(net, breakpoints=[{"line": FINISH}], trace=str(trace))
    await editor.stopped()
    said = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [each["event"] for each in said] == ["started", "fired", "fired", "fired"]

    await editor.request("disconnect")


async def test_a_breakpoint_at_a_transition_halts_before_it_fires(
    editor: Editor, net: Path
) -> None:
    (told,) = await editor.start(net, breakpoints=[{"line": DOUBLE + 1}])
    assert (told["verified"], told["line"]) == (True, DOUBLE)

    assert await editor.stopped() == ("breakpoint", "transition double", DOUBLE)
    assert (await editor.scope("Marking"))["numbers"]["value"] == "[1, 2, 3]"
    assert (await editor.scope("Binding"))["token"]["value"] == "1"
    assert list(await editor.scope("Enabled")) == ["double"]
    await editor.request("continue", threadId=1)
    await editor.stopped()
    assert (await editor.scope("Marking"))["numbers"]["value"] == "[2, 3]"


async def test_a_breakpoint_at_a_place_halts_after_tokens_arrive(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": 9}])

    assert await editor.stopped() == ("breakpoint", "place done", 9)
    assert (await editor.scope("Marking"))["done"]["value"] == "[2]"
    assert (await editor.scope("Arrived"))["0"]["value"] == "2"


async def test_after_a_step_continue_runs_to_the_next_breakpoint(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": TWICE}])
    await editor.stopped()
    await editor.request("next", threadId=1)
    assert (await editor.stopped())[0] == "step"

    await editor.request("continue", threadId=1)

    assert await editor.stopped() == ("breakpoint", "twice", TWICE)


async def test_breakpoint_conditions_hit_counts_and_log_messages_work(
    editor: Editor, net: Path
) -> None:
    await editor.start(
        net,
        breakpoints=[
            {"line": DOUBLE, "condition": "token == 2"},
            {"line": FINISH, "hitCondition": ">= 3"},
            {"line": 8, "logMessage": "now {len(doubled)} there"},
        ],
    )

    assert await editor.stopped() == ("breakpoint", "transition double", DOUBLE)
    assert (await editor.scope("Binding"))["token"]["value"] == "2"
    await editor.request("continue", threadId=1)
    assert (await editor.stopped())[1] == "transition finish"
    await editor.request("continue", threadId=1)
    assert await editor.end() == 0
    said = [e["body"]["output"] for e in editor.events if e["event"] == "output"]
    assert "now 3 there\n" in said


async def test_an_invalid_condition_halts_and_reports_the_error(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": DOUBLE, "condition": "nothing > 1"}])

    assert (await editor.stopped())[0] == "breakpoint"
    said = [e["body"]["output"] for e in editor.events if e["event"] == "output"]
    assert said == ["breakpoint at double: NameError: name 'nothing' is not defined\n"]


async def test_a_step_is_one_firing(editor: Editor, net: Path) -> None:
    await editor.start(net, stopOnEntry=True)
    assert await editor.stopped() == ("entry", "net sums", 7)

    for left in ("[2, 3]", "[3]", "[]"):
        await editor.request("next", threadId=1)
        assert (await editor.stopped())[0] == "step"
        assert (await editor.scope("Marking"))["numbers"]["value"] == left
    assert (await editor.frames())[0]["name"] == "transition finish"


async def test_a_step_into_a_transition_halts_in_its_code_with_locals(
    editor: Editor, net: Path
) -> None:
    await editor.start(net, breakpoints=[{"line": DOUBLE, "hitCondition": "1"}])
    await editor.stopped()

    await editor.request("stepIn", threadId=1)
    assert await editor.stopped() == ("step", "twice", TWICE)
    frames = await editor.frames()
    assert [frame["source"]["path"] for frame in frames] == [str(net)] * 3
    await editor.request("next", threadId=1)
    assert await editor.stopped() == ("step", "twice", TWICE + 1)
    local = await editor.scope("Locals")
    assert (local["token"]["value"], local["number"]["value"]) == ("1", "1")
    assert (await editor.scope("Marking", 2))["numbers"]["value"] == "[2, 3]"

    await editor.request("next", threadId=1)
    assert await editor.stopped() == ("step", "twice", TWICE + 2)
    await editor.request("next", threadId=1)
    assert await editor.stopped() == ("step", "transition double", DOUBLE)
    await editor.request("continue", threadId=1)
    assert await editor.end() == 0


async def test_a_step_out_of_code_halts_before_the_next_firing(editor: Editor, net: Path) -> None:
    (told,) = await editor.start(net, breakpoints=[{"line": TWICE + 1, "condition": "token == 3"}])
    assert (told["verified"], told["line"]) == (True, TWICE + 1)
    assert await editor.stopped() == ("breakpoint", "twice", TWICE + 1)

    await editor.request("stepOut", threadId=1)
    assert await editor.stopped() == ("step", "transition finish", FINISH)


async def test_in_code_variables_are_evaluated_and_set_by_python(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": TWICE + 1, "condition": "token == 1"}])
    await editor.stopped()
    frame = (await editor.frames())[0]["id"]

    told = await editor.request("evaluate", expression="number + 100", frameId=frame)
    assert told["result"] == "101"
    number = (await editor.scope("Locals"))["number"]
    await editor.request("setVariable", variablesReference=number["in"], name="number", value="50")
    await editor.request("continue", threadId=1)
    assert await editor.end() == 0
    said = [e["body"]["output"] for e in editor.events if e["event"] == "output"]
    assert said[-1].endswith("done  [100, 4, 6]\n")


async def test_the_marking_can_be_changed_and_evaluated(editor: Editor, net: Path) -> None:
    await editor.start(net, stopOnEntry=True)
    await editor.stopped()
    numbers = (await editor.scope("Marking"))["numbers"]

    told = await editor.request(
        "setVariable", variablesReference=numbers["in"], name="numbers", value="[7, {'x': [true]}]"
    )
    assert told["value"] == "[7, {'x': [True]}]"
    tokens = await editor.children((await editor.scope("Marking"))["numbers"]["variablesReference"])
    inner = await editor.children(tokens["1"]["variablesReference"])
    await editor.request("setVariable", variablesReference=inner["x"]["in"], name="x", value="4")
    assert (await editor.request("evaluate", expression="numbers"))["result"] == "[7, {'x': 4}]"
    assert (await editor.request("evaluate", expression="len(marking)"))["result"] == "3"
    await editor.request(
        "setVariable", variablesReference=numbers["in"], name="numbers", value="[9]"
    )
    with pytest.raises(Refused, match="must be a list of tokens, not 9"):
        await editor.request(
            "setVariable", variablesReference=numbers["in"], name="numbers", value="9"
        )
    with pytest.raises(Refused, match="NameError"):
        await editor.request("evaluate", expression="nobody")
    await editor.request("continue", threadId=1)
    assert await editor.end() == 0
    assert editor.events[-3]["body"]["output"].endswith("done  [18]\n")


async def test_an_exception_halts_with_its_details_and_undoes_the_firing(
    editor: Editor, tmp_path: Path
) -> None:
    net = code(tmp_path, "x = 1", "return x / 0")
    await editor.start(net)

    stop = await editor.event("stopped")
    assert stop["reason"] == "exception"
    assert stop["text"] == f"{net}:13: work raised ZeroDivisionError: division by zero"
    assert (await editor.request("exceptionInfo", threadId=1))["description"] == stop["text"]
    assert (await editor.scope("Marking"))["before"]["value"] == "[1]"
    await editor.request("continue", threadId=1)
    assert await editor.end() == 1


async def test_an_endless_net_can_be_paused_and_continued(editor: Editor, tmp_path: Path) -> None:
    net = write(
        tmp_path,
        """\
pnml:
  net:
    id: loop
    place: [{id: p, marking: [1]}]
    transition: {id: t, arcs: [{source: p}, {target: p}]}
""",
    )
    await editor.start(net, maxFirings=1_000_000_000)

    for _ in range(2):
        await editor.request("pause", threadId=1)
        reason, where = (await editor.stopped())[:2]
        assert reason == "pause"
        assert where in ("transition t", "net loop")  # at a firing, or between two
        await editor.request("continue", threadId=1)
    await editor.request("terminate")
    assert await editor.end() == 130


async def test_a_net_that_waits_can_be_paused(editor: Editor, tmp_path: Path) -> None:
    net = code(
        tmp_path, "import asyncio", "print('waits')", "await asyncio.Event().wait()", mode="async"
    )
    await editor.start(net)
    await editor.event("output")

    await editor.request("pause", threadId=1)
    assert (await editor.stopped())[:2] == ("pause", "net one")
    assert (await editor.scope("Under way"))["0"]["value"] == "'t'"
    await editor.request("continue", threadId=1)
    await editor.request("terminate")
    assert await editor.end() == 130


async def test_code_that_never_ends_is_paused_where_it_is(editor: Editor, tmp_path: Path) -> None:
    net = code(tmp_path, "i = 0", "print('busy', flush=True)", "while True:", "    i += 1")
    await editor.start(net)
    await editor.event("output")

    await editor.request("pause", threadId=1)
    reason, frame, line = await editor.stopped()
    assert (reason, frame) == ("pause", "work")
    assert line in (13, 14, 15)
    assert int((await editor.scope("Locals"))["i"]["value"]) >= 0


async def test_printed_text_is_sent_as_output_events_and_never_between_messages(
    editor: Editor, tmp_path: Path
) -> None:
    net = code(
        tmp_path,
        "import os, subprocess, sys",
        "print('from Python')",
        "subprocess.run(['sh', '-c', 'echo from a child; echo to stderr >&2'], check=True)",
        r"os.write(1, b'Content-Length: 5\r\n\r\nbytes\xff\n')",
        "threads = __import__('threading')",
        "thread = threads.Thread(target=print, args=('from a thread',))",
        "thread.start(); thread.join()",
        "return None",
    )
    await editor.start(net)

    assert await editor.end() == 0
    for text in ("from Python", "from a child", "to stderr", "bytes\ufffd", "from a thread"):
        assert text in editor.output


async def test_unknown_and_premature_requests_fail(editor: Editor, net: Path) -> None:
    await editor.request("initialize", adapterID="evolve")
    for command in ("fly", "stepBack", "asyncOperationSubmit"):
        with pytest.raises(Refused, match=f"no request '{command}'"):
            await editor.request(command)
    for command in ("continue", "next", "stepIn", "stackTrace", "evaluate"):
        with pytest.raises(Refused, match="not halted"):
            await editor.request(command, threadId=1, expression="1")
    with pytest.raises(Refused, match="names no 'program'"):
        await editor.request("launch")
    with pytest.raises(Refused, match="cannot be read: No such file"):
        await editor.request("launch", program=str(net.parent / "none.evolve.yaml"))


async def test_problems_of_a_net_are_reported_at_launch(editor: Editor, tmp_path: Path) -> None:
    net = code(tmp_path, "return (")
    await editor.request("initialize", adapterID="evolve")

    with pytest.raises(Refused, match=f"{net}:12:20: error: Not valid Python"):
        await editor.request("launch", program=str(net))


async def test_breakpoint_lines_are_available_before_launch(editor: Editor, net: Path) -> None:
    await editor.request("initialize", adapterID="evolve")
    told = await editor.request(
        "breakpointLocations", source={"path": str(net)}, line=1, endLine=20
    )
    assert [each["line"] for each in told["breakpoints"]] == [7, 8, 9, 11, 16, 17, 18, 19]

    told = await editor.request(
        "setBreakpoints", source={"path": str(net)}, breakpoints=[{"line": 2}, {"line": 8}]
    )
    assert [each["verified"] for each in told["breakpoints"]] == [False, True]
    await editor.request("launch", program=str(net))
    await editor.request("configurationDone")
    assert (await editor.stopped())[1] == "place doubled"


async def test_a_launch_whose_process_exits_early_fails(editor: Editor, net: Path) -> None:
    await editor.request("initialize", adapterID="evolve")

    with pytest.raises(Refused, match="ended before it could be debugged"):
        await editor.request("launch", program=str(net), python="/bin/false")
    assert await editor.end() == 1


async def test_a_debug_session_can_end_before_launch(editor: Editor, net: Path) -> None:
    await editor.request("initialize", adapterID="evolve")
    await editor.request("launch", program=str(net))

    await editor.request("disconnect")
    async with asyncio.timeout(10):
        assert await editor.process.wait() == 0


async def test_without_debugging_nothing_halts(editor: Editor, net: Path) -> None:
    await editor.start(net, breakpoints=[{"line": DOUBLE}], noDebug=True, stopOnEntry=True)

    assert await editor.end() == 0
    assert not [event for event in editor.events if event["event"] == "stopped"]


async def test_a_disconnect_leaves_no_process_behind(editor: Editor, tmp_path: Path) -> None:
    net = code(tmp_path, "import os", "print(os.getpid(), flush=True)", "while True: pass")
    await editor.start(net)
    pid = int((await editor.event("output"))["output"])

    await editor.request("disconnect")
    async with asyncio.timeout(10):
        await editor.process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_disconnected_editor_leaves_no_process(tmp_path: Path) -> None:
    net = code(tmp_path, "import os", "print(os.getpid(), flush=True)", "while True: pass")
    async with Editor() as editor:
        await editor.start(net)
        pid = int((await editor.event("output"))["output"])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_seed_and_variables_of_the_launch_reach_the_net(
    editor: Editor, tmp_path: Path
) -> None:
    net = code(tmp_path, "import os", "print(os.environ['COLOUR'], os.getcwd())")
    await editor.start(net, env={"COLOUR": "blue"}, cwd=str(tmp_path), seed=3)

    assert await editor.end() == 0
    assert editor.output == f"blue {tmp_path}\n"


# The window -------------------------------------------------------------------------------


def answering(editor: Editor, calls: list[tuple[str, Any]]) -> None:
    """Answer the net's questions as an extension does."""
    results: dict[str, Any] = {
        "vscode/chat": {"response": "4", "conversationId": "c", "model": "m"},
        "vscode/showMessage": {"choice": None},
    }
    running = set()

    def answer(event: dict[str, Any]) -> None:
        if event["event"] != "customRequest":
            return
        body = event["body"]
        calls.append((body["type"], body["params"]["message"]))
        task = asyncio.ensure_future(
            editor.request(
                "customRequestResponse",
                requestId=body["requestId"],
                success=True,
                result=results[body["type"]],
            )
        )
        running.add(task)
        task.add_done_callback(running.discard)

    editor.on_event = answer


async def test_debugging_does_not_change_calls_output_or_marking(
    editor: Editor, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, Any]] = []
    answering(editor, calls)
    await editor.start(INTEROP, breakpoints=[{"line": 11}])
    await editor.stopped()
    marking = {
        name: each["value"]
        for name, each in (await editor.scope("Marking")).items()
        if each["value"] != "[]"
    }
    await editor.request("continue", threadId=1)
    assert await editor.end() == 0

    window = Window(chat="4")
    result, _ = await play((await asyncio.to_thread(load, INTEROP)).unwrap(), window)
    assert marking == {
        place: str(tokens) for place, tokens in tokens_by_place(result.marking).items()
    }
    assert calls == [
        ("vscode/showMessage", window.calls[0][1]),
        ("vscode/chat", window.calls[1][1]),
    ]
    assert editor.output == capsys.readouterr().out


async def test_a_malformed_bridge_answer_is_rejected_and_a_valid_one_still_arrives(
    editor: Editor, tmp_path: Path
) -> None:
    net = code(tmp_path, "print(vscode_bridge.chat('2+2?'))")
    await editor.start(net)
    asked = await editor.event("customRequest")
    with pytest.raises(Refused):
        await editor.request("customRequestResponse", nonsense=1)

    await editor.request(
        "customRequestResponse",
        requestId=asked["requestId"],
        success=True,
        result={"response": "4", "conversationId": "c", "model": "m"},
    )
    assert await editor.end() == 0
    assert editor.output == "4\n"
