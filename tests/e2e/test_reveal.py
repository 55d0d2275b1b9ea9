"""How a window shows what an agent changes, while a person works in it (`bascule.reveal`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from bascule.core.editor_actions import OpenFile, VscodeCommand
from bascule.runtime.vscode import VSCodeRuntime

from .rig import EditorWindow, Rig


@pytest.fixture(scope="module")
def vscode_window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    """A window for these tests alone. In the shared one, a page or notebook of an earlier test may
    be shown late, over the files of these tests."""
    window = rig.wait(rig.open_window(tmp_path_factory.mktemp("reveal") / "workspace"))
    yield window
    rig.wait(window.page.context.close())


def text_of(page: Page, name: str) -> Locator:
    """The text of a file in the editor that shows it."""
    return page.locator(f'.monaco-editor[data-uri$="/{name}"] .view-lines')


async def type_first(page: Page, name: str, text: str) -> None:
    await text_of(page, name).click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.type(text)


async def test_a_changed_file_is_shown_beside_the_editor_that_a_person_types_into(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    page = vscode_window.page
    (folder / "mine.txt").write_text("mine\n")
    (folder / "theirs.txt").write_text("theirs\n")
    await runtime.act(OpenFile("mine.txt", preview=False))
    # A file that an earlier test changed may have been shown late, in a group of its own.
    await runtime.act(VscodeCommand("workbench.action.joinAllGroups"))
    await rig.on(type_first(page, "mine.txt", ""))
    await runtime.edit(
        str(folder / "theirs.txt"), "str_replace", old_str="theirs", new_str="changed"
    )
    await rig.on(expect(text_of(page, "theirs.txt")).to_have_text("changed"))

    await rig.on(page.keyboard.type("keyed "))

    await rig.on(expect(text_of(page, "mine.txt")).to_have_text("keyed mine"))
    await rig.on(expect(text_of(page, "theirs.txt")).to_have_text("changed"))


async def test_no_file_is_opened_while_the_active_editor_has_unsaved_changes(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    page = vscode_window.page
    (folder / "mine.txt").write_text("mine\n")
    await runtime.act(OpenFile("mine.txt", preview=False))
    await rig.on(type_first(page, "mine.txt", "keyed "))
    dirty = page.locator(".tab.dirty", has_text="mine.txt")
    await rig.on(expect(dirty).to_be_visible())
    while (await runtime.read("mine.txt")).content != "keyed mine\n":  # the extension knows as well
        pass
    await runtime.write("first.txt", "first\n")
    await rig.on(page.keyboard.type("and more "))
    await rig.on(expect(text_of(page, "mine.txt")).to_have_text("keyed and more mine"))
    await rig.on(page.keyboard.press("Control+s"))
    await rig.on(expect(dirty).to_have_count(0))
    # Changes are shown in their order, so the first one has been decided when the last is shown.
    # VS Code tells the extension a moment later that there are no unsaved changes any more.
    number = 0
    while not await rig.on(text_of(page, "last.txt").count()):
        number += 1
        await runtime.write("last.txt", f"{number}\n")

    await rig.on(expect(page.locator(".tab", has_text="first.txt")).to_have_count(0))
    await rig.on(expect(text_of(page, "mine.txt")).to_have_text("keyed and more mine"))


async def test_a_changed_file_never_covers_an_editor_opened_later(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    page = vscode_window.page
    (folder / "wanted.txt").write_text("wanted\n")
    await runtime.write("before.txt", "before\n")
    await runtime.act(OpenFile("wanted.txt", preview=False))
    await runtime.write("after.txt", "after\n")

    await rig.on(expect(text_of(page, "after.txt")).to_have_text("after"))
    await rig.on(expect(text_of(page, "wanted.txt")).to_have_text("wanted"))
