"""`vscode_bridge` as scripts use it: what each call sends, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import vscode_bridge as vscode
from bascule.core.errors import UsageError
from bascule.testing.bridge import FakeEditor, FakeRequest
from vscode_bridge import Diagnostic, Edit, Position, aio

HERE = str(Path("a.py").absolute())


@pytest.fixture
def editor() -> Iterator[FakeEditor]:
    editor = FakeEditor()
    bridge = editor.bridge()
    vscode.use(bridge)
    yield editor
    vscode.use(None)
    bridge.close()


CALLS: list[tuple[str, str, tuple[Any, ...], dict[str, Any], dict[str, Any], Any, Any]] = [
    (
        *("chat", "vscode/chat", ("2+2?",), {"model": "m", "timeout": None}),
        {"message": "2+2?", "model": "m"},
        *({"response": "4", "conversationId": "c", "model": "m1"}, "4"),
    ),
    (
        *("chat_models", "vscode/chatModels", (), {}, {"timeout": 30000}),
        {"models": [{"id": "m", "maxInputTokens": 9}]},
        [vscode.ChatModel("m", "m", "", "", 9)],
    ),
    (
        *("get_chat_history", "vscode/getChatHistory", ("c", 2), {}),
        {"conversationId": "c", "limit": 2, "timeout": 30000},
        *({"messages": [{"role": "user"}]}, [{"role": "user"}]),
    ),
    (
        *("show_message", "vscode/showMessage", ("Hi", "warning"), {"buttons": ["A"]}),
        {"message": "Hi", "level": "warning", "buttons": ["A"], "modal": False},
        *({"choice": "A"}, "A"),
    ),
    (
        *("confirm", "vscode/showMessage", ("Sure?",), {}),
        {"message": "Sure?", "level": "info", "buttons": ["Yes"], "modal": True},
        *({"choice": None}, False),
    ),
    (
        *("input_box", "vscode/inputBox", ("Name",), {"pattern": "a+"}),
        *({"prompt": "Name", "pattern": "a+"}, {"value": "aa"}, "aa"),
    ),
    (
        *("quick_pick", "vscode/quickPick", (["a", {"label": "b"}],), {"many": True}),
        {"items": [{"label": "a"}, {"label": "b"}], "many": True, "placeholder": "", "title": ""},
        *({"value": ["b"]}, ["b"]),
    ),
    (
        *("form", "vscode/form", ({"type": "object"},), {"title": "T"}),
        *({"schema": {"type": "object"}, "title": "T"}, {"value": {"a": 1}}, {"a": 1}),
    ),
    (
        *("execute_command", "vscode/executeCommand", ("x.y", 1, "z"), {"timeout": 5}),
        {"command": "x.y", "args": [1, "z"], "timeout": 5000},
        *({"result": [7]}, [7]),
    ),
    (
        *("open_file", "vscode/openFile", ("a.py", 3), {}),
        {"path": HERE, "line": 3, "column": 1, "preview": True, "beside": False, "timeout": 30000},
        *({}, None),
    ),
    (
        *("diff", "vscode/diff", (Path("a.py"), "new text", "T"), {"timeout": None}),
        {"left": {"path": HERE}, "right": {"text": "new text"}, "title": "T"},
        *({}, None),
    ),
    (
        *("apply_edit", "vscode/applyEdit", (Edit("a.py", "x", Position(2, 3)),), {"label": "L"}),
        {
            "edits": [
                {
                    "path": HERE,
                    "text": "x",
                    "start": {"line": 2, "column": 3},
                    "end": {"line": 2, "column": 3},
                }
            ],
            "label": "L",
            "save": False,
        },
        *({"applied": True}, True),
    ),
    (
        *("selection", "vscode/activeEditor", (), {"timeout": None}, {"text": False}),
        {
            "editor": {
                "path": None,
                "selection": {
                    "text": "s",
                    "start": {"line": 1, "column": 2},
                    "end": {"line": 1, "column": 3},
                },
            }
        },
        vscode.Selection(None, "s", Position(1, 2), Position(1, 3)),
    ),
    (
        *("active_editor", "vscode/activeEditor", (), {"timeout": None}, {"text": True}),
        *({"editor": None}, None),
    ),
    (
        *("diagnostics.set", "vscode/setDiagnostics", ("a.py", [Diagnostic("bad", 3)]), {}),
        {
            "path": HERE,
            "items": [
                {
                    "message": "bad",
                    "line": 3,
                    "column": 1,
                    "endLine": 3,
                    "endColumn": None,
                    "severity": "error",
                    "source": "",
                    "code": "",
                }
            ],
            "timeout": 30000,
        },
        *({}, None),
    ),
    (
        *("diagnostics.get", "vscode/diagnostics", (), {}, {"timeout": 30000}),
        {
            "items": [
                {
                    "message": "bad",
                    "line": 3,
                    "column": 1,
                    "endLine": 3,
                    "endColumn": 4,
                    "severity": "hint",
                    "path": "/a",
                }
            ]
        },
        [Diagnostic("bad", 3, 1, 3, 4, "hint", path="/a")],
    ),
    (*("diagnostics.clear", "vscode/setDiagnostics", (), {}, {"timeout": 30000}), {}, None),
]


def _named(module: Any, name: str) -> Callable[..., Any]:
    for part in name.split("."):
        module = getattr(module, part)
    found: Callable[..., Any] = module
    return found


@pytest.mark.parametrize("name,type,args,kwargs,sent,answer,made", CALLS, ids=[c[0] for c in CALLS])  # noqa: PT006
async def test_sync_and_async_calls_send_the_request_and_parse_the_answer(
    editor: FakeEditor,
    name: str,
    type: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    sent: Any,
    answer: Any,
    made: Any,
) -> None:
    editor.answers[type] = lambda _: answer

    assert await asyncio.to_thread(lambda: _named(vscode, name)(*args, **kwargs)) == made
    assert await _named(aio, name)(*args, **kwargs) == made

    assert [request.type for request in editor.requests] == [type, type]
    assert [request.params for request in editor.requests] == [sent, sent]


def test_sync_and_async_apis_have_the_same_calls_and_parameters() -> None:
    shared = [name for name in aio.__all__ if name[0].islower() and name not in ("output",)]
    functions = [name for name in shared if not inspect.isclass(getattr(vscode, name))]

    assert set(aio.__all__) - set(vscode.__all__) == {"AsyncChatStream", "AsyncProgress"}
    for name in functions:
        ours, theirs = getattr(vscode, name), getattr(aio, name)
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(theirs).parameters
        )


def test_a_chat_reply_is_a_string_with_its_conversation_and_model(editor: FakeEditor) -> None:
    editor.answers["vscode/chat"] = lambda _: {
        "response": "4",
        "conversationId": "conv-1",
        "model": "gpt",
    }

    reply = vscode.chat("What is 2+2?")

    assert isinstance(reply, str)
    assert (reply, reply.conversation_id, reply.model) == ("4", "conv-1", "gpt")


def test_a_malformed_answer_is_a_protocol_error(editor: FakeEditor) -> None:
    editor.answers["vscode/chat"] = lambda _: {"no": "response"}

    with pytest.raises(vscode.BridgeProtocol, match="vscode/chat"):
        vscode.chat("2+2?")


def _stream(asked: FakeRequest) -> Any:
    assert asked.params["stream"] is True
    for piece in ("one ", "two ", "three"):
        asked.progress(piece)
    return {"response": "one two three", "conversationId": "c", "model": "m"}


def test_a_chat_stream_yields_pieces_and_then_the_full_reply(editor: FakeEditor) -> None:
    editor.answers["vscode/chat"] = _stream

    stream = vscode.chat("Count", stream=True)
    with pytest.raises(UsageError):
        _ = stream.reply

    assert list(stream) == ["one ", "two ", "three"]
    assert (stream.reply, stream.reply.model) == ("one two three", "m")


async def test_an_async_chat_stream_yields_pieces_and_then_the_full_reply(
    editor: FakeEditor,
) -> None:
    editor.answers["vscode/chat"] = _stream

    stream = aio.chat("Count", stream=True)

    assert [piece async for piece in stream] == ["one ", "two ", "three"]
    assert stream.reply == "one two three"


def test_leaving_a_stream_cancels_the_rest(editor: FakeEditor) -> None:
    cancelled = threading.Event()

    def endless(asked: FakeRequest) -> Any:
        asked.progress("and ")
        if asked.cancelled.wait(10):
            cancelled.set()

    editor.answers["vscode/chat"] = endless

    for piece in vscode.chat("Go on", stream=True):
        assert piece == "and "
        break

    assert cancelled.wait(10)


def test_an_error_ends_a_stream(editor: FakeEditor) -> None:
    def fail(asked: FakeRequest) -> Any:
        asked.progress("so far")
        raise vscode.ChatBlocked("No more")

    editor.answers["vscode/chat"] = fail
    stream = iter(vscode.chat("?", stream=True))

    assert next(stream) == "so far"
    with pytest.raises(vscode.ChatBlocked):
        next(stream)


def _until_done(asked: FakeRequest) -> Any:
    while not asked.added.get(timeout=10).get("done"):
        pass
    return {}


def test_progress_counts_towards_its_total_and_ends_with_the_block(editor: FakeEditor) -> None:
    seen: list[Any] = []
    ended = threading.Event()

    def note(asked: FakeRequest) -> Any:
        while not (value := asked.added.get(timeout=10)).get("done"):
            seen.append(value)
        ended.set()
        return {}

    editor.answers["vscode/progress"] = note

    with vscode.progress("Work") as bar:
        for item in bar.track(["a", "b"]):
            bar.update(f"at {item}")

    assert ended.wait(10)
    assert editor.requests[0].params == {"title": "Work", "cancellable": True}
    assert seen == [
        {"message": "at a", "increment": 0},
        {"message": "", "increment": 50},
        {"message": "at b", "increment": 0},
        {"message": "", "increment": 50},
    ]


def _cancels(asked: FakeRequest) -> Any:
    asked.added.get(timeout=10)
    raise vscode.BridgeCancelled("The user cancelled it")


def test_cancel_raises_in_the_script(editor: FakeEditor) -> None:
    editor.answers["vscode/progress"] = _cancels

    bar = vscode.progress("Work")

    def work() -> None:
        with bar:
            while True:
                bar.update("more")

    with pytest.raises(vscode.BridgeCancelled):
        work()
    assert bar.is_cancelled


async def test_cancelling_progress_interrupts_an_awaiting_script(editor: FakeEditor) -> None:
    editor.answers["vscode/progress"] = _cancels

    async def work() -> None:
        async with aio.progress("Work") as bar:
            await bar.update("begin")
            await asyncio.Event().wait()

    with pytest.raises(vscode.BridgeCancelled, match="'Work'"):
        await work()

    await asyncio.sleep(0)  # the task is not cancelled any more


async def test_a_cancelled_task_stays_cancelled_inside_a_progress(editor: FakeEditor) -> None:
    editor.answers["vscode/progress"] = _until_done

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), aio.progress("Work"):
            await asyncio.Event().wait()


def test_work_continues_if_its_progress_notification_is_lost(
    editor: FakeEditor, caplog: pytest.LogCaptureFixture
) -> None:
    def lose(_: FakeRequest) -> Any:
        raise vscode.BridgeClosed("The window is gone")

    editor.answers["vscode/progress"] = lose

    with vscode.progress("Work", total=10) as bar:
        answer = bar._answer
        assert answer is not None
        assert isinstance(answer.exception(10), vscode.BridgeClosed)
        bar.update("one")
        bar.update("two")

    assert caplog.text.count("is no longer shown") == 1


def test_an_output_channel_is_written_shown_and_cleared(editor: FakeEditor) -> None:
    editor.answers["vscode/output"] = lambda _: {}
    channel = vscode.output("Build")

    channel.print("a", 1)
    channel.show()
    channel.clear()

    told = [(r.params["text"], r.params["show"], r.params["clear"]) for r in editor.requests]
    assert told == [("a 1\n", False, False), ("", True, False), ("", False, True)]


@pytest.mark.slow
def test_importing_vscode_bridge_loads_no_heavy_modules(project: Path) -> None:
    code = (
        "import sys, vscode_bridge\n"
        "heavy = {'pydantic', 'pydantic_core', 'aiohttp', 'websockets', 'asyncio', 'ssl'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=project
    )
    assert ran.stdout.strip() == "[]"
