"""Checks what this machine supports. Most checks try the feature and ignore version numbers."""

from __future__ import annotations

import locale
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Literal

from bascule.runtime.spawn.local.cgroups import find_cgroups
from bascule.runtime.spawn.local.machine import network_problem

from . import editor

_GIB = 1 << 30
_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    state: Literal["ok", "missing", "limited"]
    """missing: nothing works without it. limited: only the features in the advice do not work."""
    found: str
    advice: str = ""
    """How to install it, or which features do not work without it."""


def examine() -> Sequence[Finding]:
    """Run all checks, the required ones first."""
    return [check() for check in (*_REQUIRED, *_USEFUL)]


def checks() -> Sequence[dict[str, str]]:
    """The findings as dictionaries, for the hub."""
    return [asdict(finding) for finding in examine()]


# Required -------------------------------------------------------------------------------


def python() -> Finding:
    """The running Python. The installation has already refused too old versions."""
    return Finding("Python", "ok", f"{sys.version.split()[0]} ({sys.executable})")


def bash() -> Finding:
    version = _version_of("bash", "--version")
    if version is None:
        return Finding("bash", "missing", "not found", _apt("bash"))
    if version < (4, 4):
        return Finding("bash", "missing", _dotted(version), "install bash 4.4 or newer")
    return Finding("bash", "ok", _dotted(version))


def terminals() -> Finding:
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError as error:
        advice = "mount the pseudoterminal file system: mount -t devpts devpts /dev/pts"
        return Finding("terminals", "missing", f"/dev/ptmx: {error.strerror}", advice)
    return Finding("terminals", "ok", "/dev/ptmx works")


def loopback() -> Finding:
    try:
        socket.create_server(("127.0.0.1", 0)).close()
    except OSError as error:
        advice = "bring the loopback interface up: ip link set lo up"
        return Finding("loopback port", "missing", f"127.0.0.1: {error.strerror}", advice)
    return Finding("loopback port", "ok", "listening on 127.0.0.1 works")


def temporary_files() -> Finding:
    directory = Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"bascule")
            file.flush()
    except OSError as error:
        advice = "shell logs need a writable temporary directory; set TMPDIR to another one"
        return Finding("temporary files", "missing", f"{directory}: {error.strerror}", advice)
    return Finding("temporary files", "ok", str(directory))


# Useful ---------------------------------------------------------------------------------


def git() -> Finding:
    return _program("git", "needed for workspaces cloned from git")


def ripgrep() -> Finding:
    return _program("rg", "makes file search faster", package="ripgrep", name="ripgrep")


def tmux() -> Finding:
    return _program("tmux", "needed for shells that `bascule attach` can join")


def bubblewrap() -> Finding:
    purpose = "needed to isolate sessions on this machine"
    return _program("bwrap", purpose, package="bubblewrap", name="bubblewrap")


def slirp4netns() -> Finding:
    """Whether it is installed and works: it opens a device that only root may open on some
    machines."""
    found = _program("slirp4netns", "needed for sessions with open network access (egress open)")
    if found.state != "ok" or not (problem := network_problem()):
        return found
    advice = "sessions can have no network (egress off) or a list of domains (egress proxy)"
    return Finding("slirp4netns", "limited", f"{found.found}, but {problem}", advice)


def node() -> Finding:
    return _program(
        "node",
        "needed to build the VS Code extension and the hub's page",
        package="nodejs npm",
        name="Node",
    )


def vscode() -> Finding:
    installation = editor.find()
    if not installation.is_complete:
        advice = "needed for VS Code in the browser; install it: bascule install vscode"
        return Finding("VS Code", "limited", "not installed", advice)
    return Finding("VS Code", "ok", str(installation.home))


def chromium() -> Finding:
    for program in _CHROMIUMS:
        if path := shutil.which(program):
            return Finding("Chromium", "ok", path)
    return Finding(
        "Chromium", "limited", "not found", f"needed for browser actions; {_apt('chromium')}"
    )


