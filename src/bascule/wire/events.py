"""Encodes and decodes actions and observations.

An event is a plain mapping, ready for JSON. Decoding validates it once, so that other code can
trust its fields; `id` and `cause` become strings. Encoding keeps one order of keys, always writes
valid Unicode, and passes on the unknown fields that a newer peer sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from pydantic_core import ValidationError

from bascule.core.actions import Action, Condensation
from bascule.core.errors import InvalidAction
from bascule.core.identity import now
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import CmdOutput, IPythonOutput, Observation

from . import _openhands, _validation_errors
from ._event_messages import action_message, observation_message
from ._legacy import modern_args, modern_extras
from ._shapes import Shape, shape_of
from .plain import SCALARS, plain, well_formed

_Event = TypeVar("_Event", Action, Observation)
_RenameOldFields = Callable[[Mapping[str, Any], frozenset[str]], dict[str, Any]]

_ABSENT = object()
_ACTION_ENVELOPE = ("timestamp", "source", "timeout", "tool_call_metadata", "llm_metrics")
_OBSERVATION_ENVELOPE = (
    "content",
    "note",
    "timestamp",
    "source",
    "tool_call_metadata",
    "llm_metrics",
)


def prepare_kinds(classes: Iterable[type]) -> None:
    """Build the validators of these classes now, instead of with their first event.

    A process that forks calls this, so that its forks share the result. `classes` must include
    the dataclasses that are fields of an event.
    """
    for cls in classes:
        shape_of(cls)


def decode_action(data: Mapping[str, Any]) -> Action:
    """The action that an event describes.

    Raises `InvalidAction` for a wrong or missing field and `UnknownKind` for an unknown kind.
    Accepts old names of fields. Keeps unknown arguments in `unknown`.
    """
    cls = _kind(data, "action", ACTIONS)
    shape = shape_of(cls)
    event = f"{cls.kind} action"
    payload = _fields(data, "args", event, shape, modern_args)
    if "timestamp" in payload.get("unknown", ()):  # some clients send it in `args`
        payload["timestamp"] = payload["unknown"].pop("timestamp")
    _add_envelope(payload, data, _ACTION_ENVELOPE)
    _add_id(payload, data, "id", event)
    action = cast(Action, _build(shape, payload, event, "args"))
    if isinstance(action, Condensation):
        _ensure_consistent(action)
    return action


def decode_observation(data: Mapping[str, Any]) -> Observation:
    """The observation that an event describes. Errors and unknown fields: see `decode_action`."""
    cls = _kind(data, "observation", OBSERVATIONS)
    shape = shape_of(cls)
    event = f"{cls.kind} observation"
    payload = _fields(data, "extras", event, shape, modern_extras)
    _add_envelope(payload, data, _OBSERVATION_ENVELOPE)
    _add_id(payload, data, "id", event)
    _add_id(payload, data, "cause", event)
    return cast(Observation, _build(shape, payload, event, "extras"))


def ensure_valid(action: Action) -> None:
    """Raise `InvalidAction` where `decode_action` would, for an action made in this process.

    Lone surrogates in text are allowed, since file names may contain them. The code that runs the
    action handles them.
    """
    shape = shape_of(type(action))
    try:
        shape.build(shape.everything(action))
    except ValidationError as error:
        faults = [
            each for each in _validation_errors.faults(error) if each["type"] != "string_unicode"
        ]
        if faults:
            raise _validation_errors.from_validation(
                faults, f"{action.kind} action", part="args", names=shape.known
            ) from None


def encode_action(action: Action) -> dict[str, Any]:
    """The event for `action`. Raises `InvalidAction` for values JSON cannot express."""
    if isinstance(action, Condensation):
        _ensure_consistent(action)
    args = _parts(action)
    event: dict[str, Any] = {"id": well_formed(action.id)}
    if action.timestamp is not None:
        event["timestamp"] = well_formed(action.timestamp)
    if action.source is not None:
        event["source"] = action.source
    event["message"] = action_message(action.kind, args)
    event["action"] = action.kind
    _add_metadata(event, action)
    event["args"] = args
    if action.timeout is not None:
        event["timeout"] = action.timeout
    return event


def encode_observation(observation: Observation) -> dict[str, Any]:
    """The event for `observation`; raises as `encode_action` does."""
    event: dict[str, Any] = {"id": well_formed(observation.id)}
    if observation.timestamp is not None:
        event["timestamp"] = well_formed(observation.timestamp)
    event["source"] = observation.source
    cause = observation.cause
    _finish(event, observation, _parts(observation), cause and well_formed(cause))
    _add_note(event, observation)
    return event


def reply_envelope(request: Mapping[str, Any], observation: Observation) -> dict[str, Any]:
    """The event for `observation`, in the form that the sender of `request` understands.

    A string `id` means a Bascule client: it gets the whole envelope, with that id as `cause`. An
    integer `id` or none means OpenHands. Its client sets `id`, `timestamp` and `source` itself, so
    they are left out, as are extras that its classes would refuse. `cause` is the integer, if any.
    OpenHands has no field for a `note`, so it is appended to the output of a command, or dropped.
    """
    request_id = request.get("id")
    if isinstance(request_id, str):
        event: dict[str, Any] = {
            "id": well_formed(observation.id),
            "timestamp": well_formed(observation.timestamp or now()),
            "source": observation.source,
        }
        _finish(event, observation, _parts(observation), well_formed(request_id))
        _add_note(event, observation)
        return event
    extras = _parts(with_note_in_suffix(observation))
    accepted = _openhands.EXTRAS.get(observation.kind)
    if accepted is not None:
        extras = {name: value for name, value in extras.items() if name in accepted}
    event = {}
    is_theirs = type(request_id) is int and not _is_unset(request_id)
    _finish(event, observation, extras, request_id if is_theirs else None)
    return event


def with_note_in_suffix(observation: Observation) -> Observation:
    """A command's output with its `note` at the end of `metadata.suffix`, for clients that do not
    know notes. Other observations are returned as they are."""
    if not isinstance(observation, CmdOutput) or not observation.note:
        return observation
    suffix = f"{observation.metadata.suffix}\n[{observation.note}]"
    metadata = dataclasses.replace(observation.metadata, suffix=suffix)
    return dataclasses.replace(observation, metadata=metadata, note=None)


# Decoding -------------------------------------------------------------------------------


def _kind(data: Mapping[str, Any], word: str, kinds: Mapping[str, type[_Event]]) -> type[_Event]:
    if not isinstance(data, Mapping):
        raise _validation_errors.invalid(word, "event", "an object", data)
    kind = data.get(word)
    if kind is None:
        raise _validation_errors.missing(word, word)
    if not isinstance(kind, str):
        raise _validation_errors.invalid(word, word, "a string", kind)
    if kind not in kinds:
        raise _validation_errors.unknown_kind(word, kind, kinds)
    return kinds[kind]


def _fields(
    data: Mapping[str, Any], part: str, event: str, shape: Shape, modernise: _RenameOldFields
) -> dict[str, Any]:
    """The fields in `part`; unknown ones are kept under `unknown`."""
    fields = data.get(part)
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise _validation_errors.invalid(event, part, "an object", fields)
    unknown: dict[str, Any] = {}
    if fields.keys() <= shape.known:
        known = dict(fields)
    else:
        modern = modernise(fields, shape.known)
        known = {name: value for name, value in modern.items() if name in shape.known}
        unknown = {name: value for name, value in modern.items() if name not in shape.known}
    for name, names in shape.nested.items():
        inner = known.get(name)
        if isinstance(inner, Mapping) and not inner.keys() <= names:
            unknown[name] = {key: inner[key] for key in inner if key not in names}
    if unknown:
        known["unknown"] = unknown
    return known


def _add_envelope(payload: dict[str, Any], data: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        value = data.get(name, _ABSENT)
        if value is not _ABSENT:
            payload[name] = value


def _add_id(payload: dict[str, Any], data: Mapping[str, Any], name: str, event: str) -> None:
    value = data.get(name)
    if isinstance(value, str):
        payload[name] = value
    elif type(value) is int:
        if not _is_unset(value):
            payload[name] = str(value)
    elif value is not None:
        raise _validation_errors.invalid(event, name, "a string or an integer", value)


def _is_unset(value: object) -> bool:
    """Whether an id is unset: OpenHands writes -1 or leaves it out."""
    return value is None or value == -1


def _build(shape: Shape, payload: Mapping[str, Any], event: str, part: str) -> object:
    try:
        return shape.build(payload)
    except ValidationError as error:
        faults = _validation_errors.faults(error)
        raise _validation_errors.from_validation(
            faults, event, part=part, names=shape.known
        ) from None


def _ensure_consistent(action: Condensation) -> None:
    by_ids = action.forgotten_event_ids is not None
    by_range = None not in (action.forgotten_events_start_id, action.forgotten_events_end_id)
    if by_ids == by_range:
        raise InvalidAction(
            "condensation action: say what to forget either by `forgotten_event_ids` or by both"
            " `forgotten_events_start_id` and `forgotten_events_end_id`",
            field="args.forgotten_event_ids",
        )
    if (action.summary is None) != (action.summary_offset is None):
        raise InvalidAction(
            "condensation action: give both `summary` and `summary_offset`, or neither",
            field="args.summary",
        )


# Encoding -------------------------------------------------------------------------------


def _parts(event: Action | Observation) -> dict[str, Any]:
    """The contents of `args` or `extras`: the fields of the kind, then the unknown ones."""
    parts = _record(event)
    for name, value in event.unknown.items():
        value = plain(value, _fallback)
        if name not in parts:
            parts[well_formed(name)] = value
        elif isinstance(parts[name], dict) and isinstance(value, dict):
            parts[name] = {**value, **parts[name]}
    return parts


def _record(value: object) -> dict[str, Any]:
    shape = shape_of(type(value))
    record = {}
    for name, item in zip(shape.names, shape.values(value), strict=True):
        if type(item) in SCALARS or (type(item) is str and item.isascii()):
            record[name] = item  # nearly all fields; `plain` would double the time
        elif name in shape.nested:
            record[name] = _record(item)
        else:
            record[name] = plain(item, _fallback)
    return record


def _fallback(value: object) -> Any:
    return _record(value) if dataclasses.is_dataclass(value) else _validation_errors.refuse(value)


def _finish(
    event: dict[str, Any], observation: Observation, extras: dict[str, Any], cause: object
) -> None:
    content = well_formed(observation.content)
    event["message"] = observation_message(observation.kind, content, extras)
    if cause is not None:
        event["cause"] = cause
    event["observation"] = observation.kind
    _add_metadata(event, observation)
    event["content"] = content
    event["extras"] = extras
    if isinstance(observation, CmdOutput):
        event["success"] = observation.exit_code == 0
    elif isinstance(observation, IPythonOutput):
        event["success"] = observation.succeeded


def _add_note(event: dict[str, Any], observation: Observation) -> None:
    if observation.note is not None:
        event["note"] = well_formed(observation.note)


def _add_metadata(event: dict[str, Any], source: Action | Observation) -> None:
    if source.tool_call_metadata is not None:
        event["tool_call_metadata"] = plain(source.tool_call_metadata, _fallback)
    if source.llm_metrics is not None:
        event["llm_metrics"] = plain(source.llm_metrics, _fallback)
