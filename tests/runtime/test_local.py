"""`LocalRuntime`, in process and as a child process, and how either ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import (
    CheckpointsUnavailable,
    NoSuchCheckpoint,
    SandboxDied,
    SandboxStartFailed,
    UsageError,
)
from bascule.runtime import LocalRuntime, Verbs
from bascule.sandbox.settings import SandboxSettings
from tests.contracts.runtime import Make, RuntimeSuite, Seen, gone, settings


class TestInProcess(RuntimeSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return LocalRuntime(settings=settings, **keywords)

        return make


@pytest.mark.slow
class TestChildProcess(RuntimeSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return LocalRuntime(settings=settings, process=True, **keywords)

        return make


@pytest.mark.slow
class TestTmuxShells(RuntimeSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            shells = replace(settings.shells, kind="tmux")
            return LocalRuntime(settings=replace(settings, shells=shells), **keywords)

        return make


@pytest.mark.parametrize("process", [False, True])
async def test_a_runtime_that_is_not_connected_says_so(process: bool, tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path, process=process)
    with pytest.raises(UsageError, match="not connected"):
        await runtime.run("true")
    with pytest.raises(UsageError, match="not connected"):
        _ = runtime.capabilities
    await runtime.aclose()
    with pytest.raises(UsageError, match="closed"):
        await runtime.connect()


async def test_relative_working_directories_start_at_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    async with LocalRuntime("inner") as runtime:
        assert (await runtime.run("pwd")).content == f"{tmp_path}/inner\n"


@pytest.mark.slow
async def test_the_key_of_a_child_server_cannot_be_read(tmp_path: Path) -> None:
    async with LocalRuntime(tmp_path, process=True) as runtime:
        assert runtime._child is not None
        key = runtime._child.key
        seen = await runtime.run(
            "env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'"
        )
        assert "PATH=" in seen.content
        assert key not in seen.content


@pytest.mark.slow
async def test_a_killed_child_is_reported_as_died_and_leaves_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    async with LocalRuntime(tmp_path, process=True) as runtime:
        child = runtime._child
        assert child is not None
        assert child.pid is not None
        running = asyncio.create_task(
            runtime.run("sleep 60 & setsid sleep 60 & echo $$ $! $(jobs -p) > pids; cat")
        )
        pids = (await asyncio.to_thread((tmp_path / "pids").read_text)).split()
        os.kill(child.pid, signal.SIGKILL)

        with pytest.raises(SandboxDied, match="-9"):
            await running
        with pytest.raises(SandboxDied):
            await runtime.read("note")
        for pid in pids:
            await gone(int(pid))


@pytest.mark.slow
async def test_a_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from bascule.runtime import LocalRuntime

        async def main():
            async with LocalRuntime(sys.argv[1], process=True) as runtime:
                print(runtime._child.pid, flush=True)
                await runtime.run("echo $$ $PPID > pids; echo > pipe; sleep 60")

        asyncio.run(main())
    """)
    os.mkfifo(tmp_path / "pipe")
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    await asyncio.to_thread((tmp_path / "pipe").read_text)
    shell, keeper = map(int, (tmp_path / "pids").read_text().split())
    parent.kill()
    await parent.wait()
    for pid in (child, keeper, shell):
        await gone(pid)


@pytest.mark.slow
async def test_a_child_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(SandboxStartFailed, match=r"exit status 3\nno such luck"):
        async with LocalRuntime(tmp_path, process=True):
            pass


async def test_a_child_that_the_system_refuses_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(SandboxStartFailed, match="no more processes"):
        async with LocalRuntime(tmp_path, process=True):
            pass


@pytest.mark.slow
async def test_ctrl_c_at_the_parents_terminal_does_not_reach_the_child(tmp_path: Path) -> None:
    async with LocalRuntime(tmp_path, process=True) as runtime:
        assert runtime._child is not None
        assert runtime._child.pid is not None
        assert os.getsid(runtime._child.pid) != os.getsid(0)
        seen = Seen()
        assert (await runtime.run("echo fine", on_progress=seen)).exit_code == 0


async def test_settings_and_directory_may_both_be_given(tmp_path: Path) -> None:
    elsewhere = settings(Path("/"), soft_timeout=0.05)
    async with LocalRuntime(tmp_path, settings=elsewhere) as runtime:
        seen = await runtime.run("pwd; cat")
        assert seen.content == f"{tmp_path}\n"
        assert seen.metadata.timed_out == "soft"


@pytest.mark.parametrize("process", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_the_checkpoint_of_an_action_is_listed_shown_and_restored(
    tmp_path: Path, process: bool
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "notes").write_text("one\n")
    made = LocalRuntime(workspace, checkpoints=tmp_path / "store", process=process)
    async with made as runtime:
        await runtime.run("rm notes; echo made > made")
        await runtime.write("made", "written\n")
        first, second = (await runtime.checkpoints()).items
        assert (first["files"], second["title"]) == (2, "Write made")
        shown = await runtime.checkpoint(first["id"])
        assert [each["change"] for each in shown.changes] == ["added", "deleted"]
        planned = await runtime.restore(first["id"], since=True, dry_run=True)
        restored = await runtime.restore(first["id"], since=True)
        assert (planned.restored, planned.removed) == (("notes",), ("made",))
        assert (restored.restored, restored.removed) == (("notes",), ("made",))
        assert (workspace / "notes").read_text() == "one\n"
        assert restored.checkpoint is not None
        undone = await runtime.restore(restored.checkpoint)
        assert (undone.restored, undone.removed) == (("made",), ("notes",))
        with pytest.raises(NoSuchCheckpoint):
            await runtime.restore(99)
    assert (workspace / "made").read_text() == "written\n"


async def test_a_home_directory_and_a_store_inside_get_no_checkpoints(tmp_path: Path) -> None:
    for directory, store, why in (
        (Path("~").expanduser(), tmp_path, "Open the folder of a project instead"),
        (Path("/"), tmp_path, "Open the folder of a project instead"),
        (tmp_path, tmp_path / "store", "inside of the workspace"),
    ):
        with pytest.raises(CheckpointsUnavailable, match=why):
            await LocalRuntime(directory, checkpoints=store).connect()
