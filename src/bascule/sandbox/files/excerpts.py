"""Reads ranges of lines from text files without loading the rest of a large file."""

from __future__ import annotations

import os

from bascule.core.errors import BinaryFile, FileTooLarge

from .lines import skip_lines_in_file, slice_lines
from .paths import PinnedPath
from .storage import Storage, ensure_fits, read_up_to
from .textfile import SAMPLE, decode, is_wide, looks_binary


class Excerpts:
    """Reads lines from files of any size; one result has at most `limit` bytes.

    A file within the limit is loaded whole, and its encoding is detected from all of it. In a
    larger file the requested lines are found by counting newlines block by block. Only these lines
    are loaded, and the encoding is detected from them.
    """

    def __init__(self, storage: Storage, *, limit: int, advice: str) -> None:
        self._storage = storage
        self._limit = limit
        self._advice = advice

    def lines(self, place: PinnedPath, start: int, end: int) -> str:
        """Return lines `start` up to, not including, `end` with their line endings; 0-based. An
        `end` of -1 means the end of the file."""
        try:
            version = self._storage.load(place, limit=self._limit, advice=self._advice)
        except FileTooLarge:
            return self._part(place, start, end)
        return slice_lines(decode(version.data, place.shown).content, start, end)

    def _part(self, place: PinnedPath, start: int, end: int) -> str:
        with self._storage.reading(place) as (descriptor, found):
            sample = os.pread(descriptor, SAMPLE, 0)
            if looks_binary(sample):
                raise BinaryFile("ERROR_BINARY_FILE", path=place.shown)
            if (start, end) == (0, -1):
                ensure_fits(found.st_size, self._limit, place.shown, self._advice)
            if is_wide(sample):
                advice = "Convert it to UTF-8 first (`iconv`), or download it"
                ensure_fits(found.st_size, self._limit, place.shown, advice)
            first = skip_lines_in_file(descriptor, start)
            last = found.st_size
            if end >= 0:
                last = skip_lines_in_file(descriptor, end - start, start=first)
            if last - first > self._limit:
                raise FileTooLarge(
                    f"These lines of {place.shown} have {last - first:,} bytes, past the limit of"
                    f" {self._limit:,}. Ask for fewer",
                    size=last - first,
                )
            os.lseek(descriptor, first, os.SEEK_SET)
            data = read_up_to(descriptor, last - first, expected=last - first)
            return decode(data, place.shown).content
