"""Searches a log: `python -I -S _search_main.py FD START LIMIT PATTERN`, matches as JSON on stdout.

It runs as a separate process because a regular expression can run forever, blocks all threads
meanwhile, and cannot be interrupted otherwise. It imports nothing from the package.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator

_READ = 1 << 20
_MAX_LINE = 4096


def search(fd: int, start: int, limit: int, pattern: bytes) -> list[tuple[int, str]]:
    wanted = re.compile(pattern)
    found: list[tuple[int, str]] = []
    for offset, line in lines(fd, start):
        if wanted.search(line):
            found.append((offset, line[:_MAX_LINE].decode(errors="replace")))
            if len(found) >= limit:
                break
    return found


def lines(fd: int, start: int) -> Iterator[tuple[int, bytes]]:
    at, rest = start, b""
    while data := os.pread(fd, _READ, at + len(rest)):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield at, line
            at += len(line) + 1
        if len(rest) > _READ:  # an endless line: search it in pieces
            yield at, rest
            at, rest = at + len(rest), b""
    if rest:
        yield at, rest


if __name__ == "__main__":
    fd, start, limit = map(int, sys.argv[1:4])
    print(json.dumps(search(fd, start, limit, os.fsencode(sys.argv[4]))))  # noqa: T201
