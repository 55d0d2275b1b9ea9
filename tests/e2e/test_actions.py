"""Actions in a real window: what an agent does is what the user sees, may refuse, and can undo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from bascule.core.editor_actions import (
    AskUser,
    Diagnostics,
    OpenFile,
    Selection,
    ShowDiff,
    Symbols,
    VscodeCommand,
)
from bascule.core.editor_observations import (
    Diagnosed,
    DiffShown,
    Selected,
    SymbolsFound,
    UserAnswered,
)
from bascule.core.errors import ConsentDenied, EditConflict, PathOutsideRoots
from bascule.core.observations import Error
from bascule.runtime.vscode import VSCodeRuntime

from .driving import answer_question, open_question
from .rig import EditorWindow, Rig

See = Callable[[Callable[[Page], Coroutine[Any, Any, None]]], Coroutine[Any, Any, None]]


@pytest.fixture
async def see(rig: Rig, vscode_window: EditorWindow) -> See:
    """Has something done by, or looked at from, the user's side of the window."""
    return lambda work: rig.on(work(vscode_window.page))


async def test_a_command_is_seen_in_a_terminal(runtime: VSCodeRuntime, see: See) -> None:
    seen = await runtime.run("echo seen by $((6 * 7))")
    assert seen.content == "seen by 42\n"

    async def look(page: Page) -> None:
        await expect(page.locator(".terminal-tab, .single-terminal-tab").first).to_be_visible()

    await see(look)


async def test_input_typed_into_an_idle_terminal_runs_and_the_agent_waits_for_it(
    runtime: VSCodeRuntime, vscode_window: EditorWindow, see: See
) -> None:
    folder = vscode_window.folder
    await runtime.run("mkfifo begun gate; word=shared")

    async def type_command(page: Page) -> None:
        await page.locator(".terminal-wrapper.active .xterm").click()
        await page.keyboard.type("echo $word > begun; read line < gate; word=$line")
        await page.keyboard.press("Enter")

    await see(type_command)
    assert await asyncio.to_thread((folder / "begun").read_text) == "shared\n"
    waiting = asyncio.create_task(runtime.run("echo $word"))
    await asyncio.to_thread((folder / "gate").write_text, "changed\n")
    assert (await waiting).content == "changed\n"


async def test_unsaved_text_of_the_user_is_read_and_never_overwritten(
    runtime: VSCodeRuntime, folder: Path, see: See
) -> None:
    await runtime.write("draft.txt", "saved\n")
    await runtime.act(OpenFile("draft.txt", line=1, column=1, preview=False))
    await see(lambda page: _type(page, "draft.txt", "typed "))

    await _reads(runtime, "draft.txt", "typed saved\n")
    matches = (await runtime.grep("typed")).matches
    assert [(match.line, match.text) for match in matches] == [(1, "typed saved")]
    with pytest.raises(EditConflict):
        await runtime.write("draft.txt", "other\n")
    with pytest.raises(EditConflict):
        await runtime.edit(
            str(folder / "draft.txt"), "str_replace", old_str="saved", new_str="other"
        )
    with pytest.raises(EditConflict):
        await runtime.remove("draft.txt")
    assert (folder / "draft.txt").read_text() == "saved\n"


async def test_an_edit_is_undone_in_one_step(
    runtime: VSCodeRuntime, folder: Path, see: See
) -> None:
    before = "one\ntwo\nthree\nfour\n"
    await runtime.write("steps.txt", before)
    await runtime.act(OpenFile("steps.txt", preview=False))
    await runtime.write("steps.txt", "eins\ntwo\ndrei\nvier\nfünf\n")
    assert (folder / "steps.txt").read_text() == "eins\ntwo\ndrei\nvier\nfünf\n"

    await see(lambda page: _focus(page, "steps.txt"))
    await runtime.act(VscodeCommand("undo"))
    assert (await runtime.read("steps.txt")).content == before


@pytest.mark.parametrize(
    "data", [b"a\r\nb\r\n", b"a\nb\r\nc\n", "h\xe9\n".encode("latin-1"), b"\xef\xbb\xbfa\nb\n"]
)
async def test_edits_preserve_line_endings_and_encoding(
    runtime: VSCodeRuntime, folder: Path, data: bytes
) -> None:
    (folder / "kept.txt").write_bytes(data)
    await runtime.edit(str(folder / "kept.txt"), "insert", insert_line=0, new_str="new")
    newline = b"\r\n" if data.startswith(b"a\r\n") else b"\n"
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef") else b""
    assert (folder / "kept.txt").read_bytes() == (mark + b"new" + newline + data.removeprefix(mark))


