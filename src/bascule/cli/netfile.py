"""Loads a net named on the command line, and prints its diagnostics."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bascule.core.printable import printable

if TYPE_CHECKING:
    from bascule.net import Loaded, Net

STDIN: Final = "stdin.evolve.yaml"
"""Default file name of a net on stdin."""


def load_named(file: str, name: str = STDIN) -> Loaded:
    """Load the file; for `-`, load stdin as if it were the file `name`."""
    from bascule.net import load, load_bytes

    return load_bytes(sys.stdin.buffer.read(), name) if file == "-" else load(file)


def read_net(path: Path, name: str = STDIN) -> Net | None:
    """The net, or None if it is invalid. Prints errors and warnings to stderr."""
    loaded = load_named(str(path), name)
    for diagnostic in loaded.diagnostics:
        print(printable(str(diagnostic)), file=sys.stderr)  # noqa: T201
    return loaded.net
