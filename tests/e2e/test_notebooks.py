"""Notebooks in a real window, with the kernel of Bascule's own extension and with another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import FileRead
from bascule.core.editor_actions import VscodeCommand
from bascule.core.errors import (
    EditInvalid,
    EditNoMatch,
    InvalidNotebook,
    InvalidRange,
    IsADirectory,
    NoNotebookKernel,
    NoSuchCell,
    NoSuchPath,
    OutcomeUnknown,
    PathOutsideRoots,
)
from bascule.runtime.vscode import VSCodeRuntime
from tests.adapters.mcp.clients import over_http, text_of
from tests.contracts.ipython import SHOW_PIXEL

from .rig import EditorWindow, Rig


def _code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": 7 if outputs else None,
        "metadata": {},
        "outputs": list(outputs),
        "source": source.splitlines(keepends=True),
    }


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}


def _notebook(*cells: dict[str, Any]) -> str:
    metadata = {"language_info": {"name": "python"}}
    parts = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 2}
    return json.dumps(parts)


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": [text]}


_FILES = {
    "kept.ipynb": _notebook(_text("# Kept"), _code("print('x')", _stream("x" * 300)), _code("2")),
    "long.ipynb": _notebook(*(_code(f"{n}") for n in range(1, 8))),
    "edited.ipynb": _notebook(_text("# Edited"), _code("one = 1"), _code("two = 2"), _code("3")),
    "unsaved.ipynb": _notebook(_code("one = 1"), _code("two = 2")),
    "run.ipynb": _notebook(
        _text("# Run"),
        _code("answer = 6 * 7\nprint('seen')\nanswer"),
        _code(SHOW_PIXEL),
        _code("1 / 0"),
        _code("print('after')"),
    ),
    "slow.ipynb": _notebook(_code("import time; time.sleep(600)"), _code("'next'")),
    "once.ipynb": _notebook(
        _code("import pathlib, time\nopen('ran', 'a').write('x')\ntime.sleep(600)")
    ),
    "kernels.ipynb": _notebook(_code("word = 'kernel'")),
    "broken.ipynb": '{"cells": [',
    "notes.txt": "no notebook\n",
}


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("notebooks") / "workspace"
    folder.mkdir()
    for name, content in _FILES.items():
        (folder / name).write_text(content)
    allowed = ["workbench.action.*", "secondKernel.register", "vscode.openWith", "undo"]
    server = rig.wait(
        rig.serve(
            "notebooks",
            {"bascule.allowedCommands": allowed},
            extensions=[Path(__file__).parent / "second_kernel"],
        )
    )
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


def _sources(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]


async def _show(agent: VSCodeRuntime, notebook: Path) -> None:
    """As the only editor, with the focus."""
    await agent.vscode_command("workbench.action.closeAllEditors")
    await agent.vscode_command("vscode.openWith", {"$uri": str(notebook)}, "jupyter-notebook")


async def test_cells_of_a_closed_notebook_are_read(agent: VSCodeRuntime, folder: Path) -> None:
    seen = await agent.read_cells("kept.ipynb", output_limit=100)

    title, printed, last = seen.items
    assert (title["kind"], title["source"], title["outputs"]) == ("markdown", "# Kept", [])
    assert (printed["cell"], printed["language"], printed["execution_count"]) == (2, "python", 7)
    (output,) = printed["outputs"]
    assert output["text"] == f"{'x' * 50}\n[200 characters left out]\n{'x' * 50}"
    assert last["state"] is None
    assert (seen.total, seen.truncated, seen.unsaved) == (3, True, False)
    assert seen.content.startswith("cell 1 (markdown):\n# Kept\n\ncell 2 (python, run 7")
    named = await agent.read_cells("kept.ipynb", cells=[3, 2], outputs=False)
    assert [(item["cell"], item["outputs"]) for item in named.items] == [(3, []), (2, [])]


async def test_a_long_notebook_is_paged(agent: VSCodeRuntime) -> None:
    first = await agent.read_cells("long.ipynb", limit=4)
    rest = await agent.read_cells("long.ipynb", offset=4)

    assert ([item["cell"] for item in first.items], first.truncated) == ([1, 2, 3, 4], True)
    assert first.note == "7 cells; continue with `offset` 4"
    assert ([item["cell"] for item in rest.items], rest.truncated) == ([5, 6, 7], False)
    assert (await agent.read_cells("long.ipynb", offset=7)).content == "No more cells; there are 7"


async def test_impossible_actions_return_clear_errors(agent: VSCodeRuntime, folder: Path) -> None:
    with pytest.raises(NoSuchCell, match="no cell 8: the notebook has cells 1 to 7"):
        await agent.read_cells("long.ipynb", cells=[8])
    with pytest.raises(NoSuchCell, match="Cell 1 is text"):
        await agent.run_cells("run.ipynb", [1])
    with pytest.raises(InvalidNotebook, match=r"not a notebook: it is no \.ipynb file"):
        await agent.read_cells("notes.txt")
    with pytest.raises(InvalidNotebook, match=r"cannot read .*broken\.ipynb"):
        await agent.read_cells("broken.ipynb")
    with pytest.raises(NoSuchPath):
        await agent.read_cells("missing.ipynb")
    with pytest.raises(IsADirectory):
        await agent.read_cells(".")
    with pytest.raises(PathOutsideRoots):
        await agent.run_cells("/etc/outside.ipynb")
    with pytest.raises(InvalidRange, match="`limit` 0"):
        await agent.read_cells("long.ipynb", limit=0)
    before = (folder / "long.ipynb").read_text()
    bad: list[tuple[type[Exception], list[dict[str, Any]]]] = [
        (EditInvalid, []),
        (EditInvalid, [{"op": "append", "cell": 1}]),
        (NoSuchCell, [{"op": "delete", "cell": 1}, {"op": "delete", "cell": 7}]),
        (EditNoMatch, [{"op": "edit", "cell": 1, "old": "x", "new": ""}]),
    ]
    for error, edits in bad:
        with pytest.raises(error):
            await agent.edit_cells("long.ipynb", edits)
    assert (folder / "long.ipynb").read_text() == before


async def test_edits_are_saved_and_one_undo_takes_them_back(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    await _show(agent, folder / "edited.ipynb")
    editor = window.page.locator(".notebook-editor")
    await rig.on(expect(editor.locator(".view-lines").first).to_have_text("one = 1"))

    done = await agent.edit_cells(
        "edited.ipynb",
        [
            {"op": "edit", "cell": 2, "old": "1", "new": "11"},
            {"op": "insert", "cell": 3, "source": "half = 1.5"},
            {"op": "move", "cell": 5, "to": 1},
            {"op": "delete", "cell": 5},
            {"op": "insert", "cell": 2, "source": "New", "kind": "markdown"},
        ],
    )

    assert done.content.splitlines()[0] == "Edited cell 2"
    assert (done.total, done.unsaved, done.note) == (5, False, None)
    after = ["3", "New", "# Edited", "one = 11", "half = 1.5"]
    assert _sources(folder / "edited.ipynb") == after
    assert [item["source"] for item in done.items] == ["New", "one = 11", "half = 1.5"]

    await agent.act(VscodeCommand("undo"))

    seen = await agent.read_cells("edited.ipynb")
    assert [item["source"] for item in seen.items] == ["# Edited", "one = 1", "two = 2", "3"]
    await agent.act(VscodeCommand("workbench.action.files.save"))


async def test_unsaved_changes_of_the_user_are_read_and_stay_unsaved(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    async def type_into_the_first_cell(page: Page) -> None:
        cell = page.locator(".notebook-editor .cell.code .view-lines", has_text="one = 1")
        await cell.click()
        await page.keyboard.press("Control+End")
        await page.keyboard.type("  # mine")
        await expect(page.locator(".notebook-editor").get_by_text("# mine")).to_be_visible()

    typed = "one = 1  # mine"
    before = (folder / "unsaved.ipynb").read_text()
    await _show(agent, folder / "unsaved.ipynb")
    await rig.on(type_into_the_first_cell(window.page))

    async with asyncio.timeout(60):
        # Each key reaches the extension in a message of its own.
        while (seen := await agent.read_cells("unsaved.ipynb")).items[0]["source"] != typed:
            pass
    assert seen.unsaved
    edited = await agent.edit_cells(
        "unsaved.ipynb", [{"op": "edit", "cell": 2, "source": "two = 22"}]
    )
    assert edited.unsaved
    assert "not saved" in (edited.note or "")
    ran = await agent.run_cells("unsaved.ipynb", [2])
    assert ran.items[0]["state"] == "done"
    assert (folder / "unsaved.ipynb").read_text() == before
    assert "# mine" in (await agent.act(FileRead("unsaved.ipynb"))).content
    await agent.act(VscodeCommand("workbench.action.files.save"))
    assert _sources(folder / "unsaved.ipynb") == ["one = 1  # mine", "two = 22"]


async def test_cells_run_in_one_kernel_and_stop_at_an_error(
    agent: VSCodeRuntime, folder: Path
) -> None:
    ran = await agent.run_cells("run.ipynb")

    assert [item["state"] for item in ran.items] == ["done", "done", "failed", "not_run"]
    printed, value = ran.items[0]["outputs"]
    assert (printed["name"], printed["text"], value["text"]) == ("stdout", "seen\n", "42")
    assert ran.items[1]["outputs"][-1]["image"] == 0
    (image,) = ran.image_urls or ()
    assert image.startswith("data:image/png;base64,")
    (error,) = ran.items[2]["outputs"]
    assert (error["type"], error["name"]) == ("error", "ZeroDivisionError")
    assert "\x1b" not in error["text"]
    assert "cell 4 (python, run 3, failed):\n1 / 0\nerror:\n" in ran.content
    saved = json.loads((folder / "run.ipynb").read_text())["cells"]
    assert saved[1]["outputs"][0]["text"] == ["seen\n"]
    await agent.edit_cells("run.ipynb", [{"op": "edit", "cell": 5, "source": "answer + 1"}])
    again = await agent.run_cells("run.ipynb", [5])
    assert again.items[0]["outputs"][0]["text"] == "43"


async def test_cells_are_interrupted_at_the_timeout(agent: VSCodeRuntime) -> None:
    ran = await agent.run_cells("slow.ipynb", timeout=15)

    assert ran.timed_out
    assert [item["state"] for item in ran.items] == ["failed", "not_run"]
    assert ran.items[0]["outputs"][-1]["name"] == "KeyboardInterrupt"
    assert (await agent.run_cells("slow.ipynb", [2])).items[0]["state"] == "done"


async def test_cells_are_tools_of_mcp(rig: Rig, window: EditorWindow) -> None:
    async with over_http(f"{rig.url}/mcp", await rig.agent_token()) as client:
        await client.call_tool("use_window", {"window": window.id})
        read = await client.call_tool("read_cells", {"path": "long.ipynb", "limit": 1})
        assert text_of(read).startswith("cell 1 (python):\n1\n")
        edits = [{"op": "edit", "cell": 7, "source": "print(7 * 7)"}]
        edited = await client.call_tool("edit_cells", {"path": "long.ipynb", "edits": edits})
        assert "Edited cell 7" in text_of(edited)
        ran = await client.call_tool("run_cells", {"path": "long.ipynb", "cells": [7]})
        assert "output:\n49" in text_of(ran)


async def test_cells_run_once_though_the_window_is_reloaded(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    running = asyncio.create_task(agent.run_cells("once.ipynb"))
    watched = folder / "ran"
    async with asyncio.timeout(120):
        while not watched.exists():
            await agent.run("until [ -e ran ]; do sleep 0.1; done", timeout=5)

    await rig.on(rig.reload(window))

    with pytest.raises(OutcomeUnknown, match="reloaded"):
        await running
    assert watched.read_text() == "x"
    assert (await agent.read_cells("once.ipynb")).total == 1


async def test_the_user_chooses_the_kernel(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    # VS Code asks about the notebook that has the focus. This one has a kernel already.
    await agent.run_cells("run.ipynb", [2])
    await _show(agent, folder / "run.ipynb")
    await agent.act(VscodeCommand("secondKernel.register"))
    picker = window.page.locator(".quick-input-widget")

    async def dismiss() -> None:
        await expect(picker).to_contain_text("Select Another Kernel")
        await expect(picker).not_to_contain_text("Currently Selected")
        await window.page.keyboard.press("Escape")

    async def choose() -> None:
        # VS Code first lists the kernels that were used before.
        await picker.get_by_role("option", name="Select Another Kernel").click()
        await picker.get_by_role("option", name="Second Kernel").first.click()

    refused = asyncio.create_task(agent.run_cells("kernels.ipynb"))
    await rig.on(dismiss())
    with pytest.raises(NoNotebookKernel, match="has not chosen a kernel"):
        await refused

    running = asyncio.create_task(agent.run_cells("kernels.ipynb"))
    await rig.on(choose())
    assert (await running).items[0]["outputs"][0]["text"] == "WORD = 'KERNEL'"
    again = await agent.run_cells("kernels.ipynb")
    assert again.items[0]["state"] == "done"
