"""Run commands of Bascule and report what each one used: `measure.py SECONDS ARGUMENT...`.

First runs `bascule ARGUMENT...` in this process, so that the modules are loaded. Then it reads a
JSON list of arguments per line from stdin, runs `bascule` with them in a fork, and writes a line of
JSON with the exit status, the output, the seconds of CPU and the highest memory of the fork. The
kernel ends a fork that uses more CPU than SECONDS.

A fork starts with the memory of its parent, so the tests do not fork themselves.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import IO

from bascule.cli import main as bascule

_MAX_ADDRESSES = 3 << 30


def main(seconds: int, first: Sequence[str]) -> None:
    with redirect_stdout(sys.stderr):
        bascule(first)
    for line in sys.stdin:
        with tempfile.TemporaryFile() as output:
            measured = _measure(json.loads(line), seconds, output)
        sys.stdout.write(f"{json.dumps(measured)}\n")
        sys.stdout.flush()


def _measure(arguments: Sequence[str], seconds: int, output: IO[bytes]) -> dict[str, object]:
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESSES, _MAX_ADDRESSES))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        sys.exit(bascule(arguments))
    _, status, used = os.wait4(pid, 0)
    output.seek(0)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "output": output.read().decode(),
        "seconds": used.ru_utime + used.ru_stime,
        "kib": used.ru_maxrss,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
