"""The parts of the machine that a sandbox sees, as bubblewrap's arguments. Runs no program.

A sandbox can read the system. It has its own directories, `/tmp`, processes, network and
interprocess communication. `spawn/session_paths.py` defines the paths inside.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bascule.runtime.spawn.session_paths import (
    ROOT,
    RUN_DIR,
    STATE_DIR,
    USER,
    WORKSPACE,
    account_files,
    home_of,
)

_TOP: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC: Final = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies"),
    # Not all of `ssl` and `pki`: private keys are beside the certificates.
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/ca-trust", "pki/java"),
    *("pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/tls/ct_log_list.cnf"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "default/locale"),
    *("bash.bashrc", "bash_completion.d", "profile", "profile.d", "inputrc", "skel", "environment"),
    *("services", "protocols", "mime.types", "magic", "terminfo", "fonts", "locale.gen"),
    *("os-release", "debian_version", "lsb-release", "gitconfig", "nsswitch.conf", "host.conf"),
    *("python3", "python3.11", "python3.12", "python3.13", "java", "maven", "perl", "R", "vim"),
    *("chromium", "chromium.d", "emacs", "npmrc", "nanorc", "wgetrc", "gai.conf", "login.defs"),
)
"""Files in `/etc` that programs need, with nothing about this machine, its users or its services.
Sessions see only those files that every user of the machine may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxView:
    """The directories of one session on the host, named as bubblewrap needs them."""

    system: Sequence[str]
    """The result of `system()`, the same for all sessions."""
    etc: Mapping[str, str]
    """Mounts below `/etc`, or all of `/etc` at once (`etc_tree`)."""
    workspace: str
    home: str
    run_dir: str
    state: str
    uid: int
    gid: int
    user: str = USER
    """The user name inside; `root` has UID 0."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Targets of symlinks, by their path inside."""
    scratch: Sequence[str] = ()
    """More directories in memory; other mounts may be at or below these paths."""
    read_only: Mapping[str, str] = field(default_factory=dict)
    """More paths of the host, by their path inside."""
    own_network: bool = True
    own_user: bool = False
    """Whether the sandbox is created without root, in its own user namespace."""
    resolver: str = ""
    """The address of a name server; empty: names are not resolved."""

    def arguments(self, bubblewrap: str) -> Sequence[str]:
        return [
            bubblewrap,
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "sandbox"),
            *(["--unshare-net"] if self.own_network else []),
            *(["--unshare-user"] if self.own_user else []),
            *("--cap-drop", "ALL"),
            *self.system,
            *_mount_arguments("--ro-bind", self.etc),
            *_scratch(),
            *_dirs(_parent_directories(self.scratch)),
            *(word for path in self.scratch for word in ("--tmpfs", path)),
            # The home comes first: read-only mounts may be below it, such as a Python in root's
            # home.
            *_mount_arguments("--bind", self._own_directories()),
            *_mount_arguments("--ro-bind", self.read_only),
            *_link_arguments(self.links),
        ]

    def _own_directories(self) -> Mapping[str, str]:
        own = {RUN_DIR: self.run_dir, STATE_DIR: self.state}
        return own | {home_of(self.user): self.home, WORKSPACE: self.workspace}

    def files(self) -> Mapping[str, str]:
        """Small generated files of the sandbox, with their contents."""
        user_and_group = (0, 0) if self.user == ROOT else (self.uid, self.gid)
        files = {
            **{
                f"/etc/{name}": text
                for name, text in account_files(*user_and_group, self.user).items()
            },
            "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
            "/etc/hostname": "sandbox\n",
            "/etc/resolv.conf": f"nameserver {self.resolver}\n" if self.resolver else "",
        }
        if not self.own_network:
            del files["/etc/resolv.conf"]
        return files


def python_paths() -> Sequence[Path]:
    """The directories of this Python and of everything it may import."""
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)}
    found.add(Path(os.path.realpath(sys.executable)).parent.parent)
    found.update(Path(entry) for entry in sys.path if entry)
    return outermost(path for path in found if not path.is_relative_to("/usr") and _is_dir(path))


def _is_dir(path: Path) -> bool:
    """Whether this is a directory; False where we have no permission to look."""
    return os.path.isdir(path)  # noqa: PTH112  # returns False where `Path` raises


def outermost(paths: Iterable[Path]) -> Sequence[Path]:
    """Those of `paths` that are not inside another of `paths`. The root directory is left out."""
    candidates = set(paths) - {Path("/")}
    return sorted(path for path in candidates if not candidates.intersection(path.parents))


def system() -> Sequence[str]:
    """Arguments that show the installed system. Looks at about fifty files."""
    words, mounts = [], {"/usr": "/usr"}
    for name in _TOP:
        top = Path("/", name)
        if top.is_symlink():
            words += ["--symlink", str(top.readlink()), str(top)]
        elif top.is_dir():
            mounts[str(top)] = str(top)
    mounts |= _readable("/opt", "/sys/devices/system/cpu")
    return words + _mount_arguments("--ro-bind", mounts)


def etc() -> Mapping[str, str]:
    """The visible files of `/etc`: real paths, by path in a session. Looks at some fifty files."""
    return _readable(*(f"/etc/{name}" for name in _ETC))


def _readable(*paths: str) -> dict[str, str]:
    return {path: os.path.realpath(path) for path in paths if _is_world_readable(path)}


def _is_world_readable(path: str) -> bool:
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _scratch() -> list[str]:
    """Writable directories in memory, which count as the session's memory."""
    words = ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/dev/shm", "/tmp", "/var/tmp"):  # noqa: S108
        words += ["--perms", "1777", "--tmpfs", path]
    return words


def _mount_arguments(option: str, places: Mapping[str, str]) -> list[str]:
    """Arguments that mount each value of `places` at its key."""
    words = _dirs(_parent_directories(places))
    for inside, host_path in sorted(places.items()):
        words += [option, host_path, inside]
    return words


def _link_arguments(links: Mapping[str, str]) -> list[str]:
    words = _dirs(_parent_directories(links))
    for path, target in sorted(links.items()):
        words += ["--symlink", target, path]
    return words


def _parent_directories(paths: Iterable[str]) -> list[str]:
    """The parent directories of these paths.

    We create these directories, because bubblewrap would make them accessible only to itself.
    """
    parents = {parent for path in paths for parent in Path(path).parents if parent != Path("/")}
    return [str(path) for path in sorted(parents)]


def _dirs(paths: Iterable[str]) -> list[str]:
    return [word for path in paths for word in ("--perms", "0755", "--dir", path)]
