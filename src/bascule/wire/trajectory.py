"""Converts records to OpenHands trajectories, which OpenHands' own tools can read.

Bascule adds a key `bascule` to an event. The value of this key is called the overlay; OpenHands
ignores the overlay. The overlay holds arguments and extras that OpenHands' classes would refuse.
For a kind that only Bascule has, the overlay also holds the kind, and OpenHands sees `null`.
`to_bascule_event` merges event and overlay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from . import _openhands

OVERLAY: Final = "bascule"
_NULL_KIND: Final = "null"
_MAX_UNANSWERED: Final = 10_000
"""Maximum number of actions without an observation. Beyond it, the oldest are forgotten."""
_METADATA: Final = ("tool_call_metadata", "llm_metrics", "timeout", "success")
_UNKNOWN_RESULT: Final = "outcome.unknown"


class Trajectory:
    """Converts a record's entries to events, in their order.

    In OpenHands, `id` and `cause` are numbers, so an event's `id` is the number of its entry.
    """

    def __init__(self) -> None:
        self._unanswered: dict[str, int] = {}
        """Entry numbers of the actions without an observation, by action id."""
        self._working_dir = ""

    def event(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """The event for `entry`. None for an action that was sent again while it was running, and
        for entries that are not an action, an observation or a failure."""
        event = entry.get("event")
        event = event if isinstance(event, Mapping) else {}
        match entry["kind"]:
            case "action" if str(event.get("id")) not in self._unanswered:
                return self._action(entry, event)
            case "observation":
                return self._observation(entry, event)
            case "failed":
                return self._unknown_result(entry)
            case _:
                return None

    def _action(self, entry: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
        action_id = str(event.get("id"))
        self._unanswered[action_id] = entry["n"]
        while len(self._unanswered) > _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        kind, args = _split(event, "action", "args", _openhands.ARGS)
        overlay = _overlay(entry, "who") | {"id": action_id} | args.overlay_fields
        if entry.get("working_dir", "") not in ("", self._working_dir):
            self._working_dir = overlay["working_dir"] = entry["working_dir"]
        return {
            **_head(entry, event, "agent"),
            "action": kind,
            "args": args.openhands_fields,
            **_tail(event, overlay),
        }

    def _observation(self, entry: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
        kind, extras = _split(event, "observation", "extras", _openhands.EXTRAS)
        return {
            **_head(entry, event, "environment"),
            **self._take_cause(event.get("cause")),
            "observation": kind,
            "content": str(event.get("content", "")),
            "extras": extras.openhands_fields,
            **_tail(event, _overlay(entry, "seconds", "checkpoint") | extras.overlay_fields),
        }

    def _unknown_result(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """The event for a `failed` entry: the result of its action is unknown.

        The action stays in `_unanswered`, because its window may still send the observation.
        """
        known = self._unanswered.get(str(entry.get("cause")))
        return {
            **_head(entry, {}, "environment"),
            **({} if known is None else {"cause": known}),
            "observation": "error",
            "content": str(entry.get("message", "")),
            "extras": {"error_id": _UNKNOWN_RESULT},
            OVERLAY: {**_overlay(entry, "seconds"), "lost": True},
        }

    def _take_cause(self, action_id: object) -> dict[str, int]:
        """The field `cause` of an observation. From now on, its action counts as answered."""
        known = self._unanswered.pop(str(action_id), None)
        return {} if known is None else {"cause": known}


def to_bascule_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of a trajectory, written by OpenHands or by Bascule, in Bascule's form."""
    whole = {name: value for name, value in event.items() if name != OVERLAY}
    overlay = event.get(OVERLAY)
    if not isinstance(overlay, Mapping):
        return whole
    for kind_key, fields_key in (("action", "args"), ("observation", "extras")):
        if kind_key not in event:
            continue
        if isinstance(overlay.get(kind_key), str):
            whole[kind_key] = overlay[kind_key]
        if isinstance(overlay.get(fields_key), Mapping):
            whole[fields_key] = {**(event.get(fields_key) or {}), **overlay[fields_key]}
    return whole


def overlay_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Bascule's additional fields: `id`, `who`, `seconds`, `checkpoint`, `masked`, `missed`, `lost`
    and `working_dir`.

    `missed`: the number of entries before this entry that were not recorded. `lost`: the result of
    the action is unknown.
    """
    overlay = event.get(OVERLAY)
    return overlay if isinstance(overlay, Mapping) else {}


@dataclass(frozen=True, slots=True)
class _Parts:
    openhands_fields: dict[str, Any]
    """The fields that OpenHands' class accepts."""
    overlay_fields: dict[str, Any]
    """The fields for the overlay."""


def _split(
    event: Mapping[str, Any], kind_key: str, fields_key: str, known: Mapping[str, frozenset[str]]
) -> tuple[str, _Parts]:
    """The kind of the event for OpenHands, and its fields, split by whether OpenHands accepts them.

    `kind_key` and `fields_key`: keys of the event that hold its kind and its fields. `known`: the
    fields that OpenHands accepts, by kind.
    """
    kind, fields = str(event.get(kind_key)), event.get(fields_key)
    fields = dict(fields) if isinstance(fields, Mapping) else {}
    if kind == "run" and fields_key == "extras":
        # OpenHands' class for the output of a command accepts any field.
        return kind, _Parts(fields, {})
    if kind not in known:
        return _NULL_KIND, _Parts({}, {kind_key: kind, fields_key: fields})
    openhands_fields = {name: value for name, value in fields.items() if name in known[kind]}
    rest = {
        name: value
        for name, value in fields.items()
        if name not in known[kind] and value is not None and value is not False and value != ""
    }
    return kind, _Parts(openhands_fields, {fields_key: rest} if rest else {})


def _head(entry: Mapping[str, Any], event: Mapping[str, Any], source: str) -> dict[str, Any]:
    moment = datetime.fromtimestamp(entry["time"], UTC).isoformat()
    return {
        "id": entry["n"],
        "timestamp": str(event.get("timestamp") or moment),
        "source": str(event.get("source") or source),
        "message": str(event.get("message", "")),
    }


def _tail(event: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: event[name] for name in _METADATA if event.get(name) is not None}
    return {**metadata, OVERLAY: dict(overlay)} if overlay else metadata


def _overlay(entry: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: entry[name] for name in (*names, "masked", "missed") if entry.get(name)}
