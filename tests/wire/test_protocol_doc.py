"""docs/protocol.md says what is there: every kind, field, type, default and error code."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bascule.core import errors
from bascule.core.actions import NOT_EXECUTABLE, CmdRun
from bascule.core.errors import BasculeError
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import CmdOutput
from bascule.wire import decode_action, decode_observation, json_schema

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "protocol.md").read_text()
DEFINITIONS = json_schema()["$defs"]

Fields = dict[str, tuple[str, str]]
"""Type and default by name."""


def section(title: str, *, level: int, text: str = PAGE) -> str:
    """What stands below a heading, up to the next one of its level or above."""
    start = re.search(rf"^{'#' * level} {re.escape(title)}$", text, re.MULTILINE)
    assert start, f"no section {title}"
    end = re.search(rf"^#{{1,{level}}} ", text[start.end() :], re.MULTILINE)
    return text[start.end() :][: end.start() if end else None]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row in `text`, without heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0].startswith("`")]


def documented(text: str) -> dict[str, Fields]:
    """Fields by the heading (of the fourth level) they stand below."""
    found = {}
    for part in re.split(r"^#### ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        found[heading.strip("`")] = fields_in(body.partition("\n### ")[0])
    return found


def fields_in(text: str) -> Fields:
    assert all(len(row) == 4 and row[3] for row in rows(text)), "every field has a meaning"
    return {row[0].strip("`"): (row[1], row[2]) for row in rows(text)}


def fields_of(schema: dict[str, Any]) -> Fields:
    """The same, as the code has it."""
    required = schema.get("required", [])
    return {
        name: (words(field), "required" if name in required else default(field))
        for name, field in schema["properties"].items()
    }


def default(field: dict[str, Any]) -> str:
    return f"`{json.dumps(field.get('default', {}))}`"


def words(field: dict[str, Any]) -> str:
    match field:
        case {"$ref": ref}:
            return f"`{ref.removeprefix('#/$defs/')}`"
        case {"anyOf": parts}:
            return " or ".join(map(words, parts))
        case {"enum": values}:
            *most, last = (f"`{json.dumps(value)}`" for value in values)
            return f"{', '.join(most)} or {last}"
        case {"type": "array", "items": {}} if not field["items"]:
            return "list of any values"
        case {"type": "array", "items": {"$ref": _} as item}:
            return f"list of {words(item)}"
        case {"type": "array", "items": item}:
            return "list of " + " or ".join(f"{word}s" for word in words(item).split(" or "))
        case {"type": kind}:
            return str(kind)
        case _:
            return "any"


@pytest.mark.parametrize("kind", ACTIONS)
def test_the_page_has_every_argument_of_an_action(kind: str) -> None:
    schema = DEFINITIONS[f"{ACTIONS[kind].__name__}Action"]["properties"]["args"]

    assert documented(section("Actions", level=2))[kind] == fields_of(schema)


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_the_page_has_every_extra_of_an_observation(kind: str) -> None:
    schema = DEFINITIONS[f"{OBSERVATIONS[kind].__name__}Observation"]["properties"]["extras"]

    assert documented(section("Observations", level=2))[kind] == fields_of(schema)


@pytest.mark.parametrize("name", ["CmdMetadata", "CellMetadata", "DirEntry", "GrepMatch"])
def test_the_page_has_every_field_of_a_part(name: str) -> None:
    assert documented(section("Observations", level=2))[name] == fields_of(DEFINITIONS[name])


def test_the_page_has_no_kind_that_does_not_exist() -> None:
    parts = ["CmdMetadata", "CellMetadata", "DirEntry", "GrepMatch"]

    assert list(documented(section("Actions", level=2))) == list(ACTIONS)
    assert sorted(documented(section("Observations", level=2))) == sorted([*OBSERVATIONS, *parts])


def test_the_page_lists_the_kinds_that_are_not_executable() -> None:
    talk = section("Talk between agent and user", level=3, text=section("Actions", level=2))

    assert documented(talk).keys() == NOT_EXECUTABLE


def test_the_page_has_the_envelope_in_its_order() -> None:
    table = [row[:3] for row in rows(section("Envelope", level=3))]
    keys = {
        word: [key.strip("`") for key, where, _ in table if where in (word, "both")]
        for word in ("action", "observation")
    }
    types = {key.strip("`"): words for key, _, words in table}

    assert keys["action"] == list(DEFINITIONS["CmdRunAction"]["properties"])
    assert keys["observation"] == list(DEFINITIONS["CmdOutputObservation"]["properties"])
    for name in ("CmdRunAction", "CmdOutputObservation"):
        for key, schema in DEFINITIONS[name]["properties"].items():
            if key not in ("action", "observation"):
                assert types[key] == words(schema).removesuffix(" or null")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (section("Progress", level=3), "ProgressFrame"),
        (section("Errors", level=2).partition("\n### ")[0], "ErrorEnvelope"),
    ],
)
def test_the_page_has_the_other_messages(text: str, name: str) -> None:
    schema = DEFINITIONS[name]["properties"]

    assert [(row[0].strip("`"), row[1]) for row in rows(text)] == [
        (key, words(field)) for key, field in schema.items()
    ]


@pytest.mark.parametrize("branch", ["UsageError", "ExecutionError", "LinkError"])
def test_the_page_has_every_error_with_its_code(branch: str) -> None:
    root = getattr(errors, branch)
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    table = rows(section(branch, level=3, text=section("Errors", level=2)))

    assert all(len(row) == 3 and row[2] for row in table)
    assert {row[0].strip("`"): row[1].strip("`") for row in table} == {
        cls.code: cls.__name__
        for cls in classes
        if issubclass(cls, BasculeError) and issubclass(cls, root)
    }


def test_errors_of_the_bridge_are_on_its_own_page() -> None:
    page = (DOCS / "bridge.md").read_text()
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    for cls in classes:
        if issubclass(cls, errors.BridgeError):
            assert f"`{cls.__name__}`" in page
            assert f"`{cls.code}`" in page
    assert "bridge.md" in section("Errors", level=2)


def test_no_class_uses_an_error_code_outside_the_error_tree() -> None:
    """An error elsewhere is a kind of one in `core.errors`, and has its code."""
    codes = {cls.code for cls in vars(errors).values() if hasattr(cls, "code")}
    known = {name for name, cls in vars(errors).items() if hasattr(cls, "code")}
    for file in (DOCS.parent / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            given = [
                each.value
                for each in node.body
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "code"
            ]
            if bases & known and given:
                assert ast.literal_eval(given[0]) in codes, f"{file}: {node.name}"


def test_the_examples_of_the_page_are_events() -> None:
    action, observation = (
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[:2]
    )

    assert isinstance(decode_action(action), CmdRun)
    answer = decode_observation(observation)
    assert isinstance(answer, CmdOutput)
    assert answer.cause == action["id"]
    assert (answer.unknown, decode_action(action).unknown) == ({}, {})
