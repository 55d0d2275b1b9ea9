"""What the language actions must do. `tests/e2e/test_language.py` tests the same in a window.

A kind's tests subclass `LanguageSuite`, and give the fixtures `folder`, which has the files of
`tests/language_files.py`, and `agent`, whose language server starts with the first test. The tests
share them and run in this order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.core.errors import (
    InvalidRange,
    NoSuchCodeAction,
    NoSuchPath,
    NoSuchSymbol,
    PathOutsideRoots,
)
from bascule.runtime.language_verbs import LanguageVerbs
from tests.language_files import FILES


class LanguageSuite:
    async def test_references_are_complete_though_the_server_is_still_starting(
        self, agent: LanguageVerbs, folder: Path
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
        assert (
            f"{folder}/main.ts:4: console.log(report(), total([]));" in found.content.splitlines()
        )
        if found.waited:
            assert "still starting" in (found.note or "")
        again = await agent.references("shapes.ts", 13, "total")
        assert (again.total, again.waited, again.note) == (8, 0, None)

    async def test_long_answers_are_paged(self, agent: LanguageVerbs) -> None:
        first = await agent.references("shapes.ts", 13, "total", limit=3)
        rest = await agent.references("shapes.ts", 13, "total", offset=3)

        assert (len(first.items), first.truncated) == (3, True)
        assert first.note == "8 results in total; continue with `offset` 3"
        assert (len(rest.items), rest.truncated) == (5, False)
        beyond = await agent.references("shapes.ts", 13, "total", offset=8)
        assert beyond.content == "No more results; there are 8"

    async def test_definitions_types_and_implementations_are_found(
        self, agent: LanguageVerbs, folder: Path
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
        self,
        agent: LanguageVerbs,
    ) -> None:
        (item, *_) = (await agent.definition("shapes.ts", 14, "reduce")).items

        assert item["path"].endswith(".d.ts")
        assert item["text"] == ""

    async def test_hovers_and_call_hierarchies_are_returned(
        self, agent: LanguageVerbs, folder: Path
    ) -> None:
        hover = await agent.hover("report.ts", 4, "Square")
        assert "class Square" in hover.content or "new Square" in hover.content
        callers = await agent.call_hierarchy("shapes.ts", 13, "total")
        assert f"{folder}/report.ts:3: function report" in callers.content
        assert "called in line 5, 5" in callers.content
        callees = await agent.call_hierarchy("report.ts", 3, "report", direction="outgoing")
        assert f"{folder}/shapes.ts:13: function total" in callees.content

    async def test_symbols_of_the_workspace_are_found_by_name(
        self, agent: LanguageVerbs, folder: Path
    ) -> None:
        found = await agent.workspace_symbols("Squ", path="main.ts")
        assert f"{folder}/shapes.ts:6: class Square" in found.content
        assert (await agent.workspace_symbols("Nowhere")).content == (
            "No workspace symbols for 'Nowhere'"
        )

    async def test_positions_that_do_not_exist_are_clear_errors(self, agent: LanguageVerbs) -> None:
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

    async def test_problems_belong_to_the_text_after_the_last_edit(
        self, agent: LanguageVerbs
    ) -> None:
        seen = await agent.diagnostics("wrong.ts", settle=True)
        assert seen.settled
        assert (
            "wrong.ts:1:14: error: Type 'string' is not assignable to type 'number'" in seen.content
        )
        assert (await agent.diagnostics("wrong.ts")).settled is None

        for text, problems in (("3", 0), ('"four"', 1), ("5", 0)):
            await agent.write("wrong.ts", f"export const count: number = {text};\n")
            seen = await agent.diagnostics("wrong.ts", settle=True)
            assert (len(seen.items), seen.settled) == (problems, True)

        # A change in one file makes a problem in another; files that agents changed are waited for.
        await agent.write(
            "kept.ts", 'import { kept } from "./keeper";\nexport const k: 1 = kept;\n'
        )
        await agent.write("keeper.ts", "export const kept = 2;\n")
        seen = await agent.diagnostics(settle=True, severity="error")
        assert "kept.ts:2:14: error: Type '2' is not assignable to type '1'" in seen.content

    async def test_code_actions_are_listed_and_applied(
        self, agent: LanguageVerbs, folder: Path
    ) -> None:
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
        await agent.write("report.ts", FILES["report.ts"])

    async def test_a_file_is_formatted_and_its_imports_are_organized(
        self, agent: LanguageVerbs, folder: Path
    ) -> None:
        done = await agent.format("ugly.ts")
        assert (folder / "ugly.ts").read_text() == "export const one = 1;\n"
        assert done.content == (
            f"Formatted {folder}/ugly.ts: 1 line in 1 file\n"
            f"{folder}/ugly.ts:1: export const one = 1;"
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
