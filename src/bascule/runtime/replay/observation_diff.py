"""Compares two observations, ignoring values that differ on every run. Pure rules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

MASK: Final = "***"
"""The text that replaces a secret in a record."""
_MASKS: Final = re.compile(r"[ \t]*" + re.escape(MASK))
_WORKSPACE: Final = "<workspace>"
_MONTH: Final = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DATE: Final = rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)?{_MONTH} +\d\d? +"
_CLOCK: Final = r"\d\d?:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AP]M)?"

_VARYING: Final = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b0x[0-9a-f]{6,16}\b", "<address>"),
        (rf"\b\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?", "<time>"),
        (rf"\b{_DATE}(?:{_CLOCK}(?: [A-Z]{{3,4}})? +)?\d{{4}}\b", "<time>"),
        (rf"\b{_DATE}{_CLOCK}", "<time>"),
        (r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b", "<time>"),
        (r"\b\d+m\d+[.,]\d+s\b", "<duration>"),
        (r"\b\d+\.\d+ ?(?:s|secs?|seconds?|minutes?)\b", "<duration>"),
        (r"\b\d+(?:\.\d+)? ?(?:ms|µs|us|ns|milliseconds?|microseconds?)\b", "<duration>"),
        (r"(?m)^(\[\d+\][+-]?) \d+$", r"\1 <pid>"),
        (r"(?i)\b(pid)([ =:]+)\d+", r"\1\2<pid>"),
        (r"/tmp/tmp\.?\w{6,}", "<temporary>"),  # noqa: S108 - looked for, not used
        (r"\b(localhost|127\.0\.0\.1|0\.0\.0\.0):\d{4,5}\b", r"\1:<port>"),
    )
)
_IGNORED_EXTRAS: Final = frozenset(
    {"metadata", "thought", "impl_source", "_diff_cache", "hidden", "trigger_by_action"}
    | {"command", "code"}
    | {"screenshot", "screenshot_path", "set_of_marks", "dom_object", "axtree_object"}
    | {"extra_element_properties", "focused_element_bid", "last_browser_action"}
    | {"goal_image_urls", "image_urls", "open_pages_urls", "active_page_index"}
)
"""Extras that describe the request, its execution or its display, but not its result."""
_METADATA: Final = ("exit_code", "state", "timed_out", "working_dir", "error_name")
_SORTED: Final = {"glob": ("paths",), "grep": ("matches",)}
"""Lists whose order depends on when files were changed or found; they are sorted first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the recorded and the new observation."""

    what: str
    """The part that differs: `content`, `exit_code` and so on."""
    was: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationDiff:
    """Compares observations. `root_was` and `root_now` count as the same directory. With `exact`,
    no other difference is ignored."""

    root_was: str = ""
    root_now: str = ""
    exact: bool = False

    def differences(
        self, was: Mapping[str, Any], now: Mapping[str, Any], *, is_masked: bool = False
    ) -> list[Difference]:
        """The differences between two observations, as events. Masked secrets match any text."""
        return [
            Difference(what, before, after)
            for what, before, after in self._pairs(was, now)
            if before != after and not (is_masked and _matches_masked(before, after))
        ]

    def relocate(self, value: Any) -> Any:
        """An argument of an action with the recorded root replaced by the current one."""
        if isinstance(value, str):
            return _replace_path(value, self.root_was, self.root_now)
        if isinstance(value, Mapping):
            return {name: self.relocate(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.relocate(each) for each in value]
        return value

    def _pairs(
        self, was: Mapping[str, Any], now: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, str]]:
        """The name, recorded text and new text of each part to compare."""
        kind = str(now.get("observation"))
        yield "observation", str(was.get("observation")), kind
        before, after = self._recorded_text, self._new_text
        yield "content", before(_content(was, kind)), after(_content(now, kind))
        if was.get("observation") != now.get("observation"):
            return
        extras_was, extras_now = _extras(was), _extras(now)
        for name in extras_was.keys() & extras_now.keys() - _IGNORED_EXTRAS:
            value_was = _value(extras_was[name], kind, name)
            value_now = _value(extras_now[name], kind, name)
            yield name, before(value_was), after(value_now)
        for name in _METADATA:
            metadata_was, metadata_now = _metadata(extras_was), _metadata(extras_now)
            if metadata_was.get(name) is not None and name in metadata_now:
                yield name, before(str(metadata_was[name])), after(str(metadata_now[name]))

    def _recorded_text(self, text: str) -> str:
        return self._normalize(_replace_path(text, self.root_was, _WORKSPACE))

    def _new_text(self, text: str) -> str:
        return self._normalize(_replace_path(text, self.root_now, _WORKSPACE))

    def _normalize(self, text: str) -> str:
        if self.exact:
            return text
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        lines = text.replace("\r\n", "\n").split("\n")
        return "\n".join(line.rstrip() for line in lines).strip("\n")


def _replace_path(text: str, old: str, new: str) -> str:
    """`text` with the path `old` replaced by `new`, where `old` is a whole path or a parent
    directory of one."""
    if not old or old == new or old not in text:
        return text
    return re.sub(rf"(?<![\w./-]){re.escape(old)}(?![\w-])", lambda _: new, text)


def _matches_masked(masked: str, text: str) -> bool:
    """Whether `text` is `masked` with each mask replaced by some text, which may be empty."""
    # `_MASKS` includes spaces before a mask: `_normalize` strips them from `text` at a line's end.
    first, *rest = _MASKS.split(masked)
    if not rest or not text.startswith(first):
        return False
    position = len(first)
    for part in rest[:-1]:
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) >= position


def _content(event: Mapping[str, Any], kind: str) -> str:
    text = str(event.get("content", ""))
    return "\n".join(sorted(text.split("\n"))) if kind in _SORTED else text


def _extras(event: Mapping[str, Any]) -> Mapping[str, Any]:
    extras = event.get("extras")
    return extras if isinstance(extras, Mapping) else {}


def _metadata(extras: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = extras.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _value(value: object, kind: str, name: str) -> str:
    if kind == "list" and name == "entries" and isinstance(value, list):
        value = [_comparable_entry(each) for each in value]
    if name in _SORTED.get(kind, ()) and isinstance(value, list):
        value = sorted(value, key=_to_json)
    return value if isinstance(value, str) else _to_json(value)


def _comparable_entry(entry: object) -> object:
    """A directory entry without its time, and without the size of a directory."""
    if not isinstance(entry, Mapping):
        return entry
    left_out = {"modified", "size"} if entry.get("type") == "directory" else {"modified"}
    return {name: value for name, value in entry.items() if name not in left_out}


_to_json: Callable[[object], str] = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, indent=1
).encode
