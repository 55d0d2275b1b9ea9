"""The guide for trouble has the words that people see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/guides/troubleshooting.md").read_text()
SYMPTOMS = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
SHORTEST = 8
"""Letters of a piece that is looked for; a shorter one could stand anywhere."""


@cache
def sayings() -> dict[str, str]:
    """All that is in quotes in each source file, values left out."""
    python = {
        str(file): "\n".join(_python(ast.parse(file.read_text())))
        for file in (PROJECT / "src").rglob("*.py")
    }
    typescript = {
        str(file): re.sub(r"\$\{[^}]*\}", "\n", re.sub(r'" \+\n\s*"', "", file.read_text()))
        for file in (PROJECT / "extension/src").rglob("*.ts")
    }
    return python | typescript


def _python(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "\n" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def is_said(symptom: str, text: str) -> bool:
    """Whether every piece of it, between the dots that stand for values, is in the text."""
    pieces = [piece.strip(" .:;(") for piece in symptom.split("…")]
    return all(is_made_of(piece, text) for piece in pieces if len(piece) >= SHORTEST)


def is_made_of(piece: str, text: str) -> bool:
    """Whether it is there whole, or as two pieces that are put together when it is said."""
    if piece in text:
        return True
    cuts = range(SHORTEST, len(piece) - SHORTEST)
    return any(piece[:cut].strip() in text and piece[cut:].strip() in text for cut in cuts)


def test_every_symptom_is_listed_once() -> None:
    assert SYMPTOMS
    assert len(set(SYMPTOMS)) == len(SYMPTOMS)


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_the_text_of_a_symptom_occurs_in_the_source(symptom: str) -> None:
    assert any(len(piece.strip()) >= SHORTEST for piece in symptom.split("…"))
    assert any(is_said(symptom, text) for text in sayings().values()), "nothing says so any more"


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_has_a_way_out(symptom: str) -> None:
    after = PAGE.partition(f"### {symptom}\n")[2]
    told = re.split(r"^##", after, maxsplit=1, flags=re.MULTILINE)[0].strip()

    assert told


def test_a_symptom_that_nothing_prints_is_detected() -> None:
    assert not any(is_said("The hub is out of coffee", text) for text in sayings().values())
