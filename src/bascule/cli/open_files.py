"""How many files and connections a hub, and what it starts, may have open."""

from __future__ import annotations

import resource
from typing import Final

_ENOUGH: Final = 65536


def allow_many() -> None:
    """As many as the system lets us, within reason.

    The usual 1024 are for programs that count on it. Of a hub every tab of VS Code takes some ten:
    a few hundred connections, of one person, would be all there are for everybody.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
