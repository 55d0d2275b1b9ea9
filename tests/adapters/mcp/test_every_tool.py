"""The official client library lists and calls every tool, over each way to our server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.types import CallToolResult, ImageContent

from bascule.adapters.mcp.mount import McpMount
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.adapters.window_hub import EditorWindow
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

from .clients import names_of, over_http, over_stdio, text_of

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PAGE = "<title>A page</title><button>Press me</button>"

PLACE = {"path": "sums.py", "line": 1, "symbol": "add"}

Call = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and a regular expression that its answer fits."""


def in_the_window(folder: Path) -> list[Call]:
    return [
        ("list_windows", {}, "desk"),
        ("use_window", {"window": "desk"}, "window desk"),
        ("write_file", {"path": "sums.py", "content": "print(2 - 2 == 4)\n"}, "sums.py"),
        ("read_file", {"path": "sums.py"}, r"print\(2 - 2"),
        ("edit_file", {"path": "sums.py", "old": "2 - 2", "new": "2 + 2"}, r"2 \+ 2"),
        ("list_directory", {"path": "."}, r"sums\.py"),
        ("find_files", {"pattern": "*.py"}, r"sums\.py"),
        ("search_text", {"pattern": "pri.t"}, r"sums\.py.*1.*print"),
        ("run_command", {"command": "python3 sums.py"}, "^True\n.*exit status 0"),
        ("run_command", {"command": "read name; echo hello $name", "wait": 0.1}, "still runs"),
        ("read_output", {"wait": 0.1}, "still runs"),
        ("type_input", {"text": "you", "wait": 30}, "hello you\n.*exit status 0"),
        ("interrupt", {}, "nothing runs"),
        ("run_python", {"code": "6 * 7"}, "42"),
        ("browse", {"url": f"{folder}/page.html"}, "Press me"),
        ("browse_interact", {"calls": "noop()"}, "Press me"),
        ("diagnostics", {"path": "sums.py"}, "undefined name"),
        ("symbols", {"path": "sums.py"}, "add: function"),
        ("definition", PLACE, "sums.py:1: definition of add"),
        ("type_definition", PLACE, "type_definition of add"),
        ("implementations", {**PLACE, "limit": 5}, "implementations of add"),
        ("references", {**PLACE, "offset": 0, "occurrence": 1}, "references of add"),
        ("hover", PLACE, "hover of add"),
        ("call_hierarchy", {**PLACE, "direction": "outgoing"}, "call_hierarchy of add"),
        ("workspace_symbols", {"query": "add"}, "workspace_symbols of add"),
        ("code_actions", {"path": "sums.py", "line": 1, "only": "quickfix"}, "of quickfix"),
        ("rename_symbol", {**PLACE, "new_name": "plus"}, "Renamed 'add' to 'plus'"),
        (
            "apply_code_action",
            {"path": "sums.py", "line": 1, "title": "Fix it"},
            "^Applied 'Fix it'$",
        ),
        ("format", {"path": "sums.py"}, "^Formatted"),
        ("organize_imports", {"path": "sums.py"}, "^Organized"),
        (
            "vscode_command",
            {"command": "vscode.open", "arguments": [{"$uri": "sums.py"}]},
            r'\[\{"\$uri": ?"sums.py"\}\]',
        ),
        ("debug_configurations", {}, "Main: node"),
        ("set_breakpoints", {"path": "sums.py", "add": [{"line": 2}]}, "sums.py:2"),
        ("debug_start", {"name": "Main", "timeout": 30}, "Stopped by debug_start at sums.py:2"),
        ("debug_continue", {}, "Stopped by debug_continue"),
        ("debug_step", {"step": "into"}, "Stopped by debug_step"),
        ("debug_pause", {"thread": 1}, "Stopped by debug_pause"),
        ("debug_state", {"frame": 1}, "Stopped by debug_state"),
        ("debug_evaluate", {"expression": "a + b"}, r"a \+ b = 3"),
        ("debug_set_variable", {"name": "a", "value": "1"}, "a = 1"),
        ("debug_stop", {"restart": False}, "'Main' has ended"),
        ("list_tests", {"path": "test_sums.py"}, "test_sums.py::test_add in test_sums.py"),
        ("run_tests", {"tests": ["test_sums.py::test_add"], "timeout": 30}, "^1 failed"),
        ("test_results", {"outcome": "failed", "limit": 5}, "^1 failed"),
        ("read_cells", {"path": "a.ipynb", "limit": 3}, "^read_cells of a.ipynb"),
        (
            "edit_cells",
            {"path": "a.ipynb", "edits": [{"op": "delete", "cell": 1}]},
            "^edit_cells of a.ipynb",
        ),
        ("run_cells", {"path": "a.ipynb", "cells": [2], "wait": 5}, "^run_cells of a.ipynb"),
        ("list_tasks", {"query": "make", "limit": 5}, "^build: make"),
        ("run_task", {"name": "build", "timeout": 30}, "^'build' ended with exit code 0"),
        ("stop_task", {"name": "build"}, "^'build' was stopped"),
        ("list_running", {}, "^task build"),
        ("read_terminal", {"terminal": "bash", "timeout": 1}, r"^\$ make"),
        ("git_status", {}, "^On branch main, git_status"),
        ("git_diff", {"path": "a", "staged": True}, "^diff of a"),
        ("git_stage", {"paths": ["a"]}, "^On branch main, git_stage"),
        ("git_unstage", {"paths": ["a"]}, "^On branch main, git_unstage"),
        ("git_commit", {"commit_message": "Add a"}, "^On branch main, git_commit"),
        ("open_editors", {}, "^sums.py:1"),
        ("list_ports", {}, "^port 8000"),
        ("screenshot", {}, "^A picture"),
        ("selection", {}, "return a - b"),
        ("open_file", {"path": "sums.py", "line": 1}, "is shown"),
        ("show_diff", {"path": "sums.py", "content": "new\n"}, "is shown"),
        ("ask_user", {"question": "Which colour?"}, "^blue$"),
        ("run_command", {"command": "seq 20000"}, "read_more with answer 'a1'"),
        ("read_more", {"answer": "a1", "offset": 20000}, "^[0-9]+\n"),
    ]


