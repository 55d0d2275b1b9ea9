"""Unified diffs of the changes in a checkpoint."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

from .changes import Change
from .versions import Content, Version, shown_path


def diff_lines(change: Change, read: Callable[[Content], bytes]) -> Iterator[str]:
    """The lines of the diff of one path. `read` returns the bytes of a kept content."""
    path = shown_path(change.path)
    before, after = change.before, change.after
    if before is not None and after is not None and before.stat.mode != after.stat.mode:
        yield f"{path}: mode {before.stat.mode:o} became {after.stat.mode:o}"
    old_name = "/dev/null" if before is None else f"a/{path}"
    new_name = "/dev/null" if after is None else f"b/{path}"
    old, new = _lines(before, read), _lines(after, read)
    if old is None or new is None:
        yield f"{path}: a content was not kept"
        return
    try:
        old_text, new_text = ([line.decode() for line in lines] for lines in (old, new))
    except UnicodeDecodeError:
        yield f"Binary files {old_name} and {new_name} differ"
        return
    yield from difflib.unified_diff(old_text, new_text, old_name, new_name, lineterm="")


def _lines(version: Version | None, read: Callable[[Content], bytes]) -> list[bytes] | None:
    """The lines of a version; None if its content was not kept."""
    if version is None or not version.stat.has_content:
        return []
    if not version.content:
        return None
    content = read(version.content)
    return content.removesuffix(b"\n").split(b"\n") if content else []
