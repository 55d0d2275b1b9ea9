"""The review of agents' changes in a fake window: texts in memory, no files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from bascule.core.errors import BasculeError, EditConflict
from bascule.wire import error_to_wire


@dataclass(slots=True)
class FakeReviewedFile:
    """A file's current lines (`text`), and its lines without the pending changes of agents
    (`base`)."""

    base: Sequence[str]
    text: Sequence[str]
    agents: Sequence[str]

    @property
    def hunks(self) -> Sequence[tuple[int, int, int, int]]:
        matcher = SequenceMatcher(None, self.base, self.text, autojunk=False)
        return [place for tag, *place in matcher.get_opcodes() if tag != "equal"]  # type: ignore[misc]

    @property
    def version(self) -> str:
        return hashlib.sha256(repr((self.base, self.text)).encode()).hexdigest()[:32]


class FakeReview:
    """Pending changes by file name. `publish` sends the list to the hub after each change."""

    def __init__(self, publish: Callable[[Mapping[str, Any]], None]) -> None:
        self.files: dict[str, FakeReviewedFile] = {}
        self._publish = publish

    def wrote(self, name: str, before: str, after: str, *, agent: str = "helper") -> None:
        """An agent changed a file. `before` is used only for a file without pending changes."""
        known = self.files.get(name)
        base = known.base if known else before.splitlines()
        agents = {*(known.agents if known else ()), agent}
        self.files[name] = FakeReviewedFile(base, after.splitlines(), sorted(agents))
        self._publish(self.listed())

    def text(self, name: str) -> str:
        return "\n".join(self.files[name].text)

    def listed(self) -> Mapping[str, Any]:
        return {"files": [self._summary(name) for name in self._pending()], "more": 0}

    def show(self, request: Mapping[str, Any]) -> object:
        """Answer `review.show`."""
        try:
            _, file = self._find(request)
        except BasculeError as error:
            return {"error": error_to_wire(error)}
        hunks = [
            {
                "line": start + 1,
                "removed": file.base[base_start:base_end],
                "added": file.text[start:end],
                "is_whole": True,
            }
            for base_start, base_end, start, end in file.hunks
        ]
        return {"value": {"hunks": hunks, "more": 0}}

    def answer(self, request: Mapping[str, Any]) -> object:
        """Answer `review.answer`. If one of the files has another version, no file is changed."""
        try:
            found = [(self._find(each)[1], each.get("hunk")) for each in request["files"]]
        except BasculeError as error:
            return {"error": error_to_wire(error)}
        for file, number in found:
            hunks = file.hunks if number is None else [file.hunks[number]]
            if request["answer"] == "keep":
                file.base = _replaced(
                    file.base,
                    (
                        (base_start, base_end, file.text[start:end])
                        for base_start, base_end, start, end in hunks
                    ),
                )
            else:
                file.text = _replaced(
                    file.text,
                    (
                        (start, end, file.base[base_start:base_end])
                        for base_start, base_end, start, end in hunks
                    ),
                )
        self._publish(self.listed())
        return {"value": {"done": len(found)}}

    def _pending(self) -> Iterable[str]:
        return sorted(name for name, file in self.files.items() if file.hunks)

    def _find(self, target: Mapping[str, Any]) -> tuple[str, FakeReviewedFile]:
        for name in self._pending():
            file = self.files[name]
            if (_id_of(name), file.version) == (target["file"], target["version"]):
                return name, file
        raise EditConflict("A file has changed since this was shown. Nothing was done")

    def _summary(self, name: str) -> Mapping[str, Any]:
        file = self.files[name]
        return {
            "id": _id_of(name),
            "version": file.version,
            "name": name,
            "agents": list(file.agents),
            "change": "changed",
            "hunks": len(file.hunks),
            "added": sum(end - start for _, _, start, end in file.hunks),
            "removed": sum(end - start for start, end, _, _ in file.hunks),
        }


def _replaced(
    lines: Sequence[str], replacements: Iterable[tuple[int, int, Sequence[str]]]
) -> Sequence[str]:
    """`lines` after the replacements: first line, end, and new lines. They are in order."""
    result = list(lines)
    for start, end, new_lines in reversed(list(replacements)):
        result[start:end] = new_lines
    return result


def _id_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]
