"""Tasks, terminals, git repositories and the view of a real window, with questions to its user."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.editor_actions import VscodeCommand
from bascule.core.errors import (
    ConsentDenied,
    GitFailed,
    InvalidRange,
    NoChanges,
    NoRepository,
    NoSuchTask,
    NoSuchTerminal,
    NothingStaged,
    NotSupported,
    TaskBusy,
    TerminalUnreadable,
)
from bascule.runtime.vscode import VSCodeRuntime
from tests.adapters.mcp.clients import over_http, text_of
from tests.contracts.runtime import gone

from .rig import EditorWindow, Rig

_MATCHER = {
    "owner": "lint",
    "source": "our lint",
    "fileLocation": ["relative", "${workspaceFolder}"],
    "pattern": {
        "regexp": r"^([\w.]+):(\d+):(\d+): (\w+): (.*)$",
        "file": 1,
        "line": 2,
        "column": 3,
        "severity": 4,
        "message": 5,
    },
}
_WATCHER = {
    **_MATCHER,
    "background": {
        "activeOnStart": True,
        "beginsPattern": "^checking$",
        "endsPattern": "^checked$",
    },
}
_TASKS: list[dict[str, Any]] = [
    {
        "label": "lint",
        "type": "shell",
        "command": "cat findings; exit 3",
        "problemMatcher": _MATCHER,
    },
    {"label": "one", "type": "process", "command": "echo", "args": ["first"]},
    {"label": "both", "dependsOn": ["one", "lint"], "dependsOrder": "sequence"},
    {"label": "good", "type": "shell", "command": "echo last", "dependsOn": "one"},
    {
        "label": "watch",
        "type": "shell",
        "command": "echo $$ > pid; cat findings; echo checked; exec sleep 600",
        "isBackground": True,
        "problemMatcher": _WATCHER,
    },
    {"label": "slow", "type": "shell", "command": "echo begun; exec sleep 600"},
    {"label": "missing", "type": "process", "command": "/no/such/program"},
]
_FINDINGS = "a.txt:1:3: error: bad word\na.txt:2:1: warning: long line\n"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("workbench") / "workbench"
    (folder / ".vscode").mkdir(parents=True)
    (folder / ".vscode/tasks.json").write_text(json.dumps({"version": "2.0.0", "tasks": _TASKS}))
    (folder / "package.json").write_text(json.dumps({"scripts": {"build": "echo built"}}))
    (folder / "a.txt").write_text("a bad word\na long line\n")
    (folder / "findings").write_text(_FINDINGS)
    for name in ("app", "other"):
        _git(folder, "init", "-q", "-b", "main", name)
        (folder / name / "kept.txt").write_text("one\ntwo\n")
        (folder / name / "gone.txt").write_text("gone\n")
        _git(folder / name, "config", "user.name", "A Person")
        _git(folder / name, "config", "user.email", "person@example.org")
        _git(folder / name, "add", "-A")
        _git(folder / name, "commit", "-q", "-m", "Begin")
    server = rig.wait(rig.serve("workbench", {"git.enabled": True}))
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as runtime:
        yield runtime


@pytest.fixture
def folder(window: EditorWindow) -> Path:
    return window.folder


async def _answer(rig: Rig, window: EditorWindow, answer: str) -> dict[str, Any]:
    """Wait for a question of the window, answer it on the hub, and return it."""
    sockets = rig.hub._sockets
    known = asyncio.Event()
    sockets._changes.subscribe(lambda *_: known.set())
    async with asyncio.timeout(120):
        while not (asked := sockets.approvals.pending()):
            await known.wait()
            known.clear()
    question = dict(asked[0])
    await sockets.answer(window.id, str(question["id"]), answer, by="somebody")
    return question


async def _answer_about(
    rig: Rig, window: EditorWindow, asked: asyncio.Task[Any], answer: str
) -> dict[str, Any]:
    """Answer the question about `asked`, or raise the error that `asked` had before a question."""
    answering = asyncio.create_task(rig.on(_answer(rig, window, answer)))
    await asyncio.wait({asked, answering}, return_when=asyncio.FIRST_COMPLETED)
    if asked.done() and not isinstance(asked.exception(), ConsentDenied | None):
        answering.cancel()
        asked.result()
    return await answering


async def test_tasks_are_listed_with_what_they_run(agent: VSCodeRuntime) -> None:
    listed = await agent.list_tasks()

    found = {item["name"]: item for item in listed.items}
    assert found.keys() >= {"lint", "both", "watch", "npm: build"}
    assert found["both"]["depends_on"] == ["one", "lint"]
    assert found["watch"]["is_background"]
    assert found["npm: build"]["command"] == "npm run build"
    assert "one: echo first (in workbench)" in listed.content.splitlines()
    page = await agent.list_tasks("echo", limit=1)
    assert (len(page.items), page.truncated) == (1, True)
    assert page.note == f"{page.total} tasks; continue with `offset` 1"
    with pytest.raises(InvalidRange, match="`limit` 0"):
        await agent.list_tasks(limit=0)


async def test_a_task_is_answered_with_its_problems_and_output(
    agent: VSCodeRuntime, folder: Path
) -> None:
    for _ in range(2):  # the second run reports the same problems again
        done = await agent.run_task("lint")

        assert (done.state, done.exit_code) == ("ended", 3)
        assert done.content.splitlines()[1:3] == [
            f"{folder}/a.txt:1:3: error: bad word",
            f"{folder}/a.txt:2:1: warning: long line",
        ]
        assert done.output == _FINDINGS
        assert done.problems[0]["source"] == "our lint"

    short = await agent.run_task("lint", output_limit=20)
    assert short.truncated
    assert "characters left out]" in (short.output or "")
    (folder / "findings").write_text("")
    fixed = await agent.run_task("lint")
    (folder / "findings").write_text(_FINDINGS)
    assert (list(fixed.problems), fixed.output) == ([], "")


async def test_tasks_that_a_task_depends_on_are_part_of_its_answer(agent: VSCodeRuntime) -> None:
    good = await agent.run_task("good")
    assert (good.state, good.exit_code, good.output) == ("ended", 0, "first\nlast\n")
    failed = await agent.run_task("both")
    assert (failed.state, failed.exit_code) == ("ended", 3)
    assert len(failed.problems) == 2


async def test_a_background_task_runs_on_until_it_is_stopped(
    agent: VSCodeRuntime, folder: Path
) -> None:
    started = await agent.run_task("watch", timeout=120)
    assert (started.state, started.exit_code, len(started.problems)) == ("running", None, 2)
    pid = int((folder / "pid").read_text())
    assert "task watch: echo $$ > pid" in (await agent.list_running()).content
    with pytest.raises(TaskBusy, match="'watch' already runs"):
        await agent.run_task("watch")

    stopped = await agent.stop_task("watch")

    assert stopped.state == "stopped"
    await gone(pid)
    with pytest.raises(NoSuchTask, match="no task runs"):
        await agent.stop_task("watch")


async def test_a_task_that_takes_too_long_runs_on(agent: VSCodeRuntime) -> None:
    running = await agent.run_task("slow", timeout=5)
    assert (running.state, running.output) == ("running", "begun\n")
    with pytest.raises(NoSuchTask, match="There are: 'slow'"):
        await agent.stop_task("lint")
    assert (await agent.stop_task("slow")).output == ""


async def test_impossible_tasks_return_clear_errors(agent: VSCodeRuntime) -> None:
    with pytest.raises(NoSuchTask, match=r"no task 'lunt'\. There are: 'lint'"):
        await agent.run_task("lunt")
    with pytest.raises(NoSuchTask, match="in the folder 'elsewhere'"):
        await agent.run_task("lint", folder="elsewhere")
    missing = await agent.run_task("missing", timeout=5)
    # VS Code reports its end only if it starts it in a terminal that was used before.
    assert missing.exit_code is None
    assert re.search("program (is|may be) missing", missing.content)


async def test_the_question_about_a_task_shows_what_it_runs(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    rules = folder / ".vscode/bascule-rules.toml"
    rules.write_text('[[ask]]\nrun = ["rm"]\n')
    try:
        asked = asyncio.create_task(agent.run_task("both"))
        question = await rig.on(_answer(rig, window, "deny"))
        with pytest.raises(ConsentDenied):
            await asked
        assert question["kind"] == "run_task"
        assert "lint: cat findings; exit 3" in question["detail"]
        asked = asyncio.create_task(agent.run_task("npm: build"))
        question = await rig.on(_answer(rig, window, "once"))
        assert "│ npm run build" in question["detail"]
        assert "│ echo built" in question["detail"]
        assert (await asked).exit_code == 0
    finally:
        rules.unlink()


async def test_a_terminal_of_the_user_is_read_only_after_the_user_agreed(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime
) -> None:
    async def terminals() -> list[dict[str, Any]]:
        items = (await agent.list_running()).items
        return [dict(item) for item in items if item["type"] == "terminal"]

    before = [each["pid"] for each in await terminals()]
    await agent.act(VscodeCommand("workbench.action.terminal.new", timeout=60))
    async with asyncio.timeout(120):
        while True:
            new = [each for each in await terminals() if each["pid"] not in before]
            if [each["state"] for each in new] == ["idle"]:
                break
    (terminal,) = new
    pid = str(terminal["pid"])

    refused = asyncio.create_task(agent.read_terminal(pid))
    question = await _answer_about(rig, window, refused, "deny")
    with pytest.raises(ConsentDenied):
        await refused
    assert f"{terminal['name']} (process {pid})" in question["detail"]
    asked = asyncio.create_task(agent.read_terminal(pid))
    await _answer_about(rig, window, asked, "once")
    first = await asked
    assert (first.content, first.note) == (
        "No output yet",
        "Output from before the user agreed cannot be read",
    )


async def test_terminals_that_cannot_be_read_return_clear_errors(agent: VSCodeRuntime) -> None:
    await agent.run("true")
    running = await agent.list_running()
    (shell,) = [item for item in running.items if item["type"] == "shell"]
    assert (shell["name"], shell["state"]) == ("main", "idle")
    await agent.run("sleep 600 & echo $! > sleeper")
    programs = [item for item in (await agent.list_running()).items if item["type"] == "program"]
    assert "sleep 600" in [each["command"] for each in programs]
    with pytest.raises(NoSuchTerminal, match="No terminal 'none'"):
        await agent.read_terminal("none")
    with pytest.raises(TerminalUnreadable, match="belongs to an extension"):
        await agent.read_terminal(shell["agent"])


async def test_tasks_are_tools_of_mcp(rig: Rig, window: EditorWindow) -> None:
    async with over_http(f"{rig.url}/mcp", await rig.agent_token()) as client:
        await client.call_tool("use_window", {"window": window.id})
        listed = await client.call_tool("list_tasks", {"query": "findings"})
        assert "lint: cat findings; exit 3 (in workbench)" in text_of(listed)
        ran = await client.call_tool("run_task", {"name": "lint", "timeout": 60})
        assert "a.txt:1:3: error: bad word" in text_of(ran)
        assert not ran.isError
        wrong = await client.call_tool("stop_task", {"name": "lint"})
        assert wrong.isError
        assert "task.not_found" in text_of(wrong)


async def test_changes_are_staged_and_committed(agent: VSCodeRuntime, folder: Path) -> None:
    app = folder / "app"
    (app / "kept.txt").write_text("one\n2\n")
    (app / "gone.txt").unlink()
    (app / "new").mkdir()
    (app / "new/a b.txt").write_text("new\n")

    status = await agent.git_status(repository="app")
    assert status.content.splitlines()[1:] == [
        "changed: gone.txt (deleted)",
        "changed: kept.txt (modified)",
        "untracked: new/a b.txt",
    ]
    assert (status.branch, status.repository) == ("main", str(app))
    diff = await agent.git_diff("app/kept.txt")
    assert (list(diff.files), diff.content.splitlines()[-2:]) == (["kept.txt"], ["-two", "+2"])
    part = await agent.git_diff(repository="app", limit=3)
    assert (part.truncated, part.note) == (True, f"{part.total} lines; continue with `offset` 3")
    staged = await agent.git_stage(["app/kept.txt", "app/gone.txt", "app/new"])
    assert [item["group"] for item in staged.items] == ["staged"] * 3
    unstaged = await agent.git_unstage(["app/gone.txt"])
    assert [item["group"] for item in unstaged.items] == ["staged", "staged", "changed"]
    assert "+new" in (await agent.git_diff(staged=True, repository="app")).content
    done = await agent.git_commit("Change two\n\nIt is a number.", repository="app")
    assert done.commit == _git(app, "rev-parse", "HEAD").strip()
    assert _git(app, "log", "-1", "--format=%an: %B").strip() == (
        "A Person: Change two\n\nIt is a number."
    )
    assert [item["path"] for item in done.items] == [str(app / "gone.txt")]


async def test_impossible_git_actions_return_clear_errors(
    agent: VSCodeRuntime, folder: Path
) -> None:
    with pytest.raises(NoRepository, match="several repositories"):
        await agent.git_status()
    with pytest.raises(NoRepository, match="No repository 'none'"):
        await agent.git_status(repository="none")
    with pytest.raises(NoRepository, match="in no git repository"):
        await agent.git_diff("a.txt")
    with pytest.raises(NothingStaged):
        await agent.git_commit("Nothing", repository="other")
    with pytest.raises(NoChanges, match="no changes to stage"):
        await agent.git_stage(["other/kept.txt"])
    hook = folder / "other/.git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho 'the hook says no' >&2; exit 1\n")
    hook.chmod(0o755)
    (folder / "other/kept.txt").write_text("changed\n")
    await agent.git_stage(["other/kept.txt"])
    with pytest.raises(GitFailed, match="the hook says no"):
        await agent.git_commit("Refused", repository="other")


async def test_open_editors_are_listed_as_the_user_sees_them(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    page = window.page
    await agent.vscode_command("workbench.action.closeAllEditors")
    assert (await agent.open_editors()).content == "No editor is open"
    await agent.open_file("app/kept.txt", preview=False)
    await agent.open_file("a.txt", line=2, column=3)
    first, active = (await agent.open_editors()).items
    assert (first["path"], first["is_visible"]) == (str(folder / "app/kept.txt"), False)
    assert (active["is_active"], active["is_dirty"], active["is_preview"]) == (True, False, True)
    (selection,) = active["selections"]
    assert (selection["start_line"], selection["start_column"]) == (2, 3)
    assert active["visible_lines"][0]["start_line"] == 1

    await rig.on(page.locator(".editor-instance .view-line", has_text="a long line").click())
    await rig.on(page.keyboard.type("x"))
    async with asyncio.timeout(60):
        while not (seen := await agent.open_editors()).items[1]["is_dirty"]:
            pass
    assert "a.txt:2 (active; unsaved changes; shows lines 1-3)" in seen.content
    await agent.vscode_command("workbench.action.files.revert")


async def test_ports_of_programs_are_listed(agent: VSCodeRuntime) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        listed = await agent.list_ports()
        (found,) = [item for item in listed.items if item["port"] == port]
    assert (found["address"], found["pid"]) == ("127.0.0.1", os.getpid())
    assert f"127.0.0.1:{port} (process {os.getpid()}): " in listed.content


async def test_the_window_of_a_user_cannot_be_photographed(agent: VSCodeRuntime) -> None:
    assert "screenshot" not in agent.capabilities
    with pytest.raises(NotSupported, match="no API for pictures"):
        await agent.screenshot()
