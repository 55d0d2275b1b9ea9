"""Symbols in lines and edits of texts, by the vectors that the extension passes too."""

from __future__ import annotations

from typing import Any

import pytest

from bascule.core.errors import EditInvalid, InvalidPath, NoSuchSymbol
from bascule.sandbox.language.text_positions import (
    TextEdit,
    TextLines,
    symbol_in_line,
    symbol_range,
    with_edits,
)
from bascule.sandbox.language.workspace_edits import read_workspace_edit
from tests.contracts.shared_vectors import load

_SYMBOLS = load("symbol_in_line")


@pytest.mark.parametrize("vector", _SYMBOLS["found"])
def test_a_symbol_is_found(vector: tuple[str, str, int, str]) -> None:
    text, symbol, occurrence, expected = vector
    start, end = symbol_in_line(text, symbol, occurrence, "line 7 of /f/a.ts")
    assert text[start:end] == symbol
    assert f"{text[:start]}|{text[start:]}" == expected


@pytest.mark.parametrize("vector", _SYMBOLS["not_found"])
def test_a_symbol_is_not_found(vector: tuple[str, str, int, str]) -> None:
    text, symbol, occurrence, message = vector
    with pytest.raises(NoSuchSymbol) as raised:
        symbol_in_line(text, symbol, occurrence, "line 7 of /f/a.ts")
    assert message in raised.value.message


@pytest.mark.parametrize("case", load("text_edits")["cases"], ids=lambda case: case["name"])
def test_edits_are_applied(case: dict[str, Any]) -> None:
    edits = [TextEdit(**each) for each in case["edits"]]
    assert with_edits(case["text"], edits) == case["after"]


def test_columns_count_utf16_units() -> None:
    lines = TextLines("first\r\n𝒳 = größe\nlast")
    assert lines.count == 3
    found = symbol_range(lines, "a.py", 2, "größe", 1)
    assert found == {"start": {"line": 1, "character": 5}, "end": {"line": 1, "character": 10}}
    assert lines.offset(found["start"]) == len("first\r\n𝒳 = ")
    assert lines.offset({"line": 0, "character": 99}) == len("first")
    assert lines.offset({"line": 9, "character": 0}) == len("first\r\n𝒳 = größe\nlast")


def test_the_edits_of_a_server_are_read_in_both_forms() -> None:
    place = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 7}}
    edit = {"range": place, "newText": "two"}
    (plain,) = read_workspace_edit({"changes": {"file:///f/a%20b.py": [edit]}})
    assert (plain.path, plain.applied_to("one one")) == ("/f/a b.py", "one two")
    created, changed = read_workspace_edit(
        {
            "documentChanges": [
                {"kind": "create", "uri": "file:///f/new.py"},
                {"textDocument": {"uri": "file:///f/new.py", "version": None}, "edits": []},
                {"textDocument": {"uri": "file:///f/a.py", "version": 3}, "edits": [edit]},
            ]
        }
    )
    assert (created.path, created.is_new, changed.is_new) == ("/f/new.py", True, False)
    with pytest.raises(EditInvalid, match="wants to rename files"):
        read_workspace_edit({"documentChanges": [{"kind": "rename", "oldUri": "", "newUri": ""}]})
    with pytest.raises(InvalidPath, match="untitled:one"):
        read_workspace_edit({"changes": {"untitled:one": [edit]}})
