"""Language features in a real window, with the TypeScript that VS Code has built in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import FileRead
from bascule.core.editor_actions import OpenFile, RenameSymbol, VscodeCommand
from bascule.core.editor_observations import CodeChanged
from bascule.core.errors import (
    ConsentDenied,
    EditConflict,
    EditInvalid,
    ExecutionError,
    InvalidAction,
    InvalidRange,
    NoSuchCodeAction,
    NoSuchPath,
    NoSuchSymbol,
    PathOutsideRoots,
)
from bascule.core.observations import Error
from bascule.runtime.vscode import VSCodeRuntime

from .driving import run_command
from .rig import EditorWindow, Rig

_FILES = {
    "tsconfig.json": """\
{
  "compilerOptions": { "strict": true, "module": "es2022" },
  "include": ["**/*", ".vscode/*"]
}
""",
    "shapes.ts": """\
export interface Shape {
  area(): number;
}

/** A square by the length of its side. */
export class Square implements Shape {
  constructor(readonly side: number) {}
  area(): number {
    return this.side * this.side;
  }
}

export function total(shapes: Shape[]): number {
  return shapes.reduce((sum, shape) => sum + shape.area(), 0);
}
""",
    "report.ts": """\
import { total, Square } from "./shapes";

export function report(): string {
  const squares = [new Square(1), new Square(2)];
  return `total: ${total(squares)}, total again: ${total([])}`;
}
""",
    "main.ts": """\
import { report } from "./report";
import { total } from "./shapes";

console.log(report(), total([]));
""",
    "imports.ts": """\
