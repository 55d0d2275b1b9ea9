"""What a sandbox sees of the machine: the arguments of bubblewrap. Pure rules, nothing is run.

A system it can read, its own directories, a private `/tmp`, and processes, network and interprocess
communication of its own. Where its files are, `spawn/session_paths.py` says.
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
"""What programs need to work, and nothing about this machine, its users or its services. Of these,
only what every user of the machine may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxView:
    """The directories of one session on the host, named as bubblewrap needs them."""

    system: Sequence[str]
    """What `system` says, the same for all sessions."""
    etc: Mapping[str, str]
    """What is bound below `/etc`, or all of it at once (`etc_tree`)."""
    workspace: str
    home: str
    run_dir: str
    state: str
    uid: int
    gid: int
    user: str = USER
    """What it is called inside; `root` has the number 0 there."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Symbolic links: where each is, and what it names."""
    scratch: Sequence[str] = ()
    """More directories in memory, at which or below which something else may be shown."""
    read_only: Mapping[str, str] = field(default_factory=dict)
    """More of the host: where it is seen, and what it is there."""
    own_network: bool = True
    own_user: bool = False
    """Made by somebody without rights, in a user namespace of its own."""
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
            *_shown("--ro-bind", self.etc),
            *_scratch(),
            *_dirs(_above(self.scratch)),
            *(word for path in self.scratch for word in ("--tmpfs", path)),
            # Its home first: what is read may lie below it, as the Python of a root who has one.
            *_shown("--bind", self._own()),
            *_shown("--ro-bind", self.read_only),
            *_linked(self.links),
        ]

    def _own(self) -> Mapping[str, str]:
        own = {RUN_DIR: self.run_dir, STATE_DIR: self.state}
        return own | {home_of(self.user): self.home, WORKSPACE: self.workspace}

    def files(self) -> Mapping[str, str]:
        """Small generated files of the sandbox, with their contents."""
        numbers = (0, 0) if self.user == ROOT else (self.uid, self.gid)
        given = {
            **{f"/etc/{name}": text for name, text in account_files(*numbers, self.user).items()},
            "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
            "/etc/hostname": "sandbox\n",
            "/etc/resolv.conf": f"nameserver {self.resolver}\n" if self.resolver else "",
        }
        if not self.own_network:
            del given["/etc/resolv.conf"]
        return given


def python_paths() -> Sequence[Path]:
    """The directories of this Python and of everything it may import."""
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)}
    found.add(Path(os.path.realpath(sys.executable)).parent.parent)
    found.update(Path(entry) for entry in sys.path if entry)
    return outermost(path for path in found if not path.is_relative_to("/usr") and _is_dir(path))


def _is_dir(path: Path) -> bool:
    """Whether this is a directory; False where we have no permission to look."""
    return os.path.isdir(path)  # noqa: PTH112  # which answers, where `Path` raises


def outermost(paths: Iterable[Path]) -> Sequence[Path]:
    """The paths that are not inside another of them; never the whole file system."""
    given = set(paths) - {Path("/")}
    return sorted(path for path in given if not given.intersection(path.parents))


def system() -> Sequence[str]:
    """Arguments that show the installed system. Looks at about fifty files."""
    words, shown = [], {"/usr": "/usr"}
    for name in _TOP:
        top = Path("/", name)
        if top.is_symlink():
            words += ["--symlink", str(top.readlink()), str(top)]
        elif top.is_dir():
            shown[str(top)] = str(top)
    shown |= _readable("/opt", "/sys/devices/system/cpu")
    return words + _shown("--ro-bind", shown)


def etc() -> Mapping[str, str]:
    """What is shown of `/etc`: real paths, by the path in a session. Looks at some fifty files."""
    return _readable(*(f"/etc/{name}" for name in _ETC))


def _readable(*paths: str) -> dict[str, str]:
    return {path: os.path.realpath(path) for path in paths if _is_everybodys(path)}


def _is_everybodys(path: str) -> bool:
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _scratch() -> list[str]:
    """Writable directories in memory, which counts as the session's."""
    words = ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/dev/shm", "/tmp", "/var/tmp"):  # noqa: S108
        words += ["--perms", "1777", "--tmpfs", path]
    return words


def _shown(how: str, places: Mapping[str, str]) -> list[str]:
    """By where each is seen."""
    words = _dirs(_above(places))
    for seen, there in sorted(places.items()):
        words += [how, there, seen]
    return words


def _linked(links: Mapping[str, str]) -> list[str]:
    words = _dirs(_above(links))
    for path, target in sorted(links.items()):
        words += ["--symlink", target, path]
    return words


def _above(paths: Iterable[str]) -> list[str]:
    """The parent directories of these paths.

    We create them: bubblewrap would make them for itself only.
    """
    above = {parent for path in paths for parent in Path(path).parents if parent != Path("/")}
    return [str(path) for path in sorted(above)]


def _dirs(paths: Iterable[str]) -> list[str]:
    return [word for path in paths for word in ("--perms", "0755", "--dir", path)]
