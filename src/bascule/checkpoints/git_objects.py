"""Keeps contents that are already in the user's git, with hard links to git's own files.

git never changes a pack or a loose object once it is written, so a hard link keeps the content
even if a command removes `.git` or runs `git gc --prune=now`. Linking changes nothing below `.git`,
neither contents nor modification times. `git cat-file` reads the objects in a repository that
consists only of the links. So the configuration of the user's repository has no effect.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from bascule.core.errors import StorageFailed

_SKELETON = {
    "HEAD": "ref: refs/heads/none\n",
    "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
}
_ENVIRONMENT = {
    "PATH": os.defpath,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
_BLOCK_BYTES = 1 << 20


class GitObjects:
    """Links to objects of the workspace's repositories, all in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._objects = directory / "objects"
        self._packs = self._objects / "pack"
        self._git = shutil.which("git")
        self._show_hidden()

    @property
    def is_available(self) -> bool:
        return self._git is not None

    def adopt(self, repository_objects: Path, wanted: Iterable[bytes]) -> dict[bytes, int]:
        """Link the packs of a repository, and loose objects as needed. Returns sizes by object.

        The result lacks objects that could not be linked: they are on another file system, in an
        alternate object directory, or removed.
        """
        self._prepare()
        with suppress(OSError):
            self._link_packs(repository_objects / "pack")
        wanted = list(wanted)
        sizes = self.sizes(wanted)
        loose = [each for each in wanted if each not in sizes]
        linked = [each for each in loose if self._link_loose(repository_objects, each)]
        return sizes | self.sizes(linked) if linked else sizes

    def sizes(self, objects: Iterable[bytes]) -> dict[bytes, int]:
        """The sizes of the objects that can be read."""
        wanted = list(objects)
        if not wanted:
            return {}
        # Pass the names in a file, because `subprocess` writes only 512 bytes at a time to a pipe.
        with tempfile.TemporaryFile(dir=self._directory) as names:
            names.write(("\n".join([each.hex() for each in wanted]) + "\n").encode())
            names.seek(0)
            answer = subprocess.run(
                self._command("--batch-check=%(objecttype) %(objectsize)"),
                stdin=names,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                check=True,
            ).stdout
        found = {}
        for name, line in zip(wanted, answer.splitlines(), strict=True):
            kind, _, size = line.partition(b" ")
            if kind == b"blob":
                found[name] = int(size)
        return found

    @contextmanager
    def reading(self) -> Iterator[GitReader]:
        """Read objects one after the other from one `git cat-file` process."""
        with subprocess.Popen(
            self._command("--batch"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield GitReader(process.stdin, process.stdout)
            finally:
                with suppress(BrokenPipeError):
                    process.stdin.close()
                process.kill()

    def has_dropped_packs(self) -> bool:
        """Whether git has removed a pack, for example with `git gc`, so that only our link keeps
        the pack."""
        return any(True for _ in self._dropped_packs())

    def replace_dropped_packs(
        self,
        repositories: Iterable[Path],
        used: Iterable[bytes],
        copy: Callable[[Sequence[bytes]], None],
    ) -> list[Path]:
        """Make all used objects independent of the packs that git removed.

        Usually git has written the objects to a new pack, which is linked. `copy` is called with
        the used objects that only dropped packs contain. Returns the dropped packs. The caller
        passes them to `remove_packs` after it has recorded the copies.
        """
        dropped = list(self._dropped_packs())
        for pack in dropped:
            _index(pack).rename(_hidden(pack))  # git does not see a pack without its index
        used = list(used)
        found: dict[bytes, int] = {}
        for objects in repositories:
            found |= self.adopt(objects, [each for each in used if each not in found])
        self._show_hidden()
        if lost := [name for name in used if name not in found]:
            copy(lost)
        return dropped

    def remove_packs(self, packs: Iterable[Path]) -> None:
        for pack in packs:
            _index(pack).unlink()
            pack.unlink()

    def _dropped_packs(self) -> Iterator[Path]:
        for pack in self._packs.glob("*.pack"):
            if pack.stat().st_nlink == 1:  # only this link is left; git has removed its own
                yield pack

    def _show_hidden(self) -> None:
        for hidden in self._packs.glob("*.hidden"):
            hidden.rename(hidden.with_suffix(".idx"))

    def _prepare(self) -> None:
        self._packs.mkdir(parents=True, exist_ok=True)
        (self._directory / "refs").mkdir(exist_ok=True)
        for name, text in _SKELETON.items():
            if not (self._directory / name).exists():
                (self._directory / name).write_text(text)

    def _link_packs(self, packs: Path) -> None:
        for index in packs.glob("pack-*.idx"):
            # Link the pack first: for git, an index without its pack is an error, but a pack
            # without its index is not.
            for name in (index.with_suffix(".pack").name, index.name):
                with suppress(FileExistsError):
                    os.link(packs / name, self._packs / name, follow_symlinks=False)

    def _link_loose(self, repository_objects: Path, name: bytes) -> bool:
        digits = name.hex()
        below = Path(digits[:2], digits[2:])
        target = self._objects / below
        try:
            target.parent.mkdir(exist_ok=True)
            os.link(repository_objects / below, target, follow_symlinks=False)
        except FileExistsError:
            return True
        except OSError:
            return False
        return True

    def _command(self, *arguments: str) -> list[str]:
        assert self._git is not None
        return [self._git, f"--git-dir={self._directory}", "cat-file", *arguments]


class GitReader:
    """Reads from one `git cat-file --batch` process."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers

    def read(self, name: bytes) -> Iterator[bytes]:
        """The content in pieces. Raises `StorageFailed` if git cannot read the object."""
        try:
            self._requests.write(name.hex().encode() + b"\n")
            self._requests.flush()
        except BrokenPipeError:
            raise StorageFailed(f"git ended before it read object {name.hex()}") from None
        heading = self._answers.readline().split()
        if len(heading) != 3 or heading[1] != b"blob":
            raise StorageFailed(f"git has no file content under {name.hex()}")
        remaining = int(heading[2])
        while remaining:
            piece = self._answers.read(min(remaining, _BLOCK_BYTES))
            if not piece:
                raise StorageFailed(f"git ended while it read object {name.hex()}")
            remaining -= len(piece)
            yield piece
        self._answers.read(1)  # the newline after the content


def _index(pack: Path) -> Path:
    return pack.with_suffix(".idx")


def _hidden(pack: Path) -> Path:
    return pack.with_suffix(".hidden")
