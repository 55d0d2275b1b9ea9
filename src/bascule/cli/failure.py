"""How a failure is told: one sentence, or the traceback for those who ask for it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping

from bascule.core.errors import AccessDenied, BasculeError, SandboxUnreachable, UsageError
from bascule.core.printable import printable

_WAYS_OUT: Mapping[type[BasculeError], str] = {
    AccessDenied: " (set BASCULE_TOKEN to the hub's token, which `bascule token` prints on its "
    "machine; for a sandbox, set SESSION_API_KEY to its key)",
    SandboxUnreachable: "; start a sandbox with `bascule up --no-editor`, which prints its address",
}
"""What to do, where the error itself cannot know that a person at a command line asks."""


def report(error: Exception) -> int:
    """Tell it on stderr; returns the status to exit with.

    2 when asking differently helps, 1 for the rest. BASCULE_DEBUG=1 shows the traceback instead
    of the sentence.
    """
    if os.environ.get("BASCULE_DEBUG"):
        traceback.print_exception(error)
    else:
        print(f"bascule: {printable(_sentence(error))}", file=sys.stderr)  # noqa: T201
    return 2 if isinstance(error, UsageError) else 1


def _sentence(error: Exception) -> str:
    if isinstance(error, BasculeError):
        has_its_own = "; " in error.message
        return error.message + ("" if has_its_own else _WAYS_OUT.get(type(error), ""))
    cause = str(error) or "no message"
    return f"unexpected {type(error).__name__}: {cause} (set BASCULE_DEBUG=1 for the traceback)"
