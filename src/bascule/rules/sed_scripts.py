"""Finds the scripts of sed commands, and detects scripts that may run programs or write files. No
I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .syntax import Word

_ADDRESS = r"(?:[0-9]+|\$|/(?:\\[^\n]|[^/\\\n])+/I?)"
_PRINT = re.compile(
    rf"[ \t]*{_ADDRESS}(?:[ \t]*,[ \t]*(?:{_ADDRESS}|[+~][0-9]+))?[ \t]*[pdq][ \t]*"
)
# The delimiter is any printable ASCII character but a backslash.
_REPLACED = r"(?:\\[^\n]|(?!(?P=d))[^\\\n])*(?P=d)"
_SUBSTITUTION = re.compile(rf"[ \t]*s(?P<d>[ -\[\]-~]){_REPLACED}{_REPLACED}[giIp0-9]*[ \t]*")
_LONG_SCRIPT = re.compile(r"--e[a-z]*(?==|$)")
_SHORT_SCRIPT = re.compile("-[^-efil]*e")
_SCRIPT_FILE = re.compile(r"-[^-efil]*f|--fi[a-z]*(?==|$)")
_TAKES_LENGTH = re.compile("-[^-efil]*l|--l[a-z-]*")


def is_harmless_script(script: str) -> bool:
    """Whether a script is one address with `p`, `d` or `q`, or one `s` with harmless flags."""
    return bool(_PRINT.fullmatch(script) or _SUBSTITUTION.fullmatch(script))


def sed_scripts(words: Sequence[Word]) -> Sequence[tuple[int, str]]:
    """The scripts of a sed command, each after the position of the word that contains it.

    These are the scripts of `-e`, or the first operand if there is no `-e` and no `-f`. An unknown
    or missing script is empty.
    """
    scripts: list[tuple[int, str]] = []
    operands: list[int] = []
    has_file = False
    index = 1
    while index < len(words):
        text = words[index].text or ""
        if text == "--":
            operands.extend(range(index + 1, len(words)))
            break
        if not text.startswith("-") or text == "-":
            operands.append(index)
        elif option := _LONG_SCRIPT.match(text) or _SHORT_SCRIPT.match(text):
            script = text[option.end() :].removeprefix("=" if text.startswith("--") else "")
            if not script:
                index += 1
                script = _text_at(words, index)
            scripts.append((index, script))
        elif option := _SCRIPT_FILE.match(text):
            has_file = True
            index += option.end() == len(text)
        elif _TAKES_LENGTH.fullmatch(text):
            index += 1
        index += 1
    if scripts or has_file or not operands:
        return scripts
    return [(operands[0], _text_at(words, operands[0]))]


def _text_at(words: Sequence[Word], index: int) -> str:
    return (words[index].text or "") if index < len(words) else ""
