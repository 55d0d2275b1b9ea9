"""Splits a text into bash commands, as bash itself parses it."""

from __future__ import annotations

import subprocess
from typing import Final

_MOST_LINES: Final = 100
"""A longer text is taken for one; each line costs a start of bash."""


def commands_in(text: str) -> list[str]:
    """Blocks. The commands that stand on lines of their own, from the first to the last; the whole
    text where bash cannot read it. Nothing is run."""
    lines = text.strip().split("\n")
    if not 1 < len(lines) <= _MOST_LINES:
        return [text]
    found, begun = [], ""
    for line in lines:
        begun += line + "\n"
        if begun.strip() and _is_whole(begun):
            found.append(begun.strip())
            begun = ""
    return [text] if begun.strip() else found


def _is_whole(text: str) -> bool:
    """A text that goes on says so: an error, a here-document without an end, or a backslash."""
    if text.endswith("\\\n"):
        return False
    read = subprocess.run(
        ["/bin/bash", "--norc", "--noprofile", "-n"],
        input=text.encode(),
        capture_output=True,
        env={},
        check=False,
    )
    return read.returncode == 0 and not read.stderr
