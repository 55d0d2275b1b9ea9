"""Checks what this machine offers to isolate sandboxes, and explains what is missing."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule.core.errors import CannotIsolate
from bascule.sandbox.session import seccomp

from .cgroups import Cgroups, find_cgroups
from .settings import LocalSettings

logger = logging.getLogger(__name__)

INSTALL: Final = "apt-get install bubblewrap"
TUN: Final = "/dev/net/tun"
_SYSCTLS: Final = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
)
_PROBE_TIMEOUT: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    is_root: bool
    bubblewrap: str
    """Path of bubblewrap; empty if sandboxes are not isolated."""
    slirp: str
    """Path of slirp4netns, which connects a session's network; empty if not installed."""
    network_problem: str
    """Why sessions cannot use slirp4netns, and how to fix that; empty if they can."""
    cgroups: Cgroups | None
    notices: tuple[str, ...]
    """Warnings for the operator, one sentence each."""

    @property
    def own_user(self) -> bool:
        """Whether namespaces are created without root, inside a user namespace."""
        return bool(self.bubblewrap) and not self.is_root


def look(settings: LocalSettings) -> Machine:
    """Check this machine once.

    Raises `CannotIsolate` if isolation is incomplete and the settings do not allow this.
    """
    is_root = os.geteuid() == 0
    notices = []
    bubblewrap = shutil.which("bwrap") or ""
    if problem := _missing_for_isolation(bubblewrap, is_root):
        if not settings.allow_unisolated:
            raise CannotIsolate(
                f"Sessions cannot be isolated on this machine: {problem}. To run them "
                "without isolation, so that any session can do whatever this account can, set "
                "allow_unisolated (--allow-unisolated)"
            )
        bubblewrap = ""
        notices.append(
            f"SESSIONS ARE NOT ISOLATED: {problem}. Each session can do whatever this "
            "account can, also to other sessions and to the hub"
        )
    elif not is_root:
        notices.append(
            "Sessions are isolated by namespaces only: all sessions and the hub run as "
            "the same user, because the warden does not run as root"
        )
    if bubblewrap and seccomp.architecture() is None:
        notices.append(
            "Sessions can make every system call, because there is no seccomp filter for "
            f"this processor ({platform.machine()})"
        )
    cgroups, reason = find_cgroups(_group_name(settings))
    if cgroups is None:
        notices.append(
            f"Limits of sessions are weak: {reason}. Memory is limited per process, the "
            "number of processes per session, CPU time not at all"
        )
    for notice in notices:
        logger.warning("%s", notice)
    return Machine(
        is_root=is_root,
        bubblewrap=bubblewrap,
        slirp=shutil.which("slirp4netns") or "",
        network_problem=network_problem(),
        cgroups=cgroups,
        notices=tuple(notices),
    )


def network_problem() -> str:
    """Why sessions cannot have a network namespace with egress; empty if they can."""
    if not shutil.which("slirp4netns"):
        return (
            "slirp4netns is not installed (Debian or Ubuntu, as root: apt-get install slirp4netns)"
        )
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return f"{TUN} does not exist (as root: modprobe tun; in a container: --device {TUN})"
    except PermissionError:
        return f"this user may not open {TUN} (as root: chmod 0666 {TUN})"
    except OSError as error:
        return f"{TUN} cannot be opened: {error.strerror} (as root: modprobe tun)"
    return ""


def _missing_for_isolation(bubblewrap: str, is_root: bool) -> str:
    """What is missing for isolation and how to get it; empty if nothing is missing."""
    if not bubblewrap:
        return f"bubblewrap is not installed (Debian or Ubuntu, as root: {INSTALL})"
    words = [bubblewrap, *([] if is_root else ["--unshare-user"])]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    words += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    try:
        result = subprocess.run(
            words, capture_output=True, timeout=_PROBE_TIMEOUT, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work: {error}"
    if result.returncode == 0:
        return ""
    fixes = [fix for path, bad, fix in _SYSCTLS if not is_root and _sysctl(path) == bad]
    fixes += ["in a container: run it with the right to create namespaces"] if not fixes else []
    return f"bubblewrap cannot create namespaces here: {result.stderr.strip()} ({'; '.join(fixes)})"


def _sysctl(path: str) -> str:
    try:
        return Path("/proc/sys", path).read_text().strip()
    except OSError:
        return ""


def _group_name(settings: LocalSettings) -> str:
    """The cgroup name for this state directory, so that two hubs do not remove each
    other's groups."""
    tag = f"{hash_of(str(settings.state_dir.resolve())):08x}"
    return f"{settings.cgroup}-{tag}"


def hash_of(text: str) -> int:
    """A stable 32-bit hash."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value
