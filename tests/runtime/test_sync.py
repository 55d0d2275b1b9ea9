"""`SyncRuntime`: the same words without `await`."""

from __future__ import annotations

import inspect
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import CmdRun
from bascule.core.agent_test_actions import GetTestResults, ListTests, RunTests
from bascule.core.contracts import OutputProgress
from bascule.core.editor_actions import (
    ApplyCodeAction,
    DebugSetVariable,
    DebugStart,
    DebugStep,
    DebugStop,
    Diagnostics,
    FormatFile,
    LanguageLookup,
    OrganizeImports,
    RenameSymbol,
    SetBreakpoints,
)
from bascule.core.errors import NoSuchPath, UsageError
from bascule.core.git_events import GetGitDiff, GitCommit, GitStage, GitUnstage
from bascule.core.identity import EventId
from bascule.core.notebook_events import EditCells, ReadCells, RunCells
from bascule.core.observations import CmdOutput
from bascule.core.programs import ProgramHost
from bascule.core.task_events import ListTasks, ReadTerminal, RunTask, StopTask
from bascule.runtime import LocalRuntime, RemoteRuntime, SyncRuntime, SyncWindowRuntime, Verbs
from bascule.runtime.agent_test_verbs import AgentTestVerbs
from bascule.runtime.debug_verbs import DebugVerbs
from bascule.runtime.git_verbs import GitVerbs
from bascule.runtime.language_verbs import LanguageVerbs
from bascule.runtime.notebook_verbs import NotebookVerbs
from bascule.runtime.task_verbs import TaskVerbs
from bascule.runtime.view_verbs import ViewVerbs
from bascule.runtime.vscode import VSCodeRuntime
from bascule.runtime.window_verbs import WindowVerbs

_WINDOW_VERBS = (
    *(WindowVerbs, LanguageVerbs, DebugVerbs, AgentTestVerbs, NotebookVerbs),
    *(TaskVerbs, GitVerbs, ViewVerbs),
)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[SyncRuntime]:
    with SyncRuntime(LocalRuntime(tmp_path)) as runtime:
        yield runtime


def test_a_timeout_is_the_default_or_the_given_value_or_none(tmp_path: Path) -> None:
    with SyncRuntime(LocalRuntime(tmp_path, default_timeout=0.1)) as runtime:
        assert runtime.run("cat", shell="one").metadata.timed_out == "hard"
        assert runtime.run("sleep 0.3", shell="two", timeout=None).exit_code == 0
        assert runtime.run("sleep 0.3", shell="two", timeout=20).exit_code == 0


def test_the_sync_runtime_performs_every_kind_of_action(
    runtime: SyncRuntime, tmp_path: Path
) -> None:
    assert "run" in runtime.capabilities
    assert isinstance(runtime.act(CmdRun("true")), CmdOutput)
    assert runtime.run("echo hi").content == "hi\n"
    runtime.make_dir("d")
    runtime.write("d/note", "one\n")
    runtime.edit(str(tmp_path / "d/note"), "str_replace", old_str="one", new_str="two")
    assert runtime.read("d/note").content == "two\n"
    assert [entry.path for entry in runtime.list_dir("d").entries] == ["note"]
    assert list(runtime.glob("**/note").paths) == [str(tmp_path / "d/note")]
    assert runtime.grep("two").matches[0].line == 1
    assert not runtime.interrupt().was_running
    assert runtime.read_log() == b"hi\n"
    assert runtime.search_log("h")[0].text == "hi"
    runtime.upload(tmp_path / "d/note", str(tmp_path / "up"))
    assert runtime.download(str(tmp_path / "up/note"), tmp_path / "copy").read_text() == "two\n"
    runtime.remove("d/note")
    runtime.remove_dir("d")
    with pytest.raises(NoSuchPath):
        runtime.read("d/note")


