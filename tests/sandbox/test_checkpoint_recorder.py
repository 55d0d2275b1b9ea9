"""A sandbox with checkpoints records what its actions change, and takes it back."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bascule.checkpoints import CheckpointStore
from bascule.core.actions import (
    Action,
    CmdRun,
    FileEdit,
    FileRead,
    FileWrite,
    IPythonRun,
    ListCheckpoints,
    MakeDir,
    Remove,
    RemoveDir,
    RestoreCheckpoint,
    ShowCheckpoint,
)
from bascule.core.contracts import OnProgress
from bascule.core.errors import SandboxDied
from bascule.core.identity import EventId
from bascule.core.observations import (
    CheckpointDetail,
    CheckpointList,
    CheckpointRestored,
    CmdOutput,
    Error,
    FileContent,
    Observation,
)
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.checkpoints.trees import git, picture

_Seen = TypeVar("_Seen", bound=Observation)


def settings(tmp_path: Path, workspace: Path) -> SandboxSettings:
    shells = ShellSettings(working_dir=workspace)
    return SandboxSettings(shells=shells, checkpoints=tmp_path / "store")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    (directory / "src").mkdir(parents=True)
    (directory / "src/main.py").write_text("print(1)\n")
    (directory / "notes").write_text("one\ntwo\n")
    return directory


@pytest.fixture
async def sandbox(tmp_path: Path, workspace: Path) -> AsyncIterator[Sandbox]:
    async with await asyncio.to_thread(Sandbox, settings(tmp_path, workspace)) as sandbox:
        yield sandbox


async def did(sandbox: Sandbox, action: Action, kind: type[_Seen]) -> _Seen:
    seen = await sandbox.act(action)
    assert isinstance(seen, kind), seen
    return seen


async def run(sandbox: Sandbox, command: str, **more: Any) -> CmdOutput:
    return await did(sandbox, CmdRun(command, blocking=True, **more), CmdOutput)


async def ids(sandbox: Sandbox) -> list[int]:
    return [each["id"] for each in (await did(sandbox, ListCheckpoints(), CheckpointList)).items]


async def restore(sandbox: Sandbox, number: int, **more: Any) -> CheckpointRestored:
    return await did(sandbox, RestoreCheckpoint(number, **more), CheckpointRestored)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf src",
        "mv src/main.py src/other.py",
        "sed -i s/1/2/ src/main.py",
        "echo more >> notes; chmod 600 notes; ln -s notes link",
        "cd src && for i in 1 2 3; do echo $i > new$i; done",
    ],
)
async def test_the_changes_of_a_command_are_undone_and_redone(
    sandbox: Sandbox, workspace: Path, command: str
) -> None:
    before = picture(workspace)
    await run(sandbox, command)
    after = picture(workspace)
    (number,) = await ids(sandbox)

    restored = await restore(sandbox, number)

    assert picture(workspace) == before
    assert restored.conflicts == ()
    assert restored.checkpoint is not None
    await restore(sandbox, restored.checkpoint)
    assert picture(workspace) == after


@pytest.mark.parametrize(
    "action",
    [
        FileWrite("notes", "other\n"),
        FileWrite("made/deep/file", "new\n"),
        FileEdit("src/main.py", "str_replace", old_str="1", new_str="2"),
        FileEdit("src/made.py", "create", file_text="new"),
        MakeDir("made/deep"),
        Remove("notes"),
        RemoveDir("src", recursive=True),
    ],
    ids=lambda action: f"{action.kind} {action.path}",
)
async def test_the_changes_of_a_file_action_are_undone(
    sandbox: Sandbox, workspace: Path, action: Action
) -> None:
    before = picture(workspace)
    seen = await sandbox.act(action)
    assert not isinstance(seen, Error), seen.content
    assert picture(workspace) != before

    (number,) = await ids(sandbox)
    await restore(sandbox, number)

    assert picture(workspace) == before


async def test_an_edit_through_a_symlink_is_undone_at_its_target(
    sandbox: Sandbox, workspace: Path
) -> None:
    (workspace / "link").symlink_to("src/main.py")
    before = picture(workspace)
    await sandbox.act(FileWrite("link", "other\n"))
    (number,) = await ids(sandbox)

    await restore(sandbox, number)

    assert picture(workspace) == before


@pytest.mark.slow
async def test_a_cell_is_recorded(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.act(IPythonRun("open('notes', 'w').write('cell')"))
    (number,) = await ids(sandbox)

    await restore(sandbox, number)

    assert (workspace / "notes").read_text() == "one\ntwo\n"


async def test_reading_makes_no_checkpoint(sandbox: Sandbox) -> None:
    await sandbox.act(FileRead("notes"))
    await sandbox.act(FileEdit("notes", "view"))
    await run(sandbox, "cat notes; ls")

    assert await ids(sandbox) == []


async def test_changes_the_user_made_in_between_are_kept_and_listed(
    sandbox: Sandbox, workspace: Path
) -> None:
    await run(sandbox, "echo agent > notes; echo agent > src/main.py")
    (workspace / "notes").write_text("mine\n")
    (workspace / "own").write_text("mine too\n")
    (number,) = await ids(sandbox)

    planned = await restore(sandbox, number, dry_run=True)
    restored = await restore(sandbox, number)

    assert planned.dry_run
    for seen in (planned, restored):
        assert list(seen.restored) == ["src/main.py"]
        assert seen.conflicts == ({"path": "notes", "reason": "it was changed since"},)
    assert (workspace / "notes").read_text() == "mine\n"
    assert (workspace / "own").read_text() == "mine too\n"
    assert (workspace / "src/main.py").read_text() == "print(1)\n"


async def test_one_file_or_everything_since_a_checkpoint_can_be_restored(
    sandbox: Sandbox, workspace: Path
) -> None:
    before = picture(workspace)
    await run(sandbox, "echo a > notes; echo a > a")
    await run(sandbox, "echo b > notes; echo b > b")
    first, second = await ids(sandbox)

    await restore(sandbox, second, paths=("notes",))
    assert (workspace / "notes").read_text() == "a\n"
    assert (workspace / "b").exists()
    await restore(sandbox, first, since=True)

    assert picture(workspace) == before


async def test_a_checkpoint_shows_its_title_and_its_diff(sandbox: Sandbox) -> None:
    await run(sandbox, "sed -i s/two/2/ notes; rm src/main.py", id=EventId("e1"))
    (number,) = await ids(sandbox)

    seen = await did(sandbox, ShowCheckpoint(number), CheckpointDetail)

    assert seen.checkpoint["title"] == "Run `sed -i s/two/2/ notes; rm src/main.py`"
    assert seen.changes == (
        {"path": "notes", "change": "modified"},
        {"path": "src/main.py", "change": "deleted"},
    )
    assert "-two\n+2" in seen.content
    one = await did(sandbox, ShowCheckpoint(number, ("src",)), CheckpointDetail)
    assert "notes" not in one.content


@pytest.mark.slow
async def test_a_running_program_is_recorded_until_its_answer_and_again_from_the_next(
    sandbox: Sandbox, workspace: Path
) -> None:
    command = "echo first > notes; read line; echo second > notes; read line"
    answer = await run(sandbox, command, timeout=2)
    assert answer.metadata.state == "running"
    (workspace / "src/main.py").write_text("typed by the user\n")
    await run(sandbox, "go", is_input=True, timeout=2)
    first, second = await ids(sandbox)

    await restore(sandbox, second)
    assert (workspace / "notes").read_text() == "first\n"
    await restore(sandbox, first, since=True)

    assert (workspace / "notes").read_text() == "one\ntwo\n"
    assert (workspace / "src/main.py").read_text() == "typed by the user\n"


async def test_a_cancelled_command_is_recorded(sandbox: Sandbox, workspace: Path) -> None:
    started = asyncio.Event()

    def on_progress(_: object) -> None:
        started.set()

    action = CmdRun("echo agent > notes; echo now; sleep 600", blocking=True)
    acting = asyncio.create_task(sandbox.act(action, on_progress=on_progress))
    await asyncio.wait_for(started.wait(), 30)
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    (workspace / "src/main.py").write_text("mine\n")
    (number,) = await ids(sandbox)

    await restore(sandbox, number)

    assert (workspace / "notes").read_text() == "one\ntwo\n"
    assert (workspace / "src/main.py").read_text() == "mine\n"


async def test_commands_of_two_shells_are_recorded_at_the_same_time(
    sandbox: Sandbox, workspace: Path
) -> None:
    await asyncio.gather(
        *(run(sandbox, f"echo {n} > made{n}; sleep 0.05", shell=f"s{n}") for n in range(4))
    )
    found = await did(sandbox, ListCheckpoints(), CheckpointList)
    first = found.items[0]["id"]

    await restore(sandbox, first, since=True)

    assert sorted(each.name for each in workspace.iterdir()) == ["notes", "src"]


class CheckpointCollector:
    """Collects the checkpoints that a sandbox reports."""

    def __init__(self) -> None:
        self.checkpoints: list[int | None] = []

    def began(self, action: Action, on_progress: OnProgress | None) -> OnProgress:
        return on_progress or (lambda _: None)

    def ended(self, observation: Observation, seconds: float, checkpoint: int | None) -> None:
        self.checkpoints.append(checkpoint)

    def failed(self, action_id: EventId, seconds: float, why: str) -> None:
        raise AssertionError(why)


async def test_the_watcher_gets_the_checkpoint_of_each_action(sandbox: Sandbox) -> None:
    sandbox.watcher = watch = CheckpointCollector()
    await run(sandbox, "true")
    await run(sandbox, "echo a > notes")
    await restore(sandbox, 2)

    assert watch.checkpoints == [None, 2, 3]


async def test_checkpoints_never_write_to_git(sandbox: Sandbox, workspace: Path) -> None:
    git(workspace, "init", "-q")
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "first")
    before = picture(workspace / ".git")
    await sandbox.act(FileWrite("notes", "agent\n"))
    await run(sandbox, "rm -rf src; echo x > x")
    for number in reversed(await ids(sandbox)):
        await restore(sandbox, number)

    assert picture(workspace / ".git") == before
    assert (workspace / "src/main.py").read_text() == "print(1)\n"


async def test_files_left_out_of_checkpoints_are_reported_once(
    sandbox: Sandbox, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert sandbox.checkpoints is not None
    told: list[str] = []
    sandbox.checkpoints.on_notice = told.append
    (workspace / "large").write_bytes(bytes(11 << 20))
    (workspace / "node_modules").mkdir()
    with caplog.at_level(logging.WARNING):
        await run(sandbox, "true")
        await run(sandbox, "true")

    (notice,) = told
    assert "large (11 MiB, larger than 10 MiB)" in notice
    assert "node_modules (generated by a tool)" in notice
    assert [each.getMessage() for each in caplog.records] == [notice]


async def test_a_workspace_without_checkpoints_says_why_and_its_actions_run(
    tmp_path: Path, workspace: Path
) -> None:
    inside = SandboxSettings(
        shells=ShellSettings(working_dir=workspace), checkpoints=workspace / "store"
    )
    async with await asyncio.to_thread(Sandbox, inside) as sandbox:
        assert sandbox.checkpoints is not None
        told: list[str] = []
        sandbox.checkpoints.on_notice = told.append
        assert (await run(sandbox, "echo yes")).content == "yes\n"
        seen = await did(sandbox, ListCheckpoints(), Error)

    assert seen.error_id == "checkpoint.unavailable"
    (notice,) = told
    assert "is inside of the workspace" in notice


async def test_without_checkpoints_checkpoint_actions_are_rejected(workspace: Path) -> None:
    off = SandboxSettings(shells=ShellSettings(working_dir=workspace))
    async with await asyncio.to_thread(Sandbox, off) as sandbox:
        seen = await did(sandbox, RestoreCheckpoint(1), Error)

    assert seen.error_id == "capability.missing"
    assert "records no checkpoints" in seen.content


KILLED = """
import asyncio, sys
from bascule.runtime import LocalRuntime

