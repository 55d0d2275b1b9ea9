"""The cgroups of this machine, while others come and go beside ours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def groups_named(name: str) -> Sequence[Path]:
    """In every hierarchy there is."""
    return [Path(top, name) for top, below, _ in os.walk(CGROUPS) if name in below]


def members_of(name: str) -> set[int]:
    """Processes in groups of that name, as this machine numbers them."""
    found: set[int] = set()
    for group in groups_named(name):
        with suppress(OSError):
            found |= {int(line) for line in (group / "cgroup.procs").read_text().split()}
    return found - {0}
