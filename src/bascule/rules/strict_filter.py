"""Refuses command texts that a parser and bash may interpret differently. Pure.

Both implementations of command rules, in Python and in the VS Code extension, apply this filter
before they trust their parser. `text_objection` checks single characters. The other functions
check the pieces that a parser has found: `${…}`, arithmetic and backticks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_CHARACTERS = 10_000

_INVISIBLE = frozenset({"Cf", "Zl", "Zp", "Zs", "Cc", "Cs"})
_CONTINUATION = re.compile(r"\\+\n")
_PARAMETER = re.compile(r"#?(?:[A-Za-z_]\w*|\d+|[@*#?$!-])", re.ASCII)
_HARD_OPERAND = re.compile(r"['\"$`{}()]")
_PLAIN_ARITHMETIC = re.compile(r"[\w\s+\-*/%<>=!&|^~?:,()#]*", re.ASCII)
_ASSIGNING = re.compile(
    r"(?<!\w)([A-Za-z_]\w*+)\s*+(?:=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)|(?:\+\+|--)\s*+([A-Za-z_]\w*+)",
    re.ASCII,
)


def text_objection(text: str) -> str | None:
    """Why no parser can be trusted with this text, or None."""
    if len(text) > MAX_CHARACTERS:
        return f"the text is longer than {MAX_CHARACTERS:,} characters"
    for character in text:
        if character in " \t\n":
            continue
        category = unicodedata.category(character)
        if category in _INVISIBLE:
            kind = "control" if category == "Cc" else "invisible"
            return f"the text has the {kind} character U+{ord(character):04X}"
    return None


def continuations(text: str) -> Sequence[int]:
    """The positions at which a backslash before a newline may join two words.

    A single backslash after a blank joins nothing. An even number of backslashes does not escape
    the newline, except inside backticks, which remove one level of backslashes first. A backslash
    at the end of the text counts as well.
    """
    found = []
    for run in _CONTINUATION.finditer(text):
        backslashes = run.end() - run.start() - 1
        if backslashes % 2 == 0 and "`" not in text:
            continue
        after_blank = run.start() > 0 and text[run.start() - 1] in " \t"
        if backslashes > 1 or not after_blank or run.end() == len(text):
            found.append(run.end() - 2)
    trailing = len(text) - len(text.rstrip("\\"))
    if trailing % 2 == 1:
        found.append(len(text) - 1)
    return found


def parameter_objection(inside: str, *, is_slice: bool) -> str | None:
    """Why `${inside}` is not understood, or None."""
    name = _PARAMETER.match(inside)
    if name is None:
        return "this form of ${…} is not understood"
    operand = inside[name.end() :]
    if _HARD_OPERAND.search(operand):
        return "${…} has quotes, dollars, backticks, braces or parentheses in its operand"
    if is_slice and "[" in operand:
        return "a subscript is not understood"
    return None


def arithmetic_objection(inside: str) -> str | None:
    """Why an arithmetic expression is not understood, or None."""
    if _PLAIN_ARITHMETIC.fullmatch(inside):
        return None
    return "arithmetic with anything but numbers, plain names and operators is not understood"


def arithmetic_assignments(inside: str) -> Sequence[str]:
    """The names that an arithmetic expression assigns to."""
    return [before or after for before, after in _ASSIGNING.findall(inside)]


def backtick_objection(inside: str, *, nested: int) -> str | None:
    """Why the source between two backticks is not understood, or None.

    bash ends the substitution at the next unescaped backtick, even in quotes, in a here-document or
    in a comment. So every backtick inside must belong to one of the `nested` substitutions that the
    parser has found.
    """
    if re.search(r"\\[\\$\"]", inside):
        return "backticks with an escaped backslash, dollar or quote are not understood"
    if inside.count("`") != 2 * nested:
        return "a backtick inside backticks is not understood"
    if re.search(r"<<(?!<)", inside.replace("<<<", "")):
        return "a here-document in backticks is not understood"
    return None
