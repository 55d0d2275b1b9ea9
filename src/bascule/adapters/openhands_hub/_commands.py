"""Splits a text into bash commands, as bash itself parses it."""

from __future__ import annotations

import subprocess
from typing import Final

_MAX_LINES: Final = 100
"""A text with more lines counts as one command, because each line starts a bash process."""


def commands_in(text: str) -> list[str]:
    """Split `text` into commands that start on separate lines. Runs no command.

    Returns the whole text if bash cannot parse it. Blocks the calling thread.
    """
    lines = text.strip().split("\n")
    if not 1 < len(lines) <= _MAX_LINES:
        return [text]
    found, pending = [], ""
    for line in lines:
        pending += line + "\n"
        if pending.strip() and _is_complete(pending):
            found.append(pending.strip())
            pending = ""
    return [text] if pending.strip() else found


def _is_complete(text: str) -> bool:
    """Whether `text` is complete. Incomplete text ends with a backslash, or makes bash report an
    error or an unfinished here-document."""
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
