"""Our own grep: searches lines below an open directory and prints matches as JSON lines.

It runs as a separate process because a regular expression can run forever while holding the GIL.
The parent kills the process at its deadline. The request is the only argument, as JSON.
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

from bascule.core.globs import compile_glob

from .linesearch import LineMatch, LineSearch
from .walk import walk_files

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def main(request: dict[str, Any]) -> None:
    # A pattern whose meaning will change in a later Python version is still valid today.
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
        with suppress(OSError):  # removed meanwhile or not readable: skipped, as ripgrep does
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
