"""Reports an error as one sentence, or with a traceback if BASCULE_DEBUG is set."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping

from bascule.core.errors import AccessDenied, BasculeError, SandboxUnreachable, UsageError
from bascule.core.printable import printable

_ADVICE: Mapping[type[BasculeError], str] = {
    AccessDenied: " (set BASCULE_TOKEN to the hub's token, which `bascule token` prints on its "
    "machine; for a sandbox, set SESSION_API_KEY to its key)",
    SandboxUnreachable: "; start a sandbox with `bascule up --no-editor`, which prints its address",
}
"""Advice for users of the command line, added to the messages of these errors."""


def report(error: Exception) -> int:
    """Print the error to stderr and return the exit code.

    The exit code is 2 for a `UsageError` and 1 for other errors. BASCULE_DEBUG=1 prints the
    traceback instead of the sentence.
    """
    if os.environ.get("BASCULE_DEBUG"):
        traceback.print_exception(error)
    else:
        print(f"bascule: {printable(_sentence(error))}", file=sys.stderr)  # noqa: T201
    return 2 if isinstance(error, UsageError) else 1


def _sentence(error: Exception) -> str:
    if isinstance(error, BasculeError):
        has_advice = "; " in error.message
        return error.message + ("" if has_advice else _ADVICE.get(type(error), ""))
    cause = str(error) or "no message"
    return f"unexpected {type(error).__name__}: {cause} (set BASCULE_DEBUG=1 for the traceback)"
