"""A net named on the command line, and what is wrong with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bascule.core.printable import printable

if TYPE_CHECKING:
    from bascule.net import Loaded, Net

STDIN: Final = "stdin.evolve.yaml"
"""What a net on stdin is called when nobody says."""


def load_named(file: str, name: str = STDIN) -> Loaded:
    """What the file holds; of `-`, what is on stdin, as if it were the file `name`."""
    from bascule.net import load, load_bytes

    return load_bytes(sys.stdin.buffer.read(), name) if file == "-" else load(file)


def read_net(path: Path, name: str = STDIN) -> Net | None:
    """The net, or None; what is wrong with the file, and what is odd about it, is on stderr."""
    loaded = load_named(str(path), name)
    for diagnostic in loaded.diagnostics:
        print(printable(str(diagnostic)), file=sys.stderr)  # noqa: T201
    return loaded.net
