"""The changes of a fork as they are sent, and the results, as JSON lines and JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bascule.checkpoints.versions import shown_path
from bascule.core.errors import InvalidRequest

from .merge_rules import Outcome, PathVersion

Choice = Literal["", "fork", "here"]
"""How to resolve a conflict. Empty: the conflict stays. fork: take the fork's version. here: keep
the workspace's version."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path that a fork changed."""

    path: str
    """Relative to the workspace, with slashes."""
    base: PathVersion | None
    theirs: PathVersion | None
    choice: Choice = ""


@dataclass(frozen=True, slots=True)
class PathResult:
    """The result of merging one change."""

    path: str
    outcome: Outcome | Literal["kept"]
    """The outcome as in `Merge`, or `kept`: the workspace's version was kept."""
    reason: str = ""
    lines: tuple[tuple[int, int], ...] = ()
    """First and last line of each region in conflict, in the workspace's version, from 1. If the
    fork only added lines there, the last line is one less than the first."""

    def to_json(self) -> dict[str, Any]:
        """The result as JSON. Bytes of the path that are not UTF-8 are escaped."""
        lines = [list(each) for each in self.lines]
        return {**asdict(self), "path": shown_path(self.path), "lines": lines}


def encode_changes(changes: Iterable[PathChange]) -> Iterator[bytes]:
    """One line of JSON for each change."""
    for each in changes:
        value = {
            "path": each.path,
            "base": _to_json(each.base),
            "theirs": _to_json(each.theirs),
            "choice": each.choice,
        }
        # ASCII: a lone surrogate, for a byte that is not UTF-8, cannot be encoded otherwise.
        yield json.dumps(value, ensure_ascii=True).encode() + b"\n"


def decode_changes(lines: Iterable[bytes]) -> Iterator[PathChange]:
    """Decode one change from each line. Raises `InvalidRequest` for a line that is not a change of
    a path in the workspace."""
    for line in lines:
        try:
            value = json.loads(line)
            change = PathChange(
                _ensure_inside(value["path"]),
                _from_json(value["base"]),
                _from_json(value["theirs"]),
                value["choice"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(f"Not a change of a path: {error}") from error
        yield change


def _ensure_inside(path: object) -> str:
    if not isinstance(path, str) or "\0" in path:
        raise ValueError("the path has to be text")
    parts = path.split("/")
    if any(part in ("", ".", "..", ".git") for part in parts):
        raise ValueError(f"{path!r} is not a path of a workspace")
    return path


def _to_json(version: PathVersion | None) -> Mapping[str, Any] | None:
    if version is None:
        return None
    content = base64.b64encode(version.content).decode()
    return {"kind": version.kind, "mode": version.mode, "content": content}


def _from_json(value: Mapping[str, Any] | None) -> PathVersion | None:
    if value is None:
        return None
    if value["kind"] not in ("file", "link", "directory"):
        raise ValueError(f"{value['kind']!r} is not a kind of file that can be written")
    content = base64.b64decode(value["content"], validate=True)
    return PathVersion(value["kind"], content, int(value["mode"]) & 0o777)
