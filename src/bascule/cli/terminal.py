"""Writes styles, tables and redrawn lines to a terminal, and plain text to other outputs."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Final, TextIO, TypeAlias
from unicodedata import east_asian_width

Cell: TypeAlias = "str | tuple[str, str]"
"""A text, or a text and its style. It may have several lines."""

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_MIN_COLUMNS: Final = 8
"""Minimum width of a folded cell in columns, even on a narrow terminal."""
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REDRAW_INTERVAL: Final = 0.1
"""Seconds between two drawings."""
_BAR_WIDTH: Final = 30
_CLEAR_LINE: Final = "\r\033[K"


class Terminal:
    """stdout or stderr, with styles if it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_interactive = stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        """Whether it is a terminal on which lines can be redrawn."""
        self._has_styles = self.is_interactive and not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None if lines may have any length."""
        return shutil.get_terminal_size().columns if self.is_interactive else None

    def styled(self, text: str, style: str) -> str:
        if not (self._has_styles and style and text):
            return text
        return f"\033[{_CODES[style]}m{text}\033[0m"

    def print(self, text: str = "") -> None:
        """Print a line without wrapping, so that addresses and commands can be copied."""
        print(text, file=self._stream, flush=True)

    def print_table(
        self, rows: Sequence[Sequence[Cell]], *, gap: int = 3, fold: Collection[int] = ()
    ) -> None:
        """Print aligned columns. If the terminal is too narrow, the columns `fold` are folded."""
        for line in self._lines_of(rows, gap, fold):
            self.print(line.rstrip())

    def _lines_of(
        self, rows: Sequence[Sequence[Cell]], gap: int, fold: Collection[int]
    ) -> Iterator[str]:
        texts = [[_parts(cell) for cell in row] for row in rows]
        widths = [
            max(columns(line) for text, _ in column for line in text.split("\n"))
            for column in zip(*texts, strict=True)
        ]
        self._shrink_columns(widths, gap, fold)
        for row in texts:
            folded = [_fold(text, width) for (text, _), width in zip(row, widths, strict=True)]
            for lines in zip_longest(*folded, fillvalue=""):
                cells = zip(lines, row, widths, strict=True)
                yield (" " * gap).join(
                    self.styled(line, style) + " " * (width - columns(line))
                    for line, (_, style), width in cells
                )

    def _shrink_columns(self, widths: list[int], gap: int, fold: Collection[int]) -> None:
        while self.width is not None and sum(widths) + gap * (len(widths) - 1) > self.width:
            widest = max(fold, key=lambda each: widths[each], default=0)
            if not fold or widths[widest] <= _MIN_COLUMNS:
                return
            widths[widest] -= 1


def stdout() -> Terminal:
    return Terminal(sys.stdout)


def stderr() -> Terminal:
    return Terminal(sys.stderr)


def columns(text: str) -> int:
    """The width of a line in columns. Wide East Asian characters take two columns."""
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


class LiveLines:
    """Lines at the end of stderr that are redrawn ten times a second, and removed at the end.

    Enter it only at an interactive terminal. A thread draws, so the caller may block. To print
    anything else while it is open, use `with hidden()`.
    """

    def __init__(self, lines: Callable[[], Sequence[str]]) -> None:
        self._lines = lines
        self._drawn = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._redraw, daemon=True)

    def __enter__(self) -> LiveLines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        with self._lock:
            self._remove()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        with self._lock:
            self._remove()
            yield

    def _redraw(self) -> None:
        while not self._stopped.wait(_REDRAW_INTERVAL):
            with self._lock:
                self._remove()
                width = shutil.get_terminal_size().columns - 1
                lines = [_fold(line, width)[0] for line in self._lines()]
                sys.stderr.write("".join(f"{line}\n" for line in lines))
                sys.stderr.flush()
                self._drawn = len(lines)

    def _remove(self) -> None:
        sys.stderr.write(f"\033[1A{_CLEAR_LINE}" * self._drawn)
        sys.stderr.flush()
        self._drawn = 0


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar on stderr if it is an interactive terminal.

    Call the yielded function with the number of done steps, their total and a short description.
    """
    if not stderr().is_interactive:
        yield lambda *_: None
        return
    began, state = time.monotonic(), (0, 0, "")

    def update(done: int, of: int, words: str) -> None:
        nonlocal state
        state = done, of, words

    def line() -> Sequence[str]:
        done, of, words = state
        filled = _BAR_WIDTH * done // of if of else 0
        bar = "━" * filled + "┄" * (_BAR_WIDTH - filled)
        return [f"{title} {bar} {done}/{of or '?'} {elapsed(began)} {words}".rstrip()]

    with LiveLines(line):
        yield update


def spinner() -> str:
    """The current character of the spinner animation."""
    return _FRAMES[int(time.monotonic() / _REDRAW_INTERVAL) % len(_FRAMES)]


def elapsed(began: float, ended: float | None = None) -> str:
    """Minutes and seconds between two times of `time.monotonic`; by default until now."""
    seconds = int((time.monotonic() if ended is None else ended) - began)
    return f"{seconds // 60}:{seconds % 60:02}"


def _parts(cell: Cell) -> tuple[str, str]:
    return (cell, "") if isinstance(cell, str) else cell


def _fold(text: str, width: int) -> list[str]:
    """The lines of `text`, none wider than `width`."""
    lines = []
    for line in text.split("\n"):
        rest = line
        while columns(rest) > width:
            end = len(rest)
            while columns(rest[:end]) > width and end > 1:
                end -= 1
            lines.append(rest[:end])
            rest = rest[end:]
        lines.append(rest)
    return lines
