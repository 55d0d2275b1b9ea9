"""Refuses command texts that a parser and bash may interpret differently. No I/O.

Both implementations of command rules, in Python and in the VS Code extension, apply this filter
before they trust their parser. `text_objection` checks single characters. The other functions
check the pieces that a parser has found: `${…}`, arithmetic and backticks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_CHARACTERS = 10_000

# The categories Cf, Zl, Zp and Zs of Unicode 17, and unpaired surrogates, which have no encoding.
# Written out, because each version of Python knows another version of Unicode.
_INVISIBLE = re.compile(
    "[\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f"
    "\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTINUATION = re.compile(r"\\+\n")
_PARAMETER = re.compile(r"#?(?:[A-Za-z_]\w*|\d+|[@*#?$!-])", re.ASCII)
_HARD_OPERAND = re.compile(r"['\"$`{}()]")
_NUMBER = r"(?:0[xX][0-9a-fA-F]+|\d+#[\w@]+|\d+)(?!\w)"
_NAME = r"[A-Za-z_]\w*+"
_PLAIN_ARITHMETIC = re.compile(rf"(?:\s|{_NUMBER}|{_NAME}|[-+*/%<>=!&|^~?:,()])*+", re.ASCII)
_EXPANSION = r"\$(?:\w+|[#?$!@*-]|\{[^{}]*\}|\(\([^()]*\)\))"
_PLAIN_OPERAND = re.compile(rf"[-+]?(?:{_NUMBER}|{_NAME}|{_EXPANSION})", re.ASCII)
_PLAIN_NAME = re.compile(_NAME, re.ASCII)
_ASSIGNING = re.compile(
    r"(?<!\w)([A-Za-z_]\w*+)\s*+(?:=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)|(?:\+\+|--)\s*+([A-Za-z_]\w*+)",
    re.ASCII,
)


def text_objection(text: str) -> str | None:
    """Why no parser can be trusted with this text, or None."""
    if len(text) > MAX_CHARACTERS:
        return f"the text is longer than {MAX_CHARACTERS:,} characters"
    for kind, pattern in (("control", _CONTROL), ("invisible", _INVISIBLE)):
        found = pattern.search(text)
        if found is not None:
            return f"the text has the {kind} character U+{ord(found[0]):04X}"
    return None


def continuations(text: str) -> Sequence[int]:
    """The positions at which a backslash before a newline may join two words.

    A single backslash after a blank joins nothing. An even number of backslashes does not escape
    the newline, except inside backticks, which remove one level of backslashes first. If the text
    ends with an odd number of backslashes, the position of the last backslash is also returned.
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
    if operand and (name[0] == "!" or name[0].startswith("#")):
        return "this form of ${…} is not understood"
    if _HARD_OPERAND.search(operand):
        return "${…} has quotes, dollars, backticks, braces or parentheses in its operand"
    if is_slice and not _PLAIN_ARITHMETIC.fullmatch(operand):
        return "${…} calculates with more than numbers and names"
    return None


def arithmetic_objection(inside: str) -> str | None:
    """Why an arithmetic expression is not understood, or None."""
    if _PLAIN_ARITHMETIC.fullmatch(inside):
        return None
    return "arithmetic with anything but numbers, plain names and operators is not understood"


def is_plain_operand(source: str) -> bool:
    """Whether the operand of `-eq` and so on is a number, a name or an expansion. bash evaluates
    the operand as arithmetic, in which `a[$(cmd)]` runs cmd even in quotes."""
    return _PLAIN_OPERAND.fullmatch(source.replace('"', "")) is not None


def is_plain_name(source: str) -> bool:
    """Whether the operand of `-v` is only a name. For an operand such as `a[$(cmd)]`, bash would
    run cmd."""
    return _PLAIN_NAME.fullmatch(source) is not None


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