def test_the_sync_runtime_has_the_methods_and_parameters_of_the_async_one() -> None:
    own = {name for name, value in vars(SyncRuntime).items() if inspect.isfunction(value)}
    theirs = {
        name
        for cls in (Verbs, RemoteRuntime)
        for name, value in vars(cls).items()
        if inspect.iscoroutinefunction(value) and not name.startswith("_")
    } - {"aclose", "send", "unpack"}
    # `send` is for hubs, which have encoded the action already. `unpack` is for their mounts.
    # Programs stream their output, which synchronous code cannot follow.
    theirs -= set(vars(ProgramHost)) | {"start_program_for", "end_programs_of"}
    assert theirs <= own
    for name in theirs:
        ours = inspect.signature(getattr(SyncRuntime, name)).parameters
        other = inspect.signature(getattr(Verbs, name)).parameters
        assert list(ours.values()) == list(other.values()), name


def test_a_window_has_the_methods_of_its_runtime() -> None:
    verbs = {
        name: value
        for cls in _WINDOW_VERBS
        for name, value in vars(cls).items()
        if inspect.iscoroutinefunction(value) and not name.startswith("_")
    }
    assert {"diagnostics", "references", "rename_symbol", "debug_start"} < verbs.keys()
    for name, value in verbs.items():
        ours = inspect.signature(getattr(SyncWindowRuntime, name))
        assert ours == inspect.signature(value), name


def test_a_sync_window_passes_on_all_arguments() -> None:
    class _Noted(VSCodeRuntime):
        """Does nothing but note the actions."""

        async def connect(self) -> None:
            pass

        async def aclose(self) -> None:
            pass

        async def _do(self, action: Any, kind: Any) -> Any:
            done.append(action)

    done: list[Any] = []
    place = ("a.ts", 3, "name")
    with SyncWindowRuntime(_Noted("http://127.0.0.1:9", "token")) as window:
        window.references(*place, occurrence=2, offset=4, limit=5, timeout=6)
        window.call_hierarchy(*place, direction="outgoing")
        window.code_actions("a.ts", 3, only="quickfix", end_line=4)
        window.workspace_symbols("name", path="a.ts")
        window.rename_symbol(*place, "other", occurrence=2, timeout=6)
        window.apply_code_action("a.ts", 3, "Fix", symbol="name", end_line=4)
        window.format("a.ts")
        window.organize_imports("a.ts", timeout=6)
        window.diagnostics("a.ts", settle=True)
        window.set_breakpoints("a.ts", add=[{"line": 3}], remove=[4], exceptions=["all"])
        window.debug_start(configuration={"type": "node"}, folder="b", timeout=6)
        window.debug_step("out", thread=2, timeout=6)
        window.debug_set_variable("a", "1", frame=2, thread=3)
        window.debug_stop(restart=True, timeout=6)
        window.list_tests("tests", name="pytest", offset=2, limit=3, timeout=6)
        window.run_tests(tests=["a::b"], name="pytest", limit=3, timeout=6)
        window.run_tests("tests", failed=True)
        window.test_results(outcome="failed", query="a", offset=2, limit=3)
        window.read_cells("a.ipynb", cells=[2], offset=1, limit=3, outputs=False, output_limit=4)
        window.edit_cells("a.ipynb", [{"op": "delete", "cell": 1}], timeout=6)
        window.run_cells("a.ipynb", [2], output_limit=4, timeout=6)
        window.list_tasks("make", offset=1, limit=2, timeout=6)
        window.run_task("build", folder="a", output_limit=4, timeout=6)
        window.stop_task("build", folder="a", timeout=6)
        window.read_terminal("bash", output_limit=4, timeout=6)
        window.git_diff("a", staged=True, repository="b", offset=1, limit=2)
        window.git_stage(["a"], repository="b", timeout=6)
        window.git_unstage(["a"], repository="b", timeout=6)
        window.git_commit("Add a", repository="b", timeout=6)
    assert [replace(each, id=EventId("")) for each in done] == [
        replace(each, id=EventId(""))
        for each in (
            LanguageLookup("references", *place, 2, offset=4, limit=5, timeout=6),
            LanguageLookup("call_hierarchy", *place, direction="outgoing"),
            LanguageLookup("code_actions", "a.ts", 3, query="quickfix", end_line=4, limit=1000),
            LanguageLookup("workspace_symbols", "a.ts", query="name"),
            RenameSymbol(*place, "other", 2, timeout=6),
            ApplyCodeAction("a.ts", 3, "Fix", "name", end_line=4),
            FormatFile("a.ts"),
            OrganizeImports("a.ts", timeout=6),
            Diagnostics("a.ts", settle=True),
            SetBreakpoints("a.ts", [{"line": 3}], [4], exceptions=["all"]),
            DebugStart("", {"type": "node"}, "b", timeout=6),
            DebugStep("out", 2, timeout=6),
            DebugSetVariable("a", "1", 2, 3),
            DebugStop(restart=True, timeout=6),
            ListTests("tests", "pytest", 2, 3, timeout=6),
            RunTests(tests=["a::b"], name="pytest", limit=3, timeout=6),
            RunTests("tests", failed=True),
            GetTestResults("failed", "a", 2, 3),
            ReadCells("a.ipynb", [2], 1, 3, outputs=False, output_limit=4),
            EditCells("a.ipynb", [{"op": "delete", "cell": 1}], timeout=6),
            RunCells("a.ipynb", [2], 4, timeout=6),
            ListTasks("make", 1, 2, timeout=6),
            RunTask("build", "a", 4, timeout=6),
            StopTask("build", "a", timeout=6),
            ReadTerminal("bash", 4, timeout=6),
            GetGitDiff("a", True, "b", 1, 2),
            GitStage(["a"], "b", timeout=6),
            GitUnstage(["a"], "b", timeout=6),
            GitCommit("Add a", "b", timeout=6),
        )
    ]