IN_THE_SESSION: list[Call] = [
    ("list_sessions", {}, "first  ready"),
    ("use_session", {"session": "first"}, "session first"),
    ("run_command", {"command": "pwd"}, "/workspace\n"),
    ("run_command", {"command": "echo text > made"}, "exit status 0"),
    ("list_checkpoints", {}, "echo text > made.*1 file"),
    ("show_checkpoint", {"checkpoint": 1}, r"\+text"),
    ("restore_checkpoint", {"checkpoint": 1}, "removed made"),
]


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub(mounts=(McpMount,)) as made, SessionsClient(made.url) as admin:
        await admin.ready({"name": "first"})
        yield made


@asynccontextmanager
async def window(hub: SessionHub, folder: Path) -> AsyncIterator[None]:
    (folder / "page.html").write_text(PAGE)
    settings = SandboxSettings(shells=ShellSettings(working_dir=folder))
    async with EditorWindow(hub.url, hub.window, settings, name="desk") as desk:
        await desk.connect()
        yield


def client_of(hub: SessionHub, way: str) -> AbstractAsyncContextManager[ClientSession]:
    if way == "http":
        return over_http(f"{hub.url}/mcp", hub.agent)
    return over_stdio(BASCULE_HUB=hub.url, BASCULE_TOKEN=hub.agent)


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_every_tool_is_called(hub: SessionHub, tmp_path: Path, way: str) -> None:
    calls = [*in_the_window(tmp_path), *IN_THE_SESSION]
    async with window(hub, tmp_path), client_of(hub, way) as client:
        tools = names_of(await client.list_tools())
        answers = [(*each, await client.call_tool(*each[:2])) for each in calls]
        tools |= names_of(await client.list_tools())  # a session can do other things

    assert tools == {tool for tool, *_ in calls}
    for tool, given, expected, result in answers:
        assert not result.isError, (tool, given, text_of(result))
        assert re.search(expected, text_of(result), re.DOTALL), (tool, given, text_of(result))
    assert any(has_picture(result) for tool, *_, result in answers if tool == "browse")


def has_picture(result: CallToolResult) -> bool:
    return any(isinstance(each, ImageContent) for each in result.content)
