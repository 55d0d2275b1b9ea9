"""A net named on the command line, and what is wrong with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bascule.net import Net


def read_net(path: Path) -> Net | None:
    """The net, or None; what is wrong with the file, and what is odd about it, is on stderr."""
    from bascule.net import load

    loaded = load(path)
    for diagnostic in loaded.diagnostics:
        print(diagnostic, file=sys.stderr)  # noqa: T201
    return loaded.net
