"""The protocol as one JSON Schema (2020-12), from which the TypeScript types are generated.

The schema describes the messages of Bascule's own clients and servers. Fields with a default may
be left out. Unknown fields are allowed everywhere, so that different versions work together. The
schema is generated from the shapes that validate incoming events. Keys keep the order of the
dataclasses, so that two versions can be compared line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bascule.core.actions import Action
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import (
    CellMetadata,
    CmdMetadata,
    CmdOutput,
    DirEntry,
    GrepMatch,
    IPythonOutput,
    Observation,
)

from ._docstrings import class_docstring, field_docstrings
from ._shapes import envelope_names, shape_of

JsonSchema = dict[str, Any]

_RECORDS = (CmdMetadata, CellMetadata, DirEntry, GrepMatch)
_MESSAGE: JsonSchema = {
    "type": "string",
    "readOnly": True,
    "description": "One short line for people, made from the other fields. Ignored on input.",
}


def json_schema() -> JsonSchema:
    """The whole protocol. Each definition is an event, or a part of an event, on the wire."""
    definitions = {
        "Action": _one_of(map(_action_name, ACTIONS.values())),
        "Observation": _one_of(map(_observation_name, OBSERVATIONS.values())),
        **{_action_name(cls): _action(cls) for cls in ACTIONS.values()},
        **{_observation_name(cls): _observation(cls) for cls in OBSERVATIONS.values()},
        **{cls.__name__: _record(cls) for cls in _RECORDS},
        "ProgressFrame": _PROGRESS,
        "ErrorEnvelope": _ERROR,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bascule events",
        "oneOf": [{"$ref": "#/$defs/Action"}, {"$ref": "#/$defs/Observation"}],
        "$defs": definitions,
    }


_PROGRESS: JsonSchema = {
    "description": "A piece of a shell's output while its command still runs.",
    "type": "object",
    "properties": {
        "shell": {"type": "string"},
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "Position of `data` in the shell's log, in bytes since the log began.",
        },
        "data": {
            "type": "string",
            "contentEncoding": "base64",
            "description": "Raw bytes; a piece may end inside a character.",
        },
    },
    "required": ["shell", "offset", "data"],
}

_ERROR: JsonSchema = {
    "description": "An error outside of observations.",
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "detail": {"type": "object", "additionalProperties": True},
    },
    "required": ["code", "message", "detail"],
}


def _action_name(cls: type[Action]) -> str:
    return f"{cls.__name__}Action"


def _observation_name(cls: type[Observation]) -> str:
    return f"{cls.__name__}Observation"


def _one_of(names: Iterable[str]) -> JsonSchema:
    return {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in names]}


def _action(cls: type[Action]) -> JsonSchema:
    envelope, args = _split(cls)
    properties = {
        **_pick(envelope, "id", "timestamp", "source"),
        "message": _MESSAGE,
        "action": {"const": cls.kind},
        **_pick(envelope, "tool_call_metadata", "llm_metrics"),
        "args": args,
        **_pick(envelope, "timeout"),
    }
    return _object(cls, properties, required=["id", "action", "args"])


def _observation(cls: type[Observation]) -> JsonSchema:
    envelope, extras = _split(cls)
    properties = {
        **_pick(envelope, "id", "timestamp", "source"),
        "message": _MESSAGE,
        **_pick(envelope, "cause"),
        "observation": {"const": cls.kind},
        **_pick(envelope, "tool_call_metadata", "llm_metrics", "content"),
        "extras": extras,
    }
    if issubclass(cls, CmdOutput | IPythonOutput):
        properties["success"] = {"type": "boolean", "readOnly": True}
    properties |= _pick(envelope, "note")
    return _object(cls, properties, required=["id", "observation", "content", "extras"])


def _record(cls: type) -> JsonSchema:
    return _object(cls, *_fields(cls))


def _split(cls: type) -> tuple[JsonSchema, JsonSchema]:
    """The envelope's properties, and the schema of `args` or `extras`."""
    properties, required = _fields(cls)
    around = envelope_names(cls)
    inside = {name: schema for name, schema in properties.items() if name not in around}
    envelope = {name: schema for name, schema in properties.items() if name in around}
    part: JsonSchema = {"type": "object", "properties": inside}
    if required:
        part["required"] = required
    return envelope, part


def _fields(cls: type) -> tuple[JsonSchema, list[str]]:
    """The properties of `cls`, and the names of those without a default."""
    fields = shape_of(cls).schema["schema"]["fields"]
    texts = _descriptions(cls)
    properties = {}
    for field in fields:
        name = field["name"]
        text = {"description": texts[name]} if name in texts else {}
        properties[name] = {**_json(field["schema"]), **text}
    required = [field["name"] for field in fields if field["schema"]["type"] != "default"]
    return properties, required


def _descriptions(cls: type) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        texts |= field_docstrings(base)
    return texts


def _json(schema: Any) -> JsonSchema:
    """A pydantic schema as JSON Schema. Supports only the types that shapes use."""
    match schema:
        case {"type": "default", "schema": inner, "default": default}:
            return {**_json(inner), "default": list(default) if default == () else default}
        case {"type": "default", "schema": inner}:
            return _json(inner)
        case {"type": "nullable", "schema": inner}:
            return {"anyOf": [_json(inner), {"type": "null"}]}
        case {"type": "union", "choices": choices}:
            return {"anyOf": [_json(choice) for choice, _ in choices]}
        case {"type": "literal", "expected": [str(), *_] as values}:
            return {"type": "string", "enum": values}
        case {"type": "literal", "expected": values}:
            return {"type": "integer", "enum": values}
        case {"type": "tuple", "items_schema": [item]}:
            return {"type": "array", "items": _json(item)}
        case {"type": "dict", "values_schema": values}:
            return {"type": "object", "additionalProperties": _json(values) or True}
        case {"type": "dataclass", "cls": cls}:
            return {"$ref": f"#/$defs/{cls.__name__}"}
        case {"type": "any"}:
            return {}
        case {"type": "str", "min_length": length}:
            return {"type": "string", "minLength": length}
        case {"type": "float", "gt": bound}:
            return {"type": "number", "exclusiveMinimum": bound}
        case {"type": kind} if kind in _SCALARS:
            return {"type": _SCALARS[kind]}
    raise TypeError(f"no JSON Schema for {schema['type']}")


_SCALARS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def _pick(envelope: Mapping[str, Any], *names: str) -> JsonSchema:
    return {name: envelope[name] for name in names}


def _object(cls: type, properties: JsonSchema, required: list[str]) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    text = class_docstring(cls)
    return {"description": text, **schema} if text else schema
