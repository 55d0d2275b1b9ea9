"""Removes quotes from one word as bash does, and detects whether bash would expand it. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_ANSI_C = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})"
    r"|U(?P<long>[0-9A-Fa-f]{1,8})|(?P<letter>[abeEfnrtv\\'\"?]))"
)
_LETTERS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_BRACKETS = re.compile(r"\[[!^]?+.[^\]]*\]", re.DOTALL)
"""A bracket expression. A bracket right after the opening bracket is a member and does not close
the expression."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)


@dataclass
class Characters:
    """The characters of one word in order, each quoted or not. None stands for an expansion."""

    items: list[tuple[str | None, bool]] = field(default_factory=list)

    def quoted(self, text: str) -> None:
        self.items.extend((character, True) for character in text)

    def expansion(self, *, quoted: bool) -> None:
        self.items.append((None, quoted))

    def literal(self, source: str) -> None:
        """Add unquoted source text; a backslash quotes the next character."""
        characters = iter(source)
        for character in characters:
            if character != "\\":
                self.items.append((character, False))
                continue
            escaped = next(characters, "\\")
            if escaped != "\n":
                self.items.append((escaped, True))

    def double_quoted(self, source: str) -> None:
        """Add source text from double quotes; a backslash quotes only some characters."""
        self.quoted(re.sub(r'\\([$`"\\\n])', lambda m: m[1].replace("\n", ""), source))

    def ansi_c(self, source: str) -> None:
        """Add the text of `$'source'`. Escapes that are not plain text become an expansion."""
        decoded = _decode_ansi_c(source)
        if decoded is None:
            self.expansion(quoted=True)
        else:
            self.quoted(decoded)

    @property
    def text(self) -> str | None:
        """The word, or None if bash expands it."""
        if any(character is None for character, _ in self.items):
            return None
        if self._globs() or self._expands_braces() or self._has_tilde():
            return None
        return "".join(character or "" for character, _ in self.items)

    @property
    def prefix(self) -> str:
        """The text before the first character that bash may expand."""
        found = ""
        for character, quoted in self.items:
            if character is None or (not quoted and character in "*?[{~"):
                break
            found += character
        return found

    @property
    def unexpanded(self) -> str:
        """All text that bash does not expand by a `$`, a backtick or a process substitution."""
        return "".join(character or "" for character, _ in self.items)

    @property
    def is_split(self) -> bool:
        """Whether this word may expand to no word or to several words."""
        unquoted = any(character is None and not quoted for character, quoted in self.items)
        return unquoted or self._globs() or self._expands_braces()

    def _unquoted(self) -> Sequence[str]:
        return [" " if quoted or each is None else each for each, quoted in self.items]

    def _globs(self) -> bool:
        plain = self._unquoted()
        if "*" in plain or "?" in plain:
            return True
        return _BRACKETS.search("".join(plain)) is not None

    def _has_tilde(self) -> bool:
        plain = "".join(self._unquoted())
        if plain.startswith("~"):
            return True
        assignment = _ASSIGNMENT.match(plain)
        return assignment is not None and re.search("[=:]~", plain) is not None

    def _expands_braces(self) -> bool:
        plain = "".join(self._unquoted())
        if plain.count("{") != plain.count("}"):
            between = plain[plain.find("{") : plain.rfind("}") + 1]
            return between.startswith("{") and ("," in between or ".." in between)
        return any(re.search(r",|\.\.", inside) for inside in _brace_contents(plain))


def _brace_contents(plain: str) -> Iterator[str]:
    """The text between each pair of braces, without the text of inner pairs."""
    open_pairs: list[str] = []
    for character in plain:
        if character == "{":
            open_pairs.append("")
        elif character == "}":
            if open_pairs:
                yield open_pairs.pop()
        elif open_pairs:
            open_pairs[-1] += character


def _decode_ansi_c(source: str) -> str | None:
    found = []
    position = 0
    while position < len(source):
        if source[position] != "\\":
            found.append(source[position])
            position += 1
            continue
        escape = _ANSI_C.match(source, position)
        if escape is None:
            return None
        character = _decode_escape(escape)
        if character is None:
            return None
        found.append(character)
        position = escape.end()
    return "".join(found)


def _decode_escape(escape: re.Match[str]) -> str | None:
    """One decoded character; None for NUL, which ends the string, and for invalid characters."""
    if letter := escape["letter"]:
        return _LETTERS.get(letter, letter)
    is_byte = escape["octal"] or escape["hex"]
    code = (
        int(escape["octal"], 8)
        if escape["octal"]
        else int(is_byte or escape["short"] or escape["long"], 16)
    )
    if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000 or (is_byte and code > 0x7F):
        return None
    return chr(code)
