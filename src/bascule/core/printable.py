"""Text of unknown origin, made safe for a terminal and for a line of a log."""

from __future__ import annotations

import re
from typing import Final

_HARMFUL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Control characters but for tab and newline, which escape sequences begin with, and those that
change the direction or the lines of a text."""


def printable(text: str) -> str:
    """`text` with such characters as escapes (`\\x1b`); lines and tabs stay as they are."""
    return _HARMFUL.sub(_escaped, text)


def one_line(text: str) -> str:
    """The same, with newlines and tabs as escapes too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
