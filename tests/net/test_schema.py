"""The JSON Schema and the loader agree on what a net may say."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from bascule.net import load_bytes
from bascule.net.diagnostics import Findings
from bascule.net.evolve import _KNOWN_KEYS
from bascule.net.schema import schema
from bascule.net.yamltree import plain, read
from tests.net.test_load import EPIC, EVOLVE
from tests.net.writing import FILE


def errors(text: str) -> list[str]:
    tree = read(text, FILE, Findings())
    assert tree is not None
    checker = jsonschema.Draft202012Validator(schema())
    return [error.message for error in checker.iter_errors(plain(tree))]


def test_the_net_schema_is_a_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("text", [EPIC, EVOLVE])
def test_nets_that_load_match_the_schema(text: str) -> None:
    assert load_bytes(text.encode(), FILE).net is not None
    assert errors(text) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("marking: [1]", "markign: [1]"),
        ("kind: expression", "kind: thought"),
        ("language: python", "language: rust"),
        ("- id: p2", "- name: p2"),
        ("pnml:", "pmnl:"),
    ],
)
def test_nets_that_do_not_load_do_not_match_the_schema(right: str, wrong: str) -> None:
    text = EPIC.replace(right, wrong)

    assert load_bytes(text.encode(), FILE).net is None
    assert errors(text) != []


@pytest.mark.parametrize("element", sorted(_KNOWN_KEYS))
def test_the_schema_and_the_loader_know_the_same_keys(element: str) -> None:
    kind, _, evolve = element.partition(".")
    shape: dict[str, Any] = schema()
    if kind == "name":
        shape = shape["$defs"]["place"]["properties"]["name"]["oneOf"][1]
    elif kind == "pnml":
        shape = shape["properties"]["pnml"]
    elif kind != "file":
        shape = shape["$defs"][kind]
    if evolve:
        shape = shape["properties"]["evolve"]["oneOf"][0]
    if element != "token":  # any value may stand there
        assert set(shape["properties"]) == set(_KNOWN_KEYS[element])