def docker() -> Finding:
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not address.startswith("unix://"):
        return Finding(
            "Docker engine",
            "limited",
            f"{address} was not checked",
            "only unix:// addresses are supported",
        )
    try:
        version = _docker_version(address.removeprefix("unix://"))
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        advice = "needed for sessions in containers (spawner docker); start a Docker engine"
        return Finding("Docker engine", "limited", f"{address}: {reason}", advice)
    return Finding("Docker engine", "ok", f"API {version}")


def disk() -> Finding:
    places = {Path.cwd(), Path(tempfile.gettempdir())}
    free = {place: shutil.disk_usage(place).free for place in places}
    place = min(free, key=lambda each: free[each])
    found = f"{free[place] / _GIB:.1f} GiB free at {place}"
    if free[place] < _GIB:
        return Finding(
            "disk", "limited", found, "logs and workspaces may fill the disk; free some space"
        )
    return Finding("disk", "ok", found)


def utf8() -> Finding:
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        for name in ("C.UTF-8", "C.utf8", "en_US.UTF-8"):
            try:
                locale.setlocale(locale.LC_CTYPE, name)
            except locale.Error:
                continue
            return Finding("locale", "ok", name)
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    return Finding(
        "locale",
        "limited",
        "no UTF-8 locale",
        f"needed for file names with non-ASCII characters; {_apt('locales')}",
    )


def limits() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    found = f"{_limit(soft)} open files (up to {_limit(hard)}), {_limit(processes)} processes"
    if 0 <= soft < 1024 or 0 <= processes < 1024:
        advice = "too low for many shells at once; raise them: ulimit -n 4096; ulimit -u 4096"
        return Finding("limits", "limited", found, advice)
    return Finding("limits", "ok", found)


def namespaces() -> Finding:
    advice = "needed to isolate sessions without root; see sysctl user.max_user_namespaces"
    if shutil.which("unshare") is None:
        return Finding("namespaces", "limited", "unshare not found", _apt("util-linux"))
    command = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = result.stderr.strip().rpartition("\n")[2] or f"status {result.returncode}"
        return Finding("namespaces", "limited", reason, advice)
    return Finding("namespaces", "ok", "user, mount and pid namespaces work")


def cgroups() -> Finding:
    advice = "needed to limit a session's memory, CPU and processes"
    found, reason = find_cgroups(f"bascule-doctor-{os.getpid()}")
    if found is None:
        return Finding("cgroups", "limited", reason, advice)
    found.remove_all()
    return Finding("cgroups", "ok", f"{found.version}, groups can be created")


_REQUIRED: Sequence[Callable[[], Finding]] = (python, bash, terminals, loopback, temporary_files)
_USEFUL: Sequence[Callable[[], Finding]] = (
    *(git, ripgrep, tmux, bubblewrap, slirp4netns, node, vscode, chromium, docker),
    *(disk, utf8, limits, namespaces, cgroups),
)


def _program(program: str, purpose: str, *, package: str = "", name: str = "") -> Finding:
    version = _version_of(program, "-V" if program == "tmux" else "--version")
    if version is None:
        advice = f"{purpose}; {_apt(package or program)}"
        return Finding(name or program, "limited", "not found", advice)
    return Finding(name or program, "ok", _dotted(version))


def _version_of(program: str, flag: str) -> tuple[int, ...] | None:
    """The version that a program prints; None if the program or its version is not found."""
    if shutil.which(program) is None:
        return None
    answer = subprocess.run([program, flag], capture_output=True, text=True, check=False)
    match = re.search(r"\d+(\.\d+)+", answer.stdout)
    return tuple(int(part) for part in match[0].split(".")) if match else None


def _docker_version(path: str) -> str:
    connection = HTTPConnection("docker", timeout=2)
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.settimeout(2)
        connection.sock.connect(path)
        connection.request("GET", "/_ping")
        answer = connection.getresponse()
        if answer.status != 200:
            raise HTTPException(f"the engine answered {answer.status}")
        return answer.headers.get("Api-Version", "unknown")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _apt(package: str) -> str:
    return f"as root: apt-get install {package}"
