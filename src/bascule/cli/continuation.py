"""Tells whether a shell command is complete or continues on the next line."""

from __future__ import annotations

import shutil
import subprocess

_UNFINISHED = ("unexpected end of file", "unexpected EOF", "delimited by end-of-file")


def is_unfinished(command: str) -> bool:
    """Whether bash would wait for another line: an open quote, loop or heredoc, or a backslash at
    the end.

    Uses `bash -n`, which runs nothing. Without bash, every line counts as finished.
    """
    backslashes = len(command) - len(command.rstrip("\\"))
    if backslashes % 2:
        return True
    bash = shutil.which("bash")
    if bash is None or "\0" in command:
        return False
    checked = subprocess.run(
        [bash, "--norc", "-n"],
        input=command.encode(errors="replace"),
        capture_output=True,
        env={"LC_ALL": "C"},
        check=False,
    )
    errors = checked.stderr.decode(errors="replace")
    return any(sign in errors for sign in _UNFINISHED)
