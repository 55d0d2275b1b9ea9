"""Reads the facts that checkpoints need about a repository in the workspace. Writes nothing.

Only a `.git` inside the workspace is read, and symbolic links to it are not followed. Otherwise an
agent could let a store with more rights copy objects from the repository of another user.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bascule.core.ignore_rules import IgnoreRules, parse_rules

from .git_index import IndexEntry, parse_index
from .versions import FileStat, Tree, join

_ATTRIBUTES = ".gitattributes"
_CONVERTING = ("filter", "working-tree-encoding")
"""Attributes with which a file may differ from its object and still have the same size. Line-end
conversion and `ident` only shorten a file when git stores it, so equal sizes mean equal contents.
"""
_SMALL = 1 << 20


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository whose work tree is the workspace or a directory in it."""

    directory: str
    """The work tree, relative to the workspace."""
    git_dir: Path
    objects: Path

    @classmethod
    def find(cls, workspace: Path, directory: str) -> GitRepository | None:
        """The repository whose `.git` is in `directory`; None if the repository is elsewhere or
        unreadable."""
        try:
            git_dir = _git_dir(workspace / directory / ".git")
            common = git_dir / "commondir"
            base = git_dir / common.read_text().strip() if common.is_file() else git_dir
            objects = (base / "objects").resolve(strict=True)
            git_dir = git_dir.resolve(strict=True)
        except (OSError, UnicodeDecodeError):
            return None
        if not all(each.is_relative_to(workspace) for each in (git_dir, objects)):
            return None
        return cls(directory, git_dir, objects)

    def read_index(self) -> tuple[Mapping[str, IndexEntry], int]:
        """Tracked files by path in the work tree, and the index's modification time."""
        try:
            descriptor = os.open(self.git_dir / "index", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return {}, 0
        with os.fdopen(descriptor, "rb") as file:
            mtime_ns = os.fstat(descriptor).st_mtime_ns
            return parse_index(file.read()), mtime_ns

    def head(self) -> str:
        """The current branch and commit as text for users; empty if HEAD cannot be read."""
        try:
            head = (self.git_dir / "HEAD").read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""
        branch = head.removeprefix("ref: ")
        if branch == head:
            return f"commit {head[:10]}"
        return f"{branch.removeprefix('refs/heads/')} at {self._commit(branch)[:10] or 'no commit'}"

    def _commit(self, branch: str) -> str:
        base = self.objects.parent
        try:
            return (base / branch).read_text().strip()
        except (OSError, UnicodeDecodeError, ValueError):
            pass
        try:
            packed = (base / "packed-refs").read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return ""
        found = (line.split(" ")[0] for line in packed if line.endswith(f" {branch}"))
        return next(found, "")


class Conversions:
    """Tells for which files git may store other bytes than those in the work tree."""

    def __init__(self, workspace: Path, repository: GitRepository, tree: Tree) -> None:
        self._everything = False
        self._rules: list[tuple[str, IgnoreRules]] = []
        self._add(repository.git_dir / "info/attributes", "")
        root = repository.directory
        for directory, listing in tree.items():
            inside = directory == root or not root or directory.startswith(f"{root}/")
            if inside and _ATTRIBUTES in listing:
                below = directory[len(root) :].lstrip("/")
                self._add(workspace / directory / _ATTRIBUTES, below)

    def may_change(self, path: str) -> bool:
        """Whether git may convert the file. `path` is relative to the work tree."""
        if self._everything:
            return True
        for directory, rules in self._rules:
            prefix = f"{directory}/" if directory else ""
            if path.startswith(prefix) and rules.verdict(path[len(prefix) :], is_directory=False):
                return True
        return False

    def _add(self, file: Path, directory: str) -> None:
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        with os.fdopen(descriptor, "rb") as opened:
            text = opened.read(_SMALL).decode("utf-8", "surrogateescape")
        lines = [line.strip() for line in text.splitlines()]
        converting = [line for line in lines if any(word in line for word in _CONVERTING)]
        # A macro or a quoted pattern is rare, so it is not parsed: all files are then copied.
        if any(line.startswith(("[attr]", '"')) for line in converting):
            self._everything = True
        patterns = "\n".join(line.split()[0] for line in converting if not line.startswith("#"))
        rules = parse_rules(patterns)
        if rules is not None:
            self._rules.append((directory, rules))


def clean_files(
    repository: GitRepository, workspace: Path, tree: Tree, unknown: Mapping[str, FileStat]
) -> dict[str, bytes]:
    """Object names by path, of the `unknown` files that are unchanged since git last saw them."""
    entries, index_mtime_ns = repository.read_index()
    if not entries:
        return {}
    conversions = Conversions(workspace, repository, tree)
    found = {}
    for path, entry in entries.items():
        workspace_path = join(repository.directory, path)
        seen = unknown.get(workspace_path)
        if (
            seen is not None
            and entry.describes(seen, index_mtime_ns=index_mtime_ns)
            and not conversions.may_change(path)
        ):
            found[workspace_path] = entry.object_name
    return found


def _git_dir(found: Path) -> Path:
    """`.git` itself, or the directory that a `.git` file of a submodule or worktree names."""
    if found.is_symlink():
        raise FileNotFoundError(found)
    if found.is_dir():
        return found
    line = found.read_text().strip()
    return found.parent / line.removeprefix("gitdir: ")
