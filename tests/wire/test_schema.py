"""The JSON Schema describes the events we send."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.core.actions import Action, CmdRun
from bascule.core.contracts import OutputProgress
from bascule.core.errors import NoSuchPath
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import CmdOutput
from bascule.wire import (
    encode_action,
    encode_observation,
    encode_progress,
    error_to_wire,
    json_schema,
)

from .strategies import EVENTS, NAMES, events

SCHEMA = json_schema()
DEFINITIONS = SCHEMA["$defs"]
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
NOT_CHECKED = {"description", "default", "readOnly", "contentEncoding"}


def faults(value: Any, schema: dict[str, Any], place: str = "event") -> list[str]:
    """What `schema` finds wrong with `value`. A keyword it does not know fails the test."""
    found = []
    for keyword, wanted in schema.items():
        match keyword:
            case "$ref":
                found += faults(value, DEFINITIONS[wanted.removeprefix("#/$defs/")], place)
            case "type":
                is_bool = isinstance(value, bool) and wanted != "boolean"
                if is_bool or not isinstance(value, TYPES[wanted]):
                    found.append(f"{place}: {value!r} is no {wanted}")
            case "const" if value != wanted:
                found.append(f"{place}: {value!r} is not {wanted!r}")
            case "enum" if value not in wanted:
                found.append(f"{place}: {value!r} is not one of {wanted}")
            case "minimum" if value < wanted:
                found.append(f"{place}: {value} < {wanted}")
            case "exclusiveMinimum" if value <= wanted:
                found.append(f"{place}: {value} <= {wanted}")
            case "minLength" if len(value) < wanted:
                found.append(f"{place}: {value!r} is too short")
            case "required":
                found += [f"{place}: no {name}" for name in wanted if name not in value]
            case "properties":
                for name in wanted.keys() & value.keys():
                    found += faults(value[name], wanted[name], f"{place}.{name}")
            case "additionalProperties" if wanted is not True:
                for name, item in value.items():
                    found += faults(item, wanted, f"{place}.{name}")
            case "items":
                for number, item in enumerate(value):
                    found += faults(item, wanted, f"{place}[{number}]")
            case "anyOf" | "oneOf":
                fits = sum(not faults(value, each, place) for each in wanted)
                if fits == 0 or (keyword == "oneOf" and fits > 1):
                    found.append(f"{place}: fits {fits} of {keyword}")
            case "const" | "enum" | "minimum" | "exclusiveMinimum" | "minLength":
                pass
            case "additionalProperties":
                pass
            case _:
                assert keyword in NOT_CHECKED, f"the test does not know {keyword}"
        if found:
            break
    return found


def definition(cls: type) -> dict[str, Any]:
    suffix = "Action" if issubclass(cls, Action) else "Observation"
    found = DEFINITIONS[f"{cls.__name__}{suffix}"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("cls", EVENTS, ids=NAMES)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_encoded_events_match_the_schema(cls: type, data: st.DataObject) -> None:
    event = data.draw(events(cls))
    encoded = encode_action(event) if isinstance(event, Action) else encode_observation(event)

    assert faults(encoded, definition(cls)) == []


@pytest.mark.parametrize(
    ("part", "field", "wrong"),
    [
        ("args", "command", 5),
        ("args", "command", None),
        ("args", "hidden", 1),
        ("args", "confirmation_state", "maybe"),
        ("args", "output_limit", "10"),
        ("", "timeout", 0),
        ("", "id", ""),
        ("", "source", "moon"),
        ("", "action", "read"),
    ],
)
def test_invalid_events_do_not_match_the_schema(part: str, field: str, wrong: object) -> None:
    event = encode_action(CmdRun("ls", timeout=5))
    (event[part] if part else event)[field] = wrong

    assert faults(event, definition(CmdRun)) != []


def test_an_event_matches_exactly_one_kind() -> None:
    root = {"oneOf": SCHEMA["oneOf"]}

    assert faults(encode_action(CmdRun("ls")), root) == []
    assert faults(encode_observation(CmdOutput(command="ls")), root) == []
    assert faults({"id": "1", "action": "fly", "args": {}}, root) != []


def test_fields_without_a_default_are_required() -> None:
    assert definition(CmdRun)["properties"]["args"]["required"] == ["command"]
    assert definition(CmdRun)["required"] == ["id", "action", "args"]
    assert "required" not in definition(ACTIONS["finish"])["properties"]["args"]


def test_frames_and_errors_match_the_schema() -> None:
    frame = encode_progress(OutputProgress("main", 3, b"\xff"))

    assert faults(frame, DEFINITIONS["ProgressFrame"]) == []
    assert faults({**frame, "offset": -1}, DEFINITIONS["ProgressFrame"]) != []
    assert faults(error_to_wire(NoSuchPath("x")), DEFINITIONS["ErrorEnvelope"]) == []


def test_every_kind_and_every_referenced_definition_is_in_the_schema() -> None:
    text = json.dumps(SCHEMA)
    kinds = [
        each["properties"][word]["const"]
        for word in ("action", "observation")
        for each in DEFINITIONS.values()
        if word in each.get("properties", {})
    ]

    assert kinds == [*ACTIONS, *OBSERVATIONS]
    assert {"CmdMetadata", "CellMetadata", "DirEntry", "GrepMatch"} <= DEFINITIONS.keys()
    assert all(f'"#/$defs/{name}"' in text for name in ("Action", "CmdMetadata", "GrepMatch"))
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_schema_fields_carry_their_docstrings() -> None:
    run = definition(CmdRun)

    assert run["description"].startswith("Run a command in a shell")
    assert "no new output" in run["properties"]["args"]["properties"]["blocking"]["description"]
    assert "Seconds" in run["properties"]["timeout"]["description"]
    assert "description" not in definition(ACTIONS["null"])


def test_the_generated_schema_is_deterministic() -> None:
    assert json.dumps(json_schema()) == json.dumps(SCHEMA)


@pytest.mark.slow
def test_events_and_schema_do_not_import_all_of_pydantic() -> None:
    code = (
        "import sys; from bascule.wire import *; json_schema();"
        "decode_action({'action': 'null'}); sys.exit('pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
