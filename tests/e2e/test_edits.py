"""Edits in a real window: quick, never in vain, and nothing that a person made is lost."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from bascule.core.editor_actions import OpenFile
from bascule.core.errors import BasculeError, EditConflict, PermissionRefused
from bascule.runtime.vscode import VSCodeRuntime

from .rig import EditorWindow, Rig

_ROUNDS = 200
_MAX_ECHOES = 15
"""How many bare echoes an edit may cost."""


async def test_an_edit_right_after_a_formatter_applies_to_the_formatted_text(
    runtime: VSCodeRuntime, folder: Path
) -> None:
    """The editor shows what a program wrote a moment late; the edit does not wait for that."""
    file = folder / "formatted.py"
    file.write_text("x = 0\nlast = 0\n")
    await runtime.act(OpenFile("formatted.py", preview=False))
    for n in range(_ROUNDS):
        await runtime.run(f"sed -i 's/^x *= .*/x   =   {n}/' formatted.py")
        old, new = f"last = {n}", f"last = {n + 1}"
        await runtime.edit(str(file), "str_replace", old_str=old, new_str=new)
        assert file.read_text() == f"x   =   {n}\n{new}\n"


async def test_an_edit_and_a_write_take_only_a_few_round_trips(
    runtime: VSCodeRuntime, folder: Path
) -> None:
    file = folder / "timed.txt"
    file.write_text("line\n" * 100 + "mark 0\n")
    await runtime.act(OpenFile("timed.txt", preview=False))

    async def edit(n: int) -> None:
        old, new = f"mark {n}\n", f"mark {n + 1}\n"
        await runtime.edit(str(file), "str_replace", old_str=old, new_str=new)

    async def write(n: int) -> None:
        await runtime.write("timed.txt", f"all of it {n}\n")

    async def echo(_: int) -> None:
        await runtime.run("echo hi")

    bare, edits, writes = [await _median(work) for work in (echo, edit, write)]
    assert edits <= _MAX_ECHOES * bare
    assert writes <= _MAX_ECHOES * bare


async def test_the_editor_shows_an_edit_of_an_open_file(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    file = folder / "open.txt"
    file.write_text("before\n")
    await runtime.act(OpenFile("open.txt", preview=False))
    await runtime.edit(str(file), "str_replace", old_str="before", new_str="afterwards")

    async def look() -> None:
        shown = vscode_window.page.locator('.monaco-editor[data-uri$="open.txt"] .view-line')
        await expect(shown.first).to_have_text("afterwards")

    await rig.on(look())


async def test_a_failed_write_does_not_block_later_edits(
    runtime: VSCodeRuntime, folder: Path
) -> None:
    file = folder / "locked.txt"
    file.write_text("old\n")
    await runtime.act(OpenFile("locked.txt", preview=False))
    if subprocess.run(["chattr", "+i", file], check=False, capture_output=True).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        with pytest.raises(BasculeError):
            await runtime.edit(str(file), "str_replace", old_str="old", new_str="new")
    finally:
        subprocess.run(["chattr", "-i", file], check=True)
    assert (await runtime.read("locked.txt")).content == "old\n"
    await runtime.edit(str(file), "str_replace", old_str="old", new_str="new")
    assert file.read_text() == "new\n"


async def test_unsaved_notebook_cells_are_read_and_never_overwritten(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    file = folder / "work.ipynb"
    file.write_text(json.dumps(_notebook("saved = 1")))
    await rig.on(_type_into_cell(vscode_window.page, "work.ipynb", "typed = 2  # "))

    async with asyncio.timeout(60):
        while _source(json.loads((await runtime.read("work.ipynb")).content)) != (
            "typed = 2  # saved = 1"
        ):
            await asyncio.sleep(0)
    assert (await runtime.grep("typed = 2", "work.ipynb")).matches
    with pytest.raises(EditConflict):
        await runtime.edit(str(file), "str_replace", old_str="saved = 1", new_str="other = 1")
    with pytest.raises(EditConflict):
        await runtime.write("work.ipynb", json.dumps(_notebook("all new")))
    with pytest.raises(EditConflict):
        await runtime.remove("work.ipynb")
    assert _source(json.loads(file.read_text())) == "saved = 1"


async def test_an_open_notebook_shows_an_edit_of_its_file(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    file = folder / "shown.ipynb"
    file.write_text(json.dumps(_notebook("first = 1")))
    page = vscode_window.page
    await rig.on(_open_notebook(page, "shown.ipynb"))
    await rig.on(_cell_shows(page, "first = 1"))
    await runtime.edit(str(file), "str_replace", old_str="first = 1", new_str="second = 2")
    await rig.on(_cell_shows(page, "second = 2"))


async def test_the_workspace_root_cannot_be_removed(runtime: VSCodeRuntime, folder: Path) -> None:
    (folder / "kept").mkdir(exist_ok=True)
    (folder / "kept/file.txt").write_text("here\n")
    for path in (".", str(folder), "kept/.."):
        with pytest.raises(BasculeError):
            await runtime.remove_dir(path, recursive=True)
    with pytest.raises(PermissionRefused):
        await runtime.remove_dir(str(folder), recursive=True)
    assert (folder / "kept/file.txt").read_text() == "here\n"


async def test_a_directory_with_unsaved_files_is_not_removed(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    (folder / "inner").mkdir()
    (folder / "inner/draft.txt").write_text("saved\n")
    await runtime.act(OpenFile("inner/draft.txt", preview=False))
    await rig.on(_type_into_file(vscode_window.page, "draft.txt", "typed "))
    async with asyncio.timeout(60):
        while (await runtime.read("inner/draft.txt")).content != "typed saved\n":
            await asyncio.sleep(0)
    with pytest.raises(EditConflict, match=r"draft\.txt"):
        await runtime.remove_dir("inner", recursive=True)
    assert (folder / "inner/draft.txt").exists()


async def test_undo_edit_leaves_what_the_person_typed_and_saved_since(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    file, page = folder / "undone.txt", vscode_window.page
    file.write_text("one\ntwo\nthree\n")
    await runtime.edit(str(file), "str_replace", old_str="three", new_str="THREE")
    await runtime.act(OpenFile("undone.txt", preview=False))
    await rig.on(_type_into_file(page, "undone.txt", "mine and "))
    unsaved = page.locator(".tab.dirty", has_text="undone.txt")
    await rig.on(page.keyboard.press("Control+s"))
    await rig.on(expect(unsaved).to_have_count(0))
    await runtime.edit(str(file), "undo_edit")
    assert file.read_text() == "mine and one\ntwo\nthree\n"


async def _median(work: Callable[[int], Awaitable[None]], count: int = 40) -> float:
    took = []
    for n in range(count):
        began = time.perf_counter()
        await work(n)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _notebook(source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "a-cell",
        "metadata": {},
        "outputs": [],
        "source": [source],
    }
    return {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def _source(notebook: dict[str, Any]) -> str:
    return "".join(notebook["cells"][0]["source"])


async def _open_notebook(page: Page, name: str) -> None:
    """By the explorer, which shows a new file once VS Code has seen it; the list of quick open is
    made once, when it is opened, and may be without the file."""
    await page.locator(".explorer-folders-view .monaco-list-row", has_text=name).first.dblclick()
    await expect(page.locator(".notebook-editor .cell-list-container").first).to_be_visible()


async def _type_into_cell(page: Page, name: str, text: str) -> None:
    await _open_notebook(page, name)
    await page.locator(".notebook-editor .view-lines").first.click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.type(text)
    await expect(page.locator(".tab.dirty", has_text=name).first).to_be_visible()


async def _cell_shows(page: Page, text: str) -> None:
    line = page.locator(".notebook-editor .view-line").first
    await expect(line).to_have_text(text)


async def _type_into_file(page: Page, name: str, text: str) -> None:
    await page.locator(f'.monaco-editor[data-uri$="{name}"] .view-lines').first.click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.type(text)
    await expect(page.locator(".tab.dirty", has_text=name).first).to_be_visible()
