"""Paging of long results: the part that fits, and how to read the rest."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from bascule.core.errors import UsageError

PAGE_CHARACTERS: Final = 30_000
"""Maximum characters of one result."""
_HEAD_CHARACTERS: Final = 20_000
_NOTE_CHARACTERS: Final = 400
"""Characters reserved for the note about the rest."""
_MAX_KEPT_CHARACTERS: Final = 64 << 20
"""Maximum characters of all long results together that are kept for `read_more`."""


class Pages:
    """The long results of one client. When they are too long together, the oldest is dropped."""

    def __init__(self, *, kept: int = _MAX_KEPT_CHARACTERS) -> None:
        self._kept = kept
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._count = 0

    def fit(self, text: str, *, with_tail: bool) -> str:
        """`text` if it fits on one page, otherwise its beginning and a note on how to read the
        rest. `with_tail` adds the end of the text, where a program usually prints its error."""
        if len(text) <= PAGE_CHARACTERS:
            return text
        name = self._store_text(text)
        if not with_tail:
            return self.read(name, 0)
        tail = PAGE_CHARACTERS - _HEAD_CHARACTERS - _NOTE_CHARACTERS
        left_out = len(text) - _HEAD_CHARACTERS - tail
        note = (
            f"\n[… {left_out} of {len(text)} characters left out here. read_more with answer "
            f"{name!r} and offset {_HEAD_CHARACTERS} reads on from here.]\n"
        )
        return text[:_HEAD_CHARACTERS] + note + text[-tail:]

    def read(self, name: str, offset: int) -> str:
        """The page that starts at `offset`. Raises `UsageError` if the result was dropped."""
        if name not in self._texts:
            raise UsageError(
                f"The result {name!r} is no longer stored: only the latest long results are kept. "
                "Run the tool again with a smaller range"
            )
        text = self._texts[name]
        end = offset + PAGE_CHARACTERS - _NOTE_CHARACTERS
        if end >= len(text):
            return text[offset:]
        note = (
            f"\n[… characters {offset} to {end} of {len(text)}. read_more with answer {name!r} "
            f"and offset {end} reads on.]"
        )
        return text[offset:end] + note

    def _store_text(self, text: str) -> str:
        self._count += 1
        name = f"a{self._count}"
        self._texts[name] = text
        while sum(map(len, self._texts.values())) > self._kept and len(self._texts) > 1:
            self._texts.popitem(last=False)
        return name
