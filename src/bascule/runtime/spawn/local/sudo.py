"""A `sudo` that makes a session's user root inside the session only.

Such a session has a user namespace with two users: its own, and UID 0. Both have a UID that is
leased to this session alone. The second user has root's rights over the files and processes of both
(chown, read, kill), and no rights over anything else: the host's files that a session sees belong
to nobody in the namespace. `sudo` runs a copy of setpriv(1) with the set-user-ID bit. The copy is
on a mount where the bit takes effect; all other mounts of a session are `nosuid`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import Final

HOME: Final = "/root"
"""Root's home. If the session sees files below it, other users may pass through the directory but
not list it."""
PLACE: Final = "/run/sudo"

_BECOME: Final = "become"
_OPTIONS: Final = b"mode=0755,size=4m"
_MS_RDONLY: Final = 0x1
_MS_NOSUID: Final = 0x2
_MS_NODEV: Final = 0x4
_MS_REMOUNT: Final = 0x20
_MS_BIND: Final = 0x1000
_SCRIPT: Final = f"""\
#!/bin/sh
# Run a command as root of this session, or as the user behind -u. Nobody is asked for a password.
user=root
while :; do
    case ${{1-}} in
    -u | --user) user=$2; shift 2 ;;
    -[EHnSkb] | --preserve-env* | --set-home | --non-interactive | --stdin) shift ;;
    -v | --validate) exit 0 ;;
    -i | -s | --login | --shell) shift; [ $# != 0 ] || set -- /bin/bash ;;
    --) shift; break ;;
    -*) echo "sudo: $1 is not supported here; use -u USER and a command" >&2; exit 1 ;;
    *=*) export "$1"; shift ;;
    *) break ;;
    esac
done
[ $# != 0 ] || {{ echo "usage: sudo [-u USER] [NAME=VALUE] COMMAND" >&2; exit 1; }}
home=$(getent passwd "$user" | cut -d: -f6) && [ -n "$home" ] ||
    {{ echo "sudo: there is no user $user here" >&2; exit 1; }}
export SUDO_USER="$(id -un)" USER="$user" LOGNAME="$user" HOME="$home"
exec {PLACE}/{_BECOME} --reuid "$user" --regid "$user" --clear-groups -- "$@"
"""

_libc = ctypes.CDLL(None, use_errno=True)


def is_available() -> bool:
    """Whether setpriv exists and set-user-ID bits take effect."""
    return bool(_setpriv()) and "NoNewPrivs:\t0" in Path("/proc/self/status").read_text()


def install(root: int) -> None:
    """Install `sudo`, in the session's mount namespace and with the rights of its creator.

    `root`: the UID on the host of the session's root. Blocks the calling thread.
    """
    os.chown(HOME, root, root)
    Path(HOME).chmod(0o711 if os.listdir(HOME) else 0o700)  # noqa: PTH208
    _check(_libc.mount(b"tmpfs", PLACE.encode(), b"tmpfs", _MS_NODEV, _OPTIONS), PLACE)
    become, sudo = Path(PLACE, _BECOME), Path(PLACE, "sudo")
    shutil.copyfile(_setpriv(), become)
    sudo.write_text(_SCRIPT)
    sudo.chmod(0o755)
    os.chown(become, root, root)
    become.chmod(0o4755)  # after chown, which clears the bit
    _remount(PLACE, _MS_NODEV | _MS_RDONLY)
    _remount("/", _MS_NOSUID | _MS_NODEV)
    os.chown("/", root, root)
    _remount("/", _MS_NOSUID | _MS_NODEV | _MS_RDONLY)


def _setpriv() -> str:
    return shutil.which("setpriv", path="/usr/bin:/bin") or ""


def _remount(path: str, flags: int) -> None:
    _check(_libc.mount(None, path.encode(), None, _MS_REMOUNT | _MS_BIND | flags, None), path)


def _check(result: int, path: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