import { total, Square } from "./shapes";
import { report } from "./report";
report(); total([]);
""",
    "ugly.ts": "export   const  one=1 ;\n",
    "wrong.ts": 'export const count: number = "three";\n',
    "fix.ts": "export class Wrong implements Iterable<number> {}\n",
    "undone/one.ts": "export function first(): number {\n  return 1;\n}\n",
    "undone/two.ts": 'import { first } from "./one";\nexport const two = first() + 1;\n',
    "undone/three.ts": 'import { first } from "./one";\nexport const three = first() + 2;\n',
    "dirty/one.ts": "export const shared = 1;\n",
    "dirty/two.ts": 'import { shared } from "./one";\nexport const two = shared;\n',
    "guarded.ts": "export const guarded = 1;\n",
    ".vscode/tool.ts": 'import { guarded } from "../guarded";\nexport const tool = guarded;\n',
    "notes.txt": "area of nothing\n",
}
"""Written before the window opens, so that TypeScript finds them in its project."""


@pytest.fixture(scope="module")
def typed(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("language") / "typed"
    for name, content in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    allowed = ["vscode.execute*", "workbench.action.*"]
    server = rig.wait(rig.serve("language", {"bascule.allowedCommands": allowed}))
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


@pytest.fixture
async def agent(rig: Rig, typed: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=typed.id) as runtime:
        yield runtime


@pytest.fixture
def folder(typed: EditorWindow) -> Path:
    return typed.folder


async def test_references_are_complete_though_the_server_is_still_starting(
    agent: VSCodeRuntime, folder: Path
) -> None:
    found = await agent.references("shapes.ts", 13, "total")

    places = {(Path(item["path"]).name, item["line"]) for item in found.items}
    assert places == {
        ("shapes.ts", 13),
        *(("report.ts", 1), ("report.ts", 5)),
        *(("main.ts", 2), ("main.ts", 4)),
        *(("imports.ts", 1), ("imports.ts", 3)),
    }
    assert found.total == 8  # twice in a line of report.ts
    assert f"{folder}/main.ts:4: console.log(report(), total([]));" in found.content.splitlines()
    if found.waited:
        assert "still starting" in (found.note or "")
    again = await agent.references("shapes.ts", 13, "total")
    assert (again.total, again.waited, again.note) == (8, 0, None)


async def test_long_answers_are_paged(agent: VSCodeRuntime) -> None:
    first = await agent.references("shapes.ts", 13, "total", limit=3)
    rest = await agent.references("shapes.ts", 13, "total", offset=3)

    assert (len(first.items), first.truncated) == (3, True)
    assert first.note == "8 results in total; continue with `offset` 3"
    assert (len(rest.items), rest.truncated) == (5, False)
    beyond = await agent.references("shapes.ts", 13, "total", offset=8)
    assert beyond.content == "No more results; there are 8"


async def test_definitions_types_and_implementations_are_found(
    agent: VSCodeRuntime, folder: Path
) -> None:
    function = await agent.definition("main.ts", 4, "total")
    assert function.content.startswith(f"{folder}/shapes.ts:13: export function total(")
    second = await agent.definition("report.ts", 4, "Square", occurrence=2)
    assert [item["line"] for item in second.items] == [6, 7]  # the class and its constructor
    of_type = await agent.type_definition("report.ts", 5, "squares")
    assert f"{folder}/shapes.ts:6" in of_type.content
    made = await agent.implementations("shapes.ts", 2, "area")
    assert f"{folder}/shapes.ts:8" in made.content


async def test_a_definition_outside_the_workspace_is_returned_without_text(
    agent: VSCodeRuntime,
) -> None:
    (item, *_) = (await agent.definition("shapes.ts", 14, "reduce")).items

    assert item["path"].endswith(".d.ts")
    assert item["text"] == ""


async def test_hovers_and_call_hierarchies_are_returned(agent: VSCodeRuntime, folder: Path) -> None:
    hover = await agent.hover("report.ts", 4, "Square")
    assert "class Square" in hover.content or "new Square" in hover.content
    callers = await agent.call_hierarchy("shapes.ts", 13, "total")
    assert f"{folder}/report.ts:3: function report" in callers.content
    assert "called in line 5, 5" in callers.content
    callees = await agent.call_hierarchy("report.ts", 3, "report", direction="outgoing")
    assert f"{folder}/shapes.ts:13: function total" in callees.content


async def test_symbols_of_the_workspace_are_found_by_name(
    agent: VSCodeRuntime, folder: Path
) -> None:
    found = await agent.workspace_symbols("Squ", path="main.ts")
    assert f"{folder}/shapes.ts:6: class Square" in found.content
    assert (await agent.workspace_symbols("Nowhere")).content == (
        "No workspace symbols for 'Nowhere'"
    )


async def test_positions_that_do_not_exist_are_clear_errors(agent: VSCodeRuntime) -> None:
    with pytest.raises(NoSuchSymbol, match=r"The line is: export function total\(shapes"):
        await agent.hover("shapes.ts", 13, "tota")
    with pytest.raises(NoSuchSymbol, match="no occurrence 3"):
        await agent.definition("report.ts", 4, "Square", occurrence=3)
    with pytest.raises(NoSuchSymbol, match="`symbol` is needed"):
        await agent.references("shapes.ts", 13, "")
    with pytest.raises(InvalidRange, match="has lines 1 to 16; `line` is 99"):
        await agent.references("shapes.ts", 99, "total")
    with pytest.raises(NoSuchPath):
        await agent.hover("missing.ts", 1, "a")
    with pytest.raises(PathOutsideRoots):
        await agent.hover("/etc/passwd", 1, "root")
    nothing = await agent.definition("notes.txt", 1, "area")
    assert nothing.content == "No definition for 'area'"
    assert "may be incomplete" in (nothing.note or "")
    assert (await agent.definition("notes.txt", 1, "area")).note is None  # waits only once


async def test_a_rename_changes_three_files_and_one_undo_takes_it_back(
    rig: Rig, typed: EditorWindow, agent: VSCodeRuntime
) -> None:
    page, files = typed.page, [typed.folder / f"undone/{n}.ts" for n in ("one", "two", "three")]
    before = [file.read_text() for file in files]
    action = RenameSymbol("undone/one.ts", 1, "first", "initial")

    done = await agent.act(action)

    assert isinstance(done, CodeChanged)
    renamed = [text.replace("first", "initial") for text in before]
    assert [file.read_text() for file in files] == renamed
    assert done.content.startswith("Renamed 'first' to 'initial': 5 lines in 3 files\n")
    assert f"{files[0]}:1: export function initial(): number {{" in done.content
    assert {each["path"]: list(each["lines"]) for each in done.files} == {
        str(files[0]): [1],
        str(files[1]): [1, 2],
        str(files[2]): [1, 2],
    }
    for line in ("-export const three = first() + 2;", "+export const three = initial() + 2;"):
        assert line in done.diff.splitlines()

    await agent.act(OpenFile(str(files[1]), preview=False))
    await rig.on(expect(page.locator(".codelens-decoration a", has_text="Keep")).to_have_count(1))
    await rig.on(run_command(page, "Source Control: Focus on Changes View"))
    rows = page.locator(".scm-view .monaco-list-row .resource")
    await rig.on(expect(rows).to_have_count(3))

    await rig.on(_focus(page, "two.ts"))
    await rig.on(page.keyboard.press("Control+z"))
    await rig.on(expect(rows).to_have_count(0))
    for file, text in zip(files, before, strict=True):
        assert (await agent.act(FileRead(str(file)))).content == text
    await rig.on(run_command(page, "File: Save All Files"))
    await rig.on(expect(page.locator(".tab.dirty")).to_have_count(0))


async def test_a_rename_gets_a_checkpoint_and_is_done_once(
    agent: VSCodeRuntime, folder: Path
) -> None:
    action = RenameSymbol("shapes.ts", 7, "side", "width")
    first = await agent.act(action)
    assert isinstance(first, CodeChanged)
    # Its id is in the window's journal. Done again, it would fail: the symbol has another name.
    again = await agent.act(action)
    is_known = isinstance(again, Error) and again.error_id == "outcome.unknown"
    assert is_known or again.content == first.content
    assert (folder / "shapes.ts").read_text().count("width") == 3

    newest = (await agent.checkpoints()).items[-1]
    assert newest["title"].startswith("rename_symbol")
    await agent.restore(newest["id"])
    assert (folder / "shapes.ts").read_text() == _FILES["shapes.ts"]


async def test_a_rename_that_cannot_be_done_changes_nothing(
    rig: Rig, typed: EditorWindow, agent: VSCodeRuntime
) -> None:
    folder = typed.folder
    with pytest.raises(EditInvalid, match="already has"):
        await agent.rename_symbol("main.ts", 4, "total", "total")
    with pytest.raises(EditInvalid, match="empty"):
        await agent.rename_symbol("main.ts", 4, "total", " ")
    with pytest.raises(NoSuchSymbol):
        await agent.rename_symbol("main.ts", 4, "sum", "all")
    with pytest.raises(ExecutionError):
        await agent.rename_symbol("main.ts", 4, "console", "terminal")
    assert (folder / "main.ts").read_text() == _FILES["main.ts"]

    await agent.act(OpenFile("dirty/two.ts", line=1, preview=False))
    await rig.on(_focus(typed.page, "two.ts"))
    await rig.on(typed.page.keyboard.press("Control+End"))
    await rig.on(typed.page.keyboard.type("// mine"))
    await _reads(agent, "dirty/two.ts", _FILES["dirty/two.ts"] + "// mine")
    with pytest.raises(EditConflict, match=r"two\.ts has changes"):
        await agent.rename_symbol("dirty/one.ts", 1, "shared", "common")
    assert (folder / "dirty/one.ts").read_text() == _FILES["dirty/one.ts"]
    await rig.on(run_command(typed.page, "File: Revert File"))
    await _reads(agent, "dirty/two.ts", _FILES["dirty/two.ts"])


async def test_a_rename_leaves_protected_files_alone(agent: VSCodeRuntime, folder: Path) -> None:
    with pytest.raises(ConsentDenied, match=r"also change .*/\.vscode/tool\.ts"):
        await agent.rename_symbol("guarded.ts", 1, "guarded", "open")
    for name in ("guarded.ts", ".vscode/tool.ts"):
        assert (folder / name).read_text() == _FILES[name]


async def test_problems_belong_to_the_text_after_the_last_edit(agent: VSCodeRuntime) -> None:
    seen = await agent.diagnostics("wrong.ts", settle=True)
    assert seen.settled
    assert "wrong.ts:1:14: error: Type 'string' is not assignable to type 'number'" in seen.content
    assert (await agent.diagnostics("wrong.ts")).settled is None

    for text, problems in (("3", 0), ('"four"', 1), ("5", 0)):
        await agent.write("wrong.ts", f"export const count: number = {text};\n")
        seen = await agent.diagnostics("wrong.ts", settle=True)
        assert (len(seen.items), seen.settled) == (problems, True)

    # A change in one file makes a problem in another; files that agents changed are waited for.
    await agent.write("kept.ts", 'import { kept } from "./keeper";\nexport const k: 1 = kept;\n')
    await agent.write("keeper.ts", "export const kept = 2;\n")
    seen = await agent.diagnostics(settle=True, severity="error")
    assert "kept.ts:2:14: error: Type '2' is not assignable to type '1'" in seen.content


async def test_code_actions_are_listed_and_applied(agent: VSCodeRuntime, folder: Path) -> None:
    listed = await agent.code_actions("fix.ts", 1, "Wrong", only="quickfix")
    titles = [item["title"] for item in listed.items]
    title = "Implement interface 'Iterable<number>'"
    assert title in titles
    assert f"{title} (quickfix" in listed.content

    with pytest.raises(NoSuchCodeAction, match=r"It offers: .*Implement interface"):
        await agent.apply_code_action("fix.ts", 1, "Do magic", symbol="Wrong")
    done = await agent.apply_code_action("fix.ts", 1, title, symbol="Wrong")
    assert done.content.startswith(f"Applied '{title}'")
    assert "[Symbol.iterator]" in (folder / "fix.ts").read_text()

    extracted = await agent.apply_code_action(
        "report.ts", 4, "Extract to function in module scope", end_line=5
    )
    assert "rename_symbol" in (extracted.note or "")
    assert "newFunction" in (folder / "report.ts").read_text()
    await agent.write("report.ts", _FILES["report.ts"])


async def test_a_file_is_formatted_and_its_imports_are_organized(
    agent: VSCodeRuntime, folder: Path
) -> None:
    done = await agent.format("ugly.ts")
    assert (folder / "ugly.ts").read_text() == "export const one = 1;\n"
    assert done.content == (
        f"Formatted {folder}/ugly.ts: 1 line in 1 file\n{folder}/ugly.ts:1: export const one = 1;"
    )
    assert (await agent.format("ugly.ts")).content.startswith(f"{folder}/ugly.ts is formatted")

    await agent.organize_imports("imports.ts")
    assert (folder / "imports.ts").read_text() == (
        'import { report } from "./report";\nimport { total } from "./shapes";\n'
        "report(); total([]);\n"
    )
    again = await agent.organize_imports("imports.ts")
    assert (again.content, list(again.files)) == (
        f"The imports of {folder}/imports.ts are organized already",
        [],
    )
    with pytest.raises(NoSuchPath):
        await agent.format("missing.ts")


async def test_vs_code_commands_take_and_return_positions(
    agent: VSCodeRuntime, folder: Path
) -> None:
    at = [{"$uri": "main.ts"}, {"$position": [3, 24]}]
    done = await agent.vscode_command("vscode.executeDefinitionProvider", *at)
    (place,) = done.result
    uri = place.get("targetUri") or {"$uri": place["$location"]["uri"]}
    assert uri == {"$uri": f"{folder}/shapes.ts"}

    highlights = await agent.vscode_command("vscode.executeDocumentHighlights", *at)
    assert {"$range": [3, 22, 3, 27]} in [each["range"] for each in highlights.result]

    for wrong in ({"$position": [3]}, {"$position": [3, 22], "more": 1}):
        with pytest.raises(InvalidAction, match=r"arguments\[1\].*"):
            await agent.vscode_command("vscode.executeDefinitionProvider", at[0], wrong)
    refused = await agent.act(VscodeCommand("editor.action.rename"))
    assert "has not allowed" in refused.content


async def _focus(page: Page, name: str) -> None:
    await page.locator(f'.monaco-editor[data-uri$="{name}"] .view-lines').first.click()


async def _reads(agent: VSCodeRuntime, path: str, wanted: str) -> None:
    """Wait until the window has this text: what the user types arrives there a little later."""
    async with asyncio.timeout(60):
        while (await agent.act(FileRead(path))).content != wanted:
            await asyncio.sleep(0.05)
