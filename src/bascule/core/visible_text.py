"""Shows invisible characters of untrusted text to a person who has to decide on it."""

from __future__ import annotations

import unicodedata
from typing import Final

_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


def visible(text: str) -> str:
    """`text` with every invisible character but space, tab and newline as `<U+200B>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_show_character(each) for each in text)


def _show_character(character: str) -> str:
    if character in " \t\n" or unicodedata.category(character) not in _INVISIBLE:
        return character
    return f"<U+{ord(character):04X}>"
