"""Ends a run at its deadline even if the net's code blocks the event loop.

The run itself cancels code that awaits. For a loop that never awaits, a kernel timer sends a
signal, whose handler raises inside that code. C code that never returns to Python, and code that
catches everything, ends a few seconds later together with the process.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from .runner import Runner

_REPEAT_INTERVAL: Final = 1.0
"""Seconds until the handler raises again, in code that caught the exception."""
_GRACE_SECONDS: Final = 5.0
"""Seconds after the deadline until the process exits."""


@contextmanager
def run_watchdog(runner: Runner, timeout: float | None) -> Iterator[None]:
    """End `runner` after `timeout` seconds. Use it only in the main thread, around the whole
    run."""
    if timeout is None:
        yield
        return

    def expire(signum: int, frame: FrameType | None) -> None:
        del signum
        runner.expire(frame)

    before = signal.signal(signal.SIGALRM, expire)
    # This starts a C thread, which works while the interpreter is blocked. It prints the position
    # of the code.
    stderr = sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
    faulthandler.dump_traceback_later(timeout + _GRACE_SECONDS, exit=True, file=stderr)
    signal.setitimer(signal.ITIMER_REAL, timeout, _REPEAT_INTERVAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