async def test_a_change_made_by_a_program_is_not_lost_in_an_edit(
    runtime: VSCodeRuntime, folder: Path
) -> None:
    await runtime.write("log.txt", "one\n")
    await runtime.act(OpenFile("log.txt", preview=False))
    await runtime.run("echo two >> log.txt")
    await runtime.edit(str(folder / "log.txt"), "str_replace", old_str="one", new_str="eins")
    assert (folder / "log.txt").read_text() == "eins\ntwo\n"


@pytest.mark.parametrize("path", ["/etc/hostname", "../outside.txt", "link/outside.txt"])
async def test_a_path_outside_the_folders_is_refused(
    runtime: VSCodeRuntime, folder: Path, path: str
) -> None:
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to(folder.parent)
    with pytest.raises(PathOutsideRoots):
        await runtime.read(path)
    with pytest.raises(PathOutsideRoots):
        await runtime.write(path, "text")


async def test_writing_vs_code_settings_asks_the_user(
    runtime: VSCodeRuntime, folder: Path, see: See
) -> None:
    asked = asyncio.create_task(runtime.write(".vscode/tasks.json", "{}"))
    await see(open_question)
    await see(lambda page: answer_question(page, "Deny"))
    with pytest.raises(ConsentDenied):
        await asked
    assert not (folder / ".vscode").exists()

    asked = asyncio.create_task(runtime.write(".vscode/tasks.json", "{}"))
    await see(open_question)
    await see(lambda page: answer_question(page, "Allow Once"))
    await asked
    assert (folder / ".vscode/tasks.json").read_text() == "{}\n"


async def test_the_user_answers_a_question(runtime: VSCodeRuntime, see: See) -> None:
    asking = asyncio.create_task(runtime.act(AskUser("Which?", options=("left", "right"))))

    async def choose(page: Page) -> None:
        await page.locator(".quick-input-widget").get_by_text("right").click()

    await see(choose)
    seen = await asking
    assert isinstance(seen, UserAnswered)
    assert (seen.content, seen.answered) == ("right", True)


async def test_a_command_of_vs_code_that_is_not_allowed_is_refused(runtime: VSCodeRuntime) -> None:
    seen = await runtime.act(VscodeCommand("editor.action.formatDocument"))
    assert isinstance(seen, Error)
    assert seen.error_id == "consent.denied"


async def test_the_editor_returns_problems_and_symbols(
    runtime: VSCodeRuntime, folder: Path
) -> None:
    (folder / "broken.json").write_text('{"key": 1,, "list": []}\n')
    await runtime.act(OpenFile("broken.json", preview=False))
    seen = await runtime.act(Diagnostics("broken.json"))
    assert isinstance(seen, Diagnosed)
    assert {(item["line"], item["severity"]) for item in seen.items} == {(1, "error")}
    (folder / "whole.json").write_text('{"first": {"inner": 1}}\n')
    found = await runtime.act(Symbols("whole.json"))
    assert isinstance(found, SymbolsFound)
    assert [item["name"] for item in found.items] == ["first", "inner"]


async def test_selection_and_diff_actions_use_the_window(
    runtime: VSCodeRuntime, folder: Path
) -> None:
    await runtime.write("pick.txt", "one\ntwo\n")
    await runtime.act(OpenFile("pick.txt", line=2, column=2, preview=False))
    seen = await runtime.act(Selection())
    assert isinstance(seen, Selected)
    assert (seen.path, seen.start_line, seen.start_column) == (str(folder / "pick.txt"), 2, 2)
    shown = await runtime.act(ShowDiff("pick.txt", "one\nzwei\n", title="a proposal"))
    assert isinstance(shown, DiffShown)
    assert shown.outcome == "shown"
    assert (folder / "pick.txt").read_text() == "one\ntwo\n"


async def _focus(page: Page, name: str) -> None:
    editor = page.locator(
        f'.editor-instance[data-uri$="{name}"], .monaco-editor[data-uri$="{name}"]'
    )
    await editor.locator(".view-lines").first.click()


async def _reads(runtime: VSCodeRuntime, path: str, content: str) -> None:
    """Wait until `path` reads as `content`: VS Code tells its extensions of keys after the page."""
    async with asyncio.timeout(20):
        while (await runtime.read(path)).content != content:
            await asyncio.sleep(0)


async def _type(page: Page, name: str, text: str) -> None:
    await _focus(page, name)
    await page.keyboard.press("Control+Home")
    await page.keyboard.type(text)
    # The file may be open a second time, because the window showed that an agent changed it.
    await expect(page.locator(".tab.dirty", has_text=name).first).to_be_visible()
