"""Run a command and write what it used to a file: `measure.py FILE SECONDS COMMAND...`.

A process that the tests start directly would count their own memory: the kernel carries the
highest memory of a process over `exec`, and a fork of a test process starts with all of it.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys


def main(file: str, seconds: int, command: list[str]) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    status = subprocess.run(command, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(file, "w") as written:
        json.dump({"seconds": used.ru_utime + used.ru_stime, "kib": used.ru_maxrss}, written)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
