"""What a terminal shows in the end, of all that was written to it."""

from __future__ import annotations

import re
from typing import Final

_PIECE: Final = re.compile(
    r"\x1b\[(?P<count>[0-9;?]*)(?P<verb>[A-Za-z])|\x1b\][^\x07]*\x07|\x1b[=>]|\r+\n|\r|\n|[^\x1b\r\n]+"
)
_UNFINISHED: Final = re.compile(r"(\r|\x1b(\[[0-9;?]*|\][^\x07]*)?)\Z")


class Screen:
    """Of a terminal without an end above: lines that programs wrote over are gone, colours too.

    It knows what our programs and a shell use: the beginning of the line, the lines above, and
    erasing to the end of a line or all of it.
    """

    def __init__(self) -> None:
        self._lines = [""]
        self._row = 0
        self._column = 0
        self._rest = ""

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines)

    def show(self, text: str) -> str:
        """Returns the text as it would be on paper: no controls, each new beginning on a line."""
        text = self._rest + text
        end = _UNFINISHED.search(text)
        self._rest = end[0] if end else ""
        plain = []
        for piece in _PIECE.finditer(text, 0, len(text) - len(self._rest)):
            if piece["verb"]:
                self._obey(piece["verb"], piece["count"])
            elif piece[0][0] in "\r\n":
                self._break(piece[0])
                plain.append("\n")
            elif piece[0][0] != "\x1b":
                self._write(piece[0])
                plain.append(piece[0])
        return "".join(plain)

    def _write(self, text: str) -> None:
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
        self._column += len(text)

    def _break(self, text: str) -> None:
        self._column = 0
        if text[-1] == "\n":
            self._row += 1
            if self._row == len(self._lines):
                self._lines.append("")

    def _obey(self, verb: str, count: str) -> None:
        if verb == "A":
            self._row = max(0, self._row - int(count or 1))
        elif verb == "K":
            kept = 0 if count == "2" else self._column
            self._lines[self._row] = self._lines[self._row][:kept]