async def main():
    async with LocalRuntime(sys.argv[1], checkpoints=sys.argv[2]) as runtime:
        await runtime.run("echo whole > notes", timeout=60)
        command = "echo half > src/main.py; touch made; echo ready; sleep 600"
        await runtime.run(command, timeout=600, blocking=True, on_progress=show)

def show(progress):
    print(progress.data.decode(), flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_command_leaves_a_store_that_restores(
    tmp_path: Path, workspace: Path
) -> None:
    arguments = [sys.executable, "-c", KILLED, str(workspace), str(tmp_path / "store")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()

    with CheckpointStore.existing(tmp_path / "store") as store:
        store.scan()
        whole, half = store.checkpoints()
        assert half.is_interrupted
        # The end of the second was not seen, so its paths must be named.
        assert {each.path for each in store.restore(half.id, half.id).conflicts} >= {"made"}
        store.restore(half.id, half.id, paths=["src/main.py", "made"])
        store.restore(whole.id, whole.id)
    assert (workspace / "src/main.py").read_text() == "print(1)\n"
    assert (workspace / "notes").read_text() == "one\ntwo\n"
    assert not (workspace / "made").exists()


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    directory = tmp_path / "empty"
    directory.mkdir()
    return directory


@pytest.fixture
async def in_empty(tmp_path: Path, empty: Path) -> AsyncIterator[Sandbox]:
    async with await asyncio.to_thread(Sandbox, settings(tmp_path, empty)) as sandbox:
        yield sandbox


def has_store(tmp_path: Path) -> bool:
    """Whether a store was created, or a thread started to create one."""
    names = [each.name for each in threading.enumerate()]
    return (tmp_path / "store").exists() or any(each.startswith("checkpoints") for each in names)


async def test_reading_opens_no_store(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.act(FileRead("notes"))
    await sandbox.act(FileEdit("notes", "view"))
    assert not has_store(tmp_path)

    await sandbox.act(MakeDir("made"))

    assert has_store(tmp_path)


async def test_a_command_that_leaves_an_empty_workspace_empty_opens_no_store(
    in_empty: Sandbox, tmp_path: Path
) -> None:
    await run(in_empty, "ls; touch made; rm made")
    assert not has_store(tmp_path)

    assert await ids(in_empty) == []

    assert has_store(tmp_path)


async def test_a_sandbox_that_opened_no_store_closes(tmp_path: Path, empty: Path) -> None:
    async with await asyncio.to_thread(Sandbox, settings(tmp_path, empty)) as sandbox:
        await run(sandbox, "true")

    assert not has_store(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p src; echo 1 > src/main.py; ln -s src link",
        "git init -q; echo x > x; git add x; git -c user.name=a -c user.email=a@b commit -qm x",
    ],
)
async def test_the_first_files_in_an_empty_workspace_are_undone_and_redone(
    in_empty: Sandbox, empty: Path, command: str
) -> None:
    await run(in_empty, command)
    after = picture(empty)
    (number,) = await ids(in_empty)

    restored = await restore(in_empty, number)

    assert [each.name for each in empty.iterdir() if each.name != ".git"] == []
    assert restored.conflicts == ()
    assert restored.checkpoint is not None
    await restore(in_empty, restored.checkpoint)
    assert picture(empty) == after


async def test_the_first_checkpoint_has_the_time_at_which_its_command_began(
    in_empty: Sandbox,
) -> None:
    before = time.time()
    await run(in_empty, "date +%s.%N > made")
    (found,) = (await did(in_empty, ListCheckpoints(), CheckpointList)).items

    made = float((await did(in_empty, FileRead("made"), FileContent)).content)
    assert before <= found["began"] <= made <= found["ended"]
    assert found["title"] == "Run `date +%s.%N > made`"


async def test_files_of_the_user_in_an_empty_workspace_are_not_undone(
    in_empty: Sandbox, empty: Path
) -> None:
    await run(in_empty, "true")
    (empty / "own").write_text("mine\n")
    await run(in_empty, "echo agent > made; echo agent >> own")
    (number,) = await ids(in_empty)

    await restore(in_empty, number)

    assert (empty / "own").read_text() == "mine\n"
    assert not (empty / "made").exists()


async def test_an_action_that_opens_the_store_while_a_first_command_runs_keeps_both_apart(
    in_empty: Sandbox, empty: Path
) -> None:
    os.mkfifo(empty.parent / "go")
    printed = asyncio.Event()
    command = "echo one > first; echo now; read line < ../go; echo two > second"
    action = CmdRun(command, blocking=True, shell="other")
    running = asyncio.create_task(in_empty.act(action, on_progress=lambda _: printed.set()))
    await printed.wait()
    assert not isinstance(await in_empty.act(FileWrite("edited", "agent\n")), Error)
    await asyncio.to_thread((empty.parent / "go").write_text, "go\n")
    await running
    found = (await did(in_empty, ListCheckpoints(), CheckpointList)).items
    assert [each["title"] for each in found] == [f"Run `{command}`", "Write edited"]

    await restore(in_empty, found[1]["id"])
    assert sorted(each.name for each in empty.iterdir()) == ["first", "second"]
    await restore(in_empty, found[0]["id"])

    assert list(empty.iterdir()) == []


async def test_a_command_that_runs_when_the_sandbox_is_closed_is_recorded(
    tmp_path: Path, empty: Path
) -> None:
    printed = asyncio.Event()
    async with await asyncio.to_thread(Sandbox, settings(tmp_path, empty)) as sandbox:
        action = CmdRun("echo agent > made; echo now; sleep 600", blocking=True)
        acting = asyncio.create_task(sandbox.act(action, on_progress=lambda _: printed.set()))
        await printed.wait()
    with pytest.raises(SandboxDied):
        await acting

    assert await asyncio.to_thread(paths_in, tmp_path / "store") == [["made"]]


def paths_in(directory: Path) -> list[list[str]]:
    """The paths that each checkpoint of a store changed."""
    with CheckpointStore.existing(directory) as store:
        return [[change.path for change in store.changes(each.id)] for each in store.checkpoints()]


async def test_a_first_command_that_is_cancelled_is_recorded(
    in_empty: Sandbox, empty: Path
) -> None:
    printed = asyncio.Event()
    action = CmdRun("echo agent > made; echo now; sleep 600", blocking=True)
    acting = asyncio.create_task(in_empty.act(action, on_progress=lambda _: printed.set()))
    await printed.wait()
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    (number,) = await ids(in_empty)

    await restore(in_empty, number)

    assert list(empty.iterdir()) == []


async def test_the_end_of_a_first_command_is_not_affected_by_cancelling(
    in_empty: Sandbox, empty: Path
) -> None:
    assert in_empty.checkpoints is not None
    recording = await in_empty.checkpoints.begin(CmdRun("make"), str(empty))
    (empty / "made").write_text("agent\n")
    ending = asyncio.create_task(in_empty.checkpoints.end(recording))
    await asyncio.sleep(0)  # it has begun
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending

    (found,) = (await did(in_empty, ListCheckpoints(), CheckpointList)).items
    assert (found["title"], found["files"]) == ("Run `make`", 1)
    assert found["ended"] is not None
