"""Detects from where a shell reads its commands. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .syntax import Word

PARSED_SHELLS = frozenset({"bash", "sh", "dash"})
"""Shells whose text is parsed and decided on."""

SHELLS = PARSED_SHELLS | {"zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash"}

_HARMLESS_LETTERS = frozenset("ceuxvlfn")
_HARMLESS_LONG = frozenset({"--norc", "--noprofile", "--login", "--verbose"})
_LONG_WITH_FILE = frozenset({"--rcfile", "--init-file"})
_HARMLESS_SETTINGS = frozenset(
    {"errexit", "nounset", "xtrace", "verbose", "pipefail", "noglob", "noexec"}
)
_INPUT = re.compile(r"-|/dev/(?:stdin|fd/.*)|/proc/.*", re.DOTALL)


class Source(Enum):
    """Where a shell reads its commands from."""

    TEXT = "text"
    SCRIPT = "script"
    INPUT = "input"
    """The stdin of the shell: a pipe, a file, a here-document or the terminal."""
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class ShellCall:
    """One call of a shell. `text` is the word that it runs. `objections` are reasons for which the
    call needs approval in any case."""

    source: Source
    objections: Sequence[str] = ()
    text: Word | None = None


def read_shell(name: str, words: Sequence[Word]) -> ShellCall:
    """Read the call of a shell. `words` begins with its name."""
    objections: list[str] = []
    has_text = reads_input = False
    index = 1
    while index < len(words):
        text = words[index].text
        if text is None:
            return ShellCall(Source.UNCLEAR, ("a word of the shell is not known",))
        if text == "--":
            index += 1
            break
        if text in {"--version", "--help"}:
            return ShellCall(Source.SCRIPT)
        if len(text) < 2 or text[0] not in "-+":
            break
        index += 1
        if text.startswith("--"):
            if text not in _HARMLESS_LONG:
                objections.append(f"`{name} {text}` is not known to be harmless")
            index += text in _LONG_WITH_FILE
            continue
        # bash takes `+c` and `+s` for `-c` and `-s`.
        has_text = has_text or "c" in text
        reads_input = reads_input or "s" in text
        index += _read_letters(name, text, words[index : index + 1], objections)
    operand = words[index] if index < len(words) else None
    if has_text:
        if reads_input:
            objections.append(f"`{name} -s` is not known to be harmless")
        return ShellCall(Source.TEXT, objections, operand)
    if reads_input or operand is None:
        return ShellCall(
            Source.INPUT, objections + ["`-s` reads commands from the input"] * reads_input
        )
    if operand.text is None:
        return ShellCall(Source.UNCLEAR, ("the script of the shell is not known",))
    if _INPUT.fullmatch(operand.text):
        return ShellCall(Source.INPUT, (f"{operand.text} is the shell's input",))
    return ShellCall(Source.SCRIPT, objections)


def _read_letters(name: str, text: str, following: Sequence[Word], objections: list[str]) -> int:
    """Check the letters of one option word. Returns the number of further words they take."""
    takes = 0
    for letter in text[1:]:
        if letter == "o" and following and following[0].text in _HARMLESS_SETTINGS:
            takes = 1
        elif letter in "oO":
            takes = 1
            objections.append(f"the setting after `{name} {text}` is not known to be harmless")
        elif letter not in _HARMLESS_LETTERS and letter != "s":
            objections.append(f"`{name} -{letter}` is not known to be harmless")
    return takes
