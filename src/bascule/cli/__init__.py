"""The command line: one file per command.

The only room that reads argv and the environment, configures logging and turns errors into exit
codes. Imports are late on purpose: `bascule --help` and the start of a sandbox should not wait for
libraries they do not use.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `failure.report` has what they mean."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _allow_any_encoding()
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the edge of the program
        from .failure import report

        return report(error)


def _allow_any_encoding() -> None:
    """A terminal or pipe that has no ✓ shows an escape in its place; it is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if arguments[:1] == ["complete"]:
        from .completion import complete

        return complete(arguments[1:])
    if arguments[:1] == ["sandbox"]:
        from .sandbox import sandbox

        return sandbox(arguments[1:])
    if arguments[:1] in (["debug-adapter"], ["debuggee"]):
        from .debug_adapter import debug_adapter, debuggee

        verb = debug_adapter if arguments[0] == "debug-adapter" else debuggee
        return verb(arguments[1:])
    from .app import run

    return run(arguments)
