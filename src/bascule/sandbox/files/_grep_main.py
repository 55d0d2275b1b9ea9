"""Searches lines below an open directory and prints them as JSON: our own grep.

A process of its own, because a regular expression can run for ever and hold the interpreter while
it does; whoever started this ends it when time is up. The request is the only argument.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from .globs import compile_glob
from .linesearch import LineMatch, LineSearch
from .walk import walk_files

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def main(request: dict[str, Any]) -> None:
    # What will change its meaning in a later Python is still a valid expression.
    warnings.simplefilter("ignore", FutureWarning)
    try:
        lines = LineSearch(
            request["pattern"], literal=request["literal"], ignore_case=request["ignore_case"]
        )
    except (re.error, RecursionError, OverflowError) as error:
        _send({"error": str(error)})
        return
    for hit in _hits(request, lines):
        _send(asdict(hit))


def _hits(request: dict[str, Any], lines: LineSearch) -> Iterator[LineMatch]:
    if request["file"] is not None:
        yield from lines.search(request["file"], "")
        return
    include = compile_glob(request["include"]) if request["include"] else None
    for found in walk_files(request["directory"], include_ignored=request["include_ignored"]):
        subject = found.path if "/" in request["include"] else found.entry.name
        if include is not None and not include.fullmatch(subject):
            continue
        with suppress(OSError):  # gone or not ours to read, as ripgrep has it
            descriptor = os.open(found.entry.name, _FILE, dir_fd=found.directory)
            try:
                yield from lines.search(descriptor, found.path)
            finally:
                os.close(descriptor)


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
