"""Decides how one path that a fork changed is merged. Pure functions.

The rules compare three versions of the path: `base`, when the fork was made; `theirs`, in the fork;
`ours`, in the workspace that was forked. A version is None if the path does not exist. `ours` is
replaced only if it equals `base`, or if its lines merge without a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .line_merge import LineConflict, TooManyLines, merge_lines

EntryKind = Literal["file", "link", "directory", "other"]
Outcome = Literal["taken", "merged", "same", "conflict"]
"""taken: the fork's version replaces the base's. merged: the lines of both were combined. same:
both made the same change. conflict: `ours` stays as it is."""

_MAX_MERGED_BYTES: Final = 4 << 20
"""Maximum bytes of each version whose lines are merged."""


@dataclass(frozen=True, slots=True)
class PathVersion:
    """A path at one moment."""

    kind: EntryKind
    content: bytes = b""
    """The bytes of a file, or the target of a link."""
    mode: int = 0
    """Permission bits of a file; 0 for other kinds."""

    @property
    def is_text(self) -> bool:
        return self.kind == "file" and b"\0" not in self.content


@dataclass(frozen=True, slots=True)
class Merge:
    """What to do with a path."""

    outcome: Outcome
    version: PathVersion | None = None
    """The new version for `taken` and `merged`; None: remove the path."""
    reason: str = ""
    """Why there is a conflict."""
    lines: Sequence[LineConflict] = ()
    """The regions that both sides changed, if lines were compared."""


def merge_versions(
    base: PathVersion | None, ours: PathVersion | None, theirs: PathVersion | None
) -> Merge:
    """Merge the change from `base` to `theirs` into `ours`."""
    if ours == theirs:
        return Merge("same", ours)
    if ours == base:
        return Merge("taken", theirs)
    if theirs == base:
        return Merge("same", ours)
    if base is None:
        return Merge("conflict", reason="added in both, with different contents")
    if ours is None:
        return Merge("conflict", reason="changed in the fork, removed here")
    if theirs is None:
        return Merge("conflict", reason="removed in the fork, changed here")
    return _merge_files(base, ours, theirs)


def _merge_files(base: PathVersion, ours: PathVersion, theirs: PathVersion) -> Merge:
    if {base.kind, ours.kind, theirs.kind} != {"file"}:
        return Merge("conflict", reason="changed in both, and not a regular file everywhere")
    mode = _merged_mode(base.mode, ours.mode, theirs.mode)
    if mode is None:
        return Merge("conflict", reason="the permissions were changed in both")
    if base.content in (ours.content, theirs.content) or ours.content == theirs.content:
        content = theirs.content if ours.content == base.content else ours.content
        return Merge("merged", PathVersion("file", content, mode))
    if not (base.is_text and ours.is_text and theirs.is_text):
        return Merge("conflict", reason="changed in both, and not a text file")
    if max(len(base.content), len(ours.content), len(theirs.content)) > _MAX_MERGED_BYTES:
        return Merge(
            "conflict", reason=f"changed in both, and larger than {_MAX_MERGED_BYTES >> 20} MiB"
        )
    try:
        merged = merge_lines(base.content, ours.content, theirs.content)
    except TooManyLines as error:
        return Merge("conflict", reason=f"changed in both, and {error}")
    if merged.content is None:
        return Merge(
            "conflict", reason="the same lines were changed in both", lines=merged.conflicts
        )
    return Merge("merged", PathVersion("file", merged.content, mode))


def _merged_mode(base: int, ours: int, theirs: int) -> int | None:
    if ours in (base, theirs):
        return theirs
    return ours if theirs == base else None
