"""Cores kept busy for a while, each by an endless loop of normal priority."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spinning(*, spare: int = 0) -> Iterator[None]:
    """Keep all cores busy but `spare` of them; a loop stays on its core."""
    cores = sorted(os.sched_getaffinity(0))
    loops = [_loop_on(core) for core in cores[: len(cores) - spare]]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _loop_on(core: int) -> subprocess.Popen[bytes]:
    """It ends with us, however we end."""
    program = f"""
import os
os.sched_setaffinity(0, {{{core}}})
while os.getppid() == {os.getpid()}:
    for _ in range(1_000_000):
        pass
"""
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.DEVNULL)
