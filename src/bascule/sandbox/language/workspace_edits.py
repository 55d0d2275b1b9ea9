"""Reads the edits that a language server computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bascule.core.errors import EditInvalid, InvalidPath

from .lookup_items import path_of
from .text_positions import Range, TextEdit, TextLines, with_edits

Edit = Mapping[str, Any]


@dataclass(slots=True)
class FileEdits:
    """The edits of one file."""

    path: str
    edits: list[Edit] = field(default_factory=list)
    is_new: bool = False

    def applied_to(self, text: str) -> str:
        lines = TextLines(text)
        return with_edits(
            text,
            [
                TextEdit(
                    lines.offset(each["range"]["start"]),
                    lines.offset(each["range"]["end"]),
                    each["newText"],
                )
                for each in self.edits
            ],
        )


def read_workspace_edit(edit: Edit | None) -> list[FileEdits]:
    """The edits by file. Raises `EditInvalid` for changes other than edits and new files."""
    found: dict[str, FileEdits] = {}
    for change in _changes(edit or {}):
        if "textDocument" in change:
            _of(found, change["textDocument"]["uri"]).edits += change["edits"]
        elif change.get("kind") == "create":
            _of(found, change["uri"]).is_new = True
        else:
            raise EditInvalid(
                f"The language server wants to {change.get('kind', 'change')} files, which is not "
                "supported here; nothing was changed. Do it in a shell"
            )
    return [each for each in found.values() if each.edits or each.is_new]


def joined_edits(edits: Sequence[Edit]) -> list[FileEdits]:
    """Several edits for the same texts, as one. Raises `EditInvalid` if two of them overlap."""
    joined: dict[str, FileEdits] = {}
    for each in (file for edit in edits for file in read_workspace_edit(edit)):
        whole = joined.setdefault(each.path, FileEdits(each.path))
        if any(_overlap(one, other) for one in whole.edits for other in each.edits):
            raise EditInvalid(
                f"The language server sent edits of {each.path} that overlap; nothing was changed. "
                "Do it in a shell"
            )
        whole.edits += each.edits
        whole.is_new = whole.is_new or each.is_new
    return list(joined.values())


def text_edits(path: str, edits: Sequence[Edit] | None) -> list[FileEdits]:
    """Edits of one file, such as those of a formatter."""
    return [FileEdits(path, list(edits))] if edits else []


def _changes(edit: Edit) -> Iterable[Edit]:
    if edit.get("documentChanges") is not None:
        return list(edit["documentChanges"])
    changes = (edit.get("changes") or {}).items()
    return [{"textDocument": {"uri": uri}, "edits": edits} for uri, edits in changes]


def _overlap(one: Edit, other: Edit) -> bool:
    """Whether both edits replace the same characters. Two insertions at one position do not."""
    (start, end), (other_start, other_end) = _ends(one["range"]), _ends(other["range"])
    return max(start, other_start) < min(end, other_end)


def _ends(found: Range) -> tuple[tuple[int, int], tuple[int, int]]:
    start, end = found["start"], found["end"]
    return (start["line"], start["character"]), (end["line"], end["character"])


def _of(found: dict[str, FileEdits], uri: str) -> FileEdits:
    path = path_of(uri)
    if path is None:
        raise InvalidPath(f"{uri} is not a file; nothing was changed")
    return found.setdefault(path, FileEdits(path))
