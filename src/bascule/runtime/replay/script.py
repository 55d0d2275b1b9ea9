"""Reads a trajectory into steps: each action with its recorded observation.

Pure code, except for reading the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bascule.core.actions import Action
from bascule.core.errors import BasculeError, InvalidRequest
from bascule.core.kinds import ACTIONS
from bascule.wire import decode_action, from_json
from bascule.wire.trajectory import overlay_of, to_bascule_event

_MESSAGE_KINDS: Final = frozenset(
    {"null", "message", "system", "think", "finish", "reject", "delegate", "recall"}
    | {"change_agent_state", "condensation", "condensation_request", "task_tracking"}
    | {"loop_recovery"}
)
"""Kinds of events between agent and user, which no runtime executes."""
_ANSWERS: Final = {"browse_interactive": "browse", "call_tool_mcp": "mcp"}
"""The kind of observation by kind of action, where the two differ."""
_MASK_TEXTS: Final = ("<secret_hidden>",)
"""Texts that other programs put in place of a secret."""


class InvalidTrajectory(InvalidRequest):
    """The file is not a trajectory; the message names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action to replay."""

    number: int
    """Position among the steps, from 1."""
    line: int
    """Line in the file, from 1. If the file is a list: the position of the event in the list."""
    action: Action
    seen: Mapping[str, Any] | None = None
    """The recorded observation, if any."""
    is_masked: bool = False
    """Whether a secret in the action is masked, so that the action cannot be replayed."""
    is_seen_masked: bool = False
    """Whether a secret in the observation is masked."""
    began: float | None = None
    """Unix time at which the action began."""
    answered_before: tuple[int, ...] = ()
    """Numbers of the steps that had been answered when this one began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The steps of a trajectory file."""

    steps: Sequence[Step]
    passed_over: Mapping[str, int] = field(default_factory=dict)
    """Number of events that no runtime executes, by kind."""
    missed: int = 0
    """Number of events that the recorder left out."""
    working_dir: str = ""
    """Working directory of the recording; empty if the file does not have it."""


def read_script(path: Path) -> Script:
    """Read JSON lines or one list, in our format or in that of OpenHands. Blocks the calling
    thread. Raises `InvalidTrajectory`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidTrajectory(f"cannot read {path}: {error.strerror or error}") from error
    builder = _ScriptBuilder(str(path))
    for line, event in _events(str(path), data):
        builder.add(line, event)
    return builder.script()


class _ScriptBuilder:
    """Assigns observations to their actions, event by event."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._steps: list[Step] = []
        self._open: dict[object, int] = {}
        """Indices in `_steps` of the steps without an answer, by the event's id."""
        self._answered: list[int] = []
        self._passed_over: Counter[str] = Counter()
        self._ignored: set[object] = set()
        self._missed = 0
        self._working_dir = ""

    def add(self, line: int, event: object) -> None:
        if not isinstance(event, Mapping) or not {"action", "observation"} & event.keys():
            raise InvalidTrajectory(
                f"{self._name}, line {line}: this is not an event: it has neither "
                "`action` nor `observation`",
                line=line,
            )
        overlay, full_event = overlay_of(event), to_bascule_event(event)
        self._missed += int(overlay.get("missed") or 0)
        self._working_dir = self._working_dir or str(overlay.get("working_dir") or "")
        if "action" in event:
            self._action(line, full_event, overlay)
        else:
            self._observation(full_event, overlay)

    def _action(self, line: int, event: Mapping[str, Any], overlay: Mapping[str, Any]) -> None:
        kind, own_id = str(event["action"]), event.get("id")
        args = event.get("args")
        state = args.get("confirmation_state") if isinstance(args, Mapping) else None
        if (
            kind in _MESSAGE_KINDS
            or kind not in ACTIONS
            or state in ("rejected", "awaiting_confirmation")
        ):
            self._passed_over[kind] += 1
            self._ignored.add(own_id)
            return
        try:
            action = decode_action({**event, "id": None})
        except BasculeError as error:
            position = f"{self._name}, line {line}"
            raise InvalidTrajectory(f"{position}: {error.message}", line=line) from error
        step = Step(
            number=len(self._steps) + 1,
            line=line,
            action=action,
            is_masked=bool(overlay.get("masked")) or _is_masked_value(args),
            began=_timestamp(event.get("timestamp")),
            answered_before=tuple(self._answered),
        )
        self._answered = []
        self._open[own_id] = len(self._steps)
        self._steps.append(step)

    def _observation(self, event: Mapping[str, Any], overlay: Mapping[str, Any]) -> None:
        """Assign an observation to its action. An observation without a cause belongs to the action
        before it."""
        kind, cause = str(event["observation"]), event.get("cause")
        if cause is None and self._open and kind in self._answers_of_last():
            cause = next(reversed(self._open))
        index = self._open.get(cause)
        if index is None:
            if cause not in self._ignored:
                self._passed_over[kind] += 1
            return
        if overlay.get("lost"):
            return
        del self._open[cause]
        masked = bool(overlay.get("masked")) or _is_masked_value(event)
        self._steps[index] = replace(self._steps[index], seen=event, is_seen_masked=masked)
        self._answered.append(index + 1)
        extras = event.get("extras")
        metadata = extras.get("metadata") if isinstance(extras, Mapping) else None
        if not self._working_dir and isinstance(metadata, Mapping):
            self._working_dir = str(metadata.get("working_dir") or "")

    def _answers_of_last(self) -> set[str]:
        """Kinds of observation that can answer the newest unanswered action."""
        kind = self._steps[self._open[next(reversed(self._open))]].action.kind
        return {kind, _ANSWERS.get(kind, kind), "error", "user_rejected"}

    def script(self) -> Script:
        return Script(
            steps=tuple(self._steps),
            passed_over=dict(self._passed_over),
            missed=self._missed,
            working_dir=self._working_dir,
        )


def _events(name: str, data: bytes) -> Iterator[tuple[int, object]]:
    """The events, each with its line.

    A list of events may be the whole document, or the value of its key `trajectory`, as in the
    files of OpenHands.
    """
    text = data.lstrip()
    if text.startswith(b"[") or _is_document(text):
        document = _parse(name, data, "")
        events = document.get("trajectory") if isinstance(document, Mapping) else document
        if not isinstance(events, list):
            raise InvalidTrajectory(f"{name} has no list of events")
        yield from enumerate(events, start=1)
        return
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield number, _parse(name, line, f", line {number}")


def _is_document(text: bytes) -> bool:
    """Whether the file is one JSON document instead of JSON lines."""
    first = text.partition(b"\n")[0]
    try:
        value = from_json(first)
    except BasculeError:
        return text.startswith(b"{") and b'"trajectory"' in text[:4096]
    return isinstance(value, Mapping) and isinstance(value.get("trajectory"), list)


def _parse(name: str, data: bytes, where: str) -> Any:
    try:
        return from_json(data)
    except BasculeError as error:
        raise InvalidTrajectory(f"{name}{where}: {error.message}") from error


def _is_masked_value(value: object) -> bool:
    if isinstance(value, str):
        return any(word in value for word in _MASK_TEXTS)
    if isinstance(value, Mapping):
        return any(map(_is_masked_value, value.values()))
    return isinstance(value, list) and any(map(_is_masked_value, value))


def _timestamp(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
