"""Reads ranges of lines from text files without loading the rest of a large file."""

from __future__ import annotations

import os

from bascule.core.errors import BinaryFile, FileTooLarge

from .lines import skip_lines_in_file, slice_lines
from .paths import PinnedPath
from .storage import Storage, ensure_fits, read_up_to
from .textfile import SAMPLE_BYTES, decode, is_wide, looks_binary


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

    def lines(self, pinned: PinnedPath, start: int, end: int) -> str:
        """Return the lines from `start` up to, but not including, `end`, with their line endings.

        Line numbers start at 0. An `end` of -1 means the end of the file.
        """
        try:
            version = self._storage.load(pinned, limit=self._limit, advice=self._advice)
        except FileTooLarge:
            return self._part(pinned, start, end)
        return slice_lines(decode(version.data, pinned.shown_path).content, start, end)

    def _part(self, pinned: PinnedPath, start: int, end: int) -> str:
        with self._storage.reading(pinned) as (descriptor, file_stat):
            sample = os.pread(descriptor, SAMPLE_BYTES, 0)
            if looks_binary(sample):
                raise BinaryFile("ERROR_BINARY_FILE", path=pinned.shown_path)
            if (start, end) == (0, -1):
                ensure_fits(file_stat.st_size, self._limit, pinned.shown_path, self._advice)
            if is_wide(sample):
                advice = "Convert it to UTF-8 first (`iconv`), or download it"
                ensure_fits(file_stat.st_size, self._limit, pinned.shown_path, advice)
            first = skip_lines_in_file(descriptor, start)
            last = file_stat.st_size
            if end >= 0:
                last = skip_lines_in_file(descriptor, end - start, start=first)
            if last - first > self._limit:
                raise FileTooLarge(
                    f"These lines of {pinned.shown_path} have {last - first:,} bytes, past the "
                    f"limit of {self._limit:,}. Ask for fewer",
                    size=last - first,
                )
            os.lseek(descriptor, first, os.SEEK_SET)
            data = read_up_to(descriptor, last - first, expected=last - first)
            return decode(data, pinned.shown_path).content
