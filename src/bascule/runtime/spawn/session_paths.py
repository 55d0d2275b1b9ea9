"""Paths and user names inside a session, the same for every kind of spawner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORKSPACE: Final = "/workspace"
HOME: Final = "/home/bascule"
RUN_DIR: Final = "/run/bascule"
STATE_DIR: Final = "/var/lib/bascule"
HUB_DIR: Final = "/run/hub"
"""Where the directory with the hub's socket for this session appears."""
EGRESS_DIR: Final = "/run/egress"
VSCODE: Final = "/run/vscode"
"""Where a session sees the host's VS Code and its extensions, if the host shares them."""
USER: Final = "bascule"
ROOT: Final = "root"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def home_of(user: str) -> str:
    return "/root" if user == ROOT else f"/home/{user}"


def account_files(uid: int, gid: int, user: str = USER) -> Mapping[str, str]:
    """`passwd` and `group` files that give the session's user and group ids a name."""
    home = home_of(user)
    passwd_line = f"{user}:x:{uid}:{gid}:{user}:{home}:/bin/bash\n"
    root = "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    return {
        "passwd": root + passwd_line + nobody
        if uid != 0
        else f"root:x:0:0:root:{home}:/bin/bash\n" + nobody,
        "group": f"root:x:0:\n{user}:x:{gid}:\nnogroup:x:65534:\n"
        if gid != 0
        else "root:x:0:\nnogroup:x:65534:\n",
    }
