"""Raises the limit of open files and connections of a hub or sandbox and its child processes."""

from __future__ import annotations

import resource
from typing import Final

_WANTED_LIMIT: Final = 65536


def raise_open_file_limit() -> None:
    """Raise the soft limit to the hard limit, up to 65536.

    The usual soft limit of 1024 is too low for a hub: each tab of VS Code uses about ten
    descriptors, so the tabs of one user could use up the descriptors of all users. A sandbox uses
    up to three for each program.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _WANTED_LIMIT)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
