"""Reduces terminal output to the text a person would see on the screen."""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements, modes
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|[ -/]*[0-~])"  # the rest: character sets, keypad modes
)
_CONTROL_CHARACTERS = re.compile(r"[\x00\x07\x0e\x0f]")


def readable(output: str) -> str:
    """`output` without escape sequences. Of an overwritten line, only the final state is kept."""
    if "\x1b" in output:
        output = _SEQUENCE.sub("", output)
    output = _CONTROL_CHARACTERS.sub("", output).replace("\r\n", "\n")
    if "\r" not in output:
        return output
    return "\n".join(_last_state(line) for line in output.split("\n"))


def _last_state(line: str) -> str:
    """The text of `line` after all carriage returns, as a progress bar uses them."""
    visible = ""
    for part in line.split("\r"):
        visible = part + visible[len(part) :]
    return visible
