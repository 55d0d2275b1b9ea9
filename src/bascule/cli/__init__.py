"""The command line: one file per command.

Only this package reads argv and the environment, configures logging and turns errors into exit
codes. Modules are imported late, so that `bascule --help` and the start of a sandbox do not load
libraries they do not use.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `failure.report` lists the codes of errors."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _allow_any_encoding()
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        from bascule.core.extras import missing_extra

        from .failure import report

        return report(missing_extra(error))
    except Exception as error:  # noqa: BLE001 - the edge of the program
        from .failure import report

        return report(error)


def _allow_any_encoding() -> None:
    """Write characters that the output cannot encode, such as ✓, as escapes."""
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
