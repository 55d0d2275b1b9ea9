"""A person's window records what agents change, and a restore puts it back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from bascule.core.actions import CmdRun, FileEdit, FileRead, RestoreCheckpoint
from bascule.core.editor_actions import OpenFile
from bascule.core.observations import CheckpointRestored, Error, Observation
from bascule.runtime.vscode import VSCodeRuntime
from tests.checkpoints.trees import picture

from .driving import clear_toast, click_toast, go_to_line, run_command
from .rig import EditorWindow, Rig


@pytest.fixture(scope="module")
def recorded(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("checkpoints") / "recorded"
    window = rig.wait(rig.open_window(folder))
    yield window
    rig.wait(window.page.context.close())


@pytest.fixture
def folder(recorded: EditorWindow) -> Path:
    return recorded.folder


@pytest.fixture
async def agent(rig: Rig, recorded: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    """An agent of its own. Afterwards no editor is open."""
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=recorded.id) as runtime:
        yield runtime
    await rig.on(_settle(recorded.page))


async def test_a_removed_directory_is_restored_and_the_restore_is_undone(
    agent: VSCodeRuntime, folder: Path
) -> None:
    (folder / "src/deep").mkdir(parents=True)
    (folder / "src/deep/data.bin").write_bytes(b"\x00\xff" * 1000)
    (folder / "src/run.sh").write_text("echo\n")
    (folder / "src/run.sh").chmod(0o750)
    (folder / "src/link").symlink_to("run.sh")
    before = picture(folder)
    await agent.run("rm -rf src && echo new > made.txt")
    after = picture(folder)
    last = (await agent.checkpoints()).items[-1]
    assert last["title"] == "run rm -rf src && echo new > made.txt"
    detail = await agent.checkpoint(last["id"], paths=["made.txt"])
    assert detail.changes == ({"path": "made.txt", "change": "added"},)

    planned = await agent.restore(last["id"], dry_run=True)
    assert picture(folder) == after
    done = await agent.restore(last["id"])

    assert picture(folder) == before
    assert done.removed == planned.removed == ("made.txt",)
    assert set(done.restored) == {f"src{name}" for name in _BELOW}
    assert done.checkpoint is not None
    await agent.restore(done.checkpoint)
    assert picture(folder) == after


_BELOW = ("", "/deep", "/deep/data.bin", "/run.sh", "/link")


async def test_an_open_file_is_restored_in_its_editor(
    rig: Rig, recorded: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    page, file = recorded.page, folder / "open.txt"
    file.write_bytes(b"one\r\ntwo\r\n")
    file.chmod(0o640)
    before = picture(folder)
    await agent.act(OpenFile(str(file), preview=False))
    await rig.on(expect(_line(page, file.name, "two")).to_have_count(1))
    edit = FileEdit(path=str(file), command="str_replace", old_str="two", new_str="changed")
    await agent.act(edit)
    await rig.on(expect(_line(page, file.name, "changed")).to_have_count(1))
    inode = file.stat().st_ino

    done = await agent.restore((await agent.checkpoints()).items[-1]["id"])

    assert (done.restored, done.conflicts) == (("open.txt",), ())
    await rig.on(expect(_line(page, file.name, "two")).to_have_count(1))
    await rig.on(expect(page.locator(".tab.dirty", has_text=file.name)).to_have_count(0))
    assert picture(folder) == before
    assert file.stat().st_ino == inode  # the editor has saved it
    await rig.on(_focus(page, file.name))
    await rig.on(page.keyboard.press("Control+z"))
    await rig.on(expect(_line(page, file.name, "changed")).to_have_count(1))
    assert file.read_bytes() == b"one\r\ntwo\r\n"


async def test_unsaved_text_of_the_user_is_a_conflict_and_is_kept(
    rig: Rig, recorded: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    page, typed, other = recorded.page, folder / "typed.txt", folder / "other.txt"
    for each in (typed, other):
        each.write_text("one\n")
    await agent.run("echo two | tee typed.txt > other.txt")
    await agent.act(OpenFile(str(typed), preview=False))
    await rig.on(_focus(page, typed.name))
    await rig.on(go_to_line(page, 1))
    await rig.on(page.keyboard.type("mine: "))
    await rig.on(expect(page.locator(".tab.dirty", has_text=typed.name)).to_have_count(1))
    last = (await agent.checkpoints()).items[-1]["id"]
    conflict = {"path": "typed.txt", "reason": "it has unsaved changes in the editor"}

    # The extension host learns a little later than the page what is unsaved.
    while not (planned := await agent.restore(last, dry_run=True)).conflicts:
        pass
    assert planned.conflicts == (conflict,)
    done = await agent.restore(last)

    assert (done.restored, done.conflicts) == (("other.txt",), (conflict,))
    assert (await agent.act(FileRead(str(typed)))).content == "mine: two\n"
    assert typed.read_text() == "two\n"
    await rig.on(run_command(page, "File: Revert File"))
    await rig.on(expect(page.locator(".tab.dirty", has_text=typed.name)).to_have_count(0))
    while (await agent.restore(last, dry_run=True)).conflicts:
        pass
    assert (await agent.restore(last)).restored == ("typed.txt",)


async def test_a_person_restores_and_undoes_from_the_command_palette(
    rig: Rig, recorded: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    page = recorded.page
    for name in ("first.txt", "second.txt"):
        (folder / name).write_text("one\n")
    await agent.run("echo two | tee first.txt > second.txt; echo > third.txt")

    await rig.on(_begin_restore(page, "This action: 3 files"))
    dialog = page.locator(".monaco-dialog-box")
    for text in ("Restore 3 files?", "first.txt", "Is removed", "third.txt"):
        await rig.on(expect(dialog).to_contain_text(text))
    await rig.on(dialog.get_by_role("button", name="Cancel").click())
    assert (folder / "first.txt").read_text() == "two\n"

    await rig.on(_begin_restore(page, "first.txt"))
    await rig.on(expect(dialog).to_contain_text("Restore 1 file?"))
    await rig.on(dialog.get_by_role("button", name="Restore", exact=True).click())
    await rig.on(page.locator(".notification-toast", has_text="restored 1 file.").wait_for())
    assert (folder / "first.txt").read_text() == "one\n"
    assert (folder / "second.txt").read_text() == "two\n"
    await rig.on(click_toast(page, "restored 1 file.", "Undo"))
    await rig.on(clear_toast(page, "restored 1 file."))
    assert (folder / "first.txt").read_text() == "two\n"


async def test_a_worker_that_is_killed_is_started_again(
    agent: VSCodeRuntime, recorded: EditorWindow, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\n")
    await agent.run("echo two > a.txt")
    first = (await agent.checkpoints()).items[-1]["id"]
    killed = _worker_of(folder)

    await _kill(killed)

    seen = await agent.act(CmdRun("echo three > a.txt"))
    assert "process that records checkpoints ended" in (seen.note or "")
    assert _worker_of(folder) != killed
    later = (await agent.checkpoints()).items[-1]["id"]
    assert (await agent.restore(later)).restored == ("a.txt",)
    assert (folder / "a.txt").read_text() == "two\n"
    assert (await agent.restore(first)).restored == ("a.txt",)
    assert (folder / "a.txt").read_text() == "one\n"


async def test_the_worker_ends_with_a_killed_extension_host(rig: Rig, tmp_path: Path) -> None:
    window = await rig.on(rig.open_window(tmp_path / "killed"))
    try:
        async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent:
            host = int((await agent.run("echo $PPID")).content)
            worker = _worker_of(window.folder)
            await _kill(host, then=worker)
    finally:
        await rig.on(window.page.context.close())


async def test_a_window_without_python_works_and_says_that_nothing_can_be_restored(
    rig: Rig, tmp_path: Path
) -> None:
    settings = {"bascule.python": "/nowhere/python"}
    environment = {"PATH": str(_programs_without_python(tmp_path / "bin"))}
    server = await rig.on(rig.serve("no-python", settings, environment))
    window = await rig.on(rig.open_window(tmp_path / "unrecorded", server=server))
    try:
        async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent:
            seen = await agent.act(CmdRun("echo two > a.txt"))
            assert (window.folder / "a.txt").read_text() == "two\n"
            assert "There are no checkpoints" in (seen.note or "")
            assert "/nowhere/python" in (seen.note or "")
            assert (await agent.act(CmdRun("true"))).note is None
            await rig.on(clear_toast(window.page, "there are no checkpoints"))
            refused = await agent.act(RestoreCheckpoint(1))
            assert isinstance(refused, Error)
            assert refused.error_id == "machine.missing_tool"
    finally:
        await rig.on(window.page.context.close())
        await rig.on(rig.stop_serving(server))


async def test_an_agent_is_asked_about_before_it_restores(rig: Rig, tmp_path: Path) -> None:
    rules = {"bascule.consent": {"*": "allow", "restore": "ask"}}
    server = await rig.on(rig.serve("asking", rules))
    window = await rig.on(rig.open_window(tmp_path / "asking", server=server))
    try:
        async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent:
            await agent.run("echo two > a.txt")
            number = (await agent.checkpoints()).items[-1]["id"]
            asking = asyncio.create_task(agent.act(RestoreCheckpoint(number)))
            toast = window.page.locator(".notification-toast", has_text="asks for your consent")
            await rig.on(toast.get_by_text("Show the request").first.click())
            shown = window.page.locator(".editor-instance", has_text="undo what an agent changed")
            await rig.on(expect(shown).to_contain_text("Changes:"))  # with the path, wrapped
            assert (window.folder / "a.txt").exists()
            lens = window.page.locator(".codelens-decoration")
            await rig.on(lens.get_by_text("Allow Once", exact=True).click())
            done = _restored(await asking)
            assert done.removed == ("a.txt",)
            assert not (window.folder / "a.txt").exists()
    finally:
        await rig.on(window.page.context.close())
        await rig.on(rig.stop_serving(server))


def _restored(seen: Observation) -> CheckpointRestored:
    assert isinstance(seen, CheckpointRestored), seen
    return seen


def _worker_of(folder: Path) -> int:
    """The process that records checkpoints of the folder."""
    (found,) = [
        int(each.parent.name)
        for each in Path("/proc").glob("[0-9]*/cmdline")
        if (words := _words(each)) and str(folder) in words and "_worker_main.py" in words[2]
    ]
    return found


def _words(cmdline: Path) -> list[str]:
    try:
        words = cmdline.read_bytes().decode("utf-8", "replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return words if len(words) > 2 else []


async def _kill(pid: int, *, then: int | None = None) -> None:
    """Kill a process, and wait for its end and that of `then`."""
    ends = [os.pidfd_open(each) for each in (pid, then) if each is not None]
    os.kill(pid, signal.SIGKILL)
    for end in ends:
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(end, ended.set)
        await ended.wait()
        asyncio.get_running_loop().remove_reader(end)
        os.close(end)


def _programs_without_python(directory: Path) -> Path:
    directory.mkdir()
    for each in [*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()]:
        link = directory / each.name
        if not each.name.startswith("python") and not link.is_symlink():
            link.symlink_to(each)
    return directory


async def _begin_restore(page: Page, choice: str) -> None:
    """Choose the newest checkpoint, and what to restore of it."""
    await run_command(page, "Bascule: Restore a Checkpoint…")
    box = page.locator(".quick-input-widget")
    await expect(box).to_contain_text("Restore a checkpoint")
    await box.get_by_role("option").first.click()
    await expect(box).to_contain_text("Everything since this action")
    await box.get_by_role("option").filter(has_text=choice).click()


def _line(page: Page, name: str, text: str) -> Locator:
    lines = page.locator(f'.monaco-editor[data-uri$="{name}"] .view-line')
    return lines.get_by_text(text, exact=True)


async def _focus(page: Page, name: str) -> None:
    await page.locator(f'.monaco-editor[data-uri$="{name}"] .view-lines').first.click()


async def _settle(page: Page) -> None:
    await page.keyboard.press("Escape")
    if await page.locator(".tab.dirty").count():
        await run_command(page, "View: Revert and Close Editor")
    await run_command(page, "View: Close All Editors")