def test_the_sync_runtime_reports_progress_while_waiting(runtime: SyncRuntime) -> None:
    pieces: list[OutputProgress] = []
    runtime.run("seq 1 1000", on_progress=pieces.append)
    assert b"".join(piece.data for piece in pieces).endswith(b"999\n1000\n")


def test_several_threads_can_call_a_sync_runtime(runtime: SyncRuntime) -> None:
    answers: dict[str, str] = {}

    def talk(shell: str) -> None:
        answers[shell] = runtime.run(f"echo {shell}", shell=shell).content

    threads = [threading.Thread(target=talk, args=(f"shell-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {f"shell-{n}": f"shell-{n}\n" for n in range(8)}


def test_ctrl_c_while_waiting_ends_the_command(runtime: SyncRuntime) -> None:
    def press(_: OutputProgress) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        runtime.run("echo up; sleep 60", on_progress=press)
    assert runtime.run("echo usable").content == "usable\n"


@pytest.mark.slow
def test_closing_when_the_interpreter_exits_is_quiet_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import atexit\n"
        "from bascule.runtime import LocalRuntime, SyncRuntime\n"
        "runtime = SyncRuntime(LocalRuntime())\n"
        "runtime.connect()\n"
        "print(runtime.run('sleep 600 & echo $!').content)\n"
        "atexit.register(runtime.close)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    pid = int(ran.stdout.split()[-1])

    assert ran.stderr == ""
    ended = os.pidfd_open(pid) if Path(f"/proc/{pid}").exists() else None
    assert ended is None or select.select([ended], [], [], 10)[0]


def test_a_started_action_can_be_cancelled(runtime: SyncRuntime) -> None:
    begun = runtime.begin(CmdRun("read forever"))
    assert begun.cancel()
    assert runtime.run("echo usable", queue=True).content == "usable\n"


def test_a_sync_runtime_rejects_calls_before_connecting_and_after_closing(tmp_path: Path) -> None:
    runtime = SyncRuntime(LocalRuntime(tmp_path))
    with pytest.raises(UsageError, match="not connected"):
        runtime.run("true")
    with runtime:
        runtime.connect()
        runtime.run("true")
    runtime.close()
    with pytest.raises(UsageError, match="not connected"):
        runtime.run("true")


def test_a_runtime_that_cannot_connect_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(Exception, match="reached"):
        SyncRuntime(RemoteRuntime("http://127.0.0.1:9", "key", connect_timeout=0.05)).connect()
    assert threading.active_count() == before
