"""Decides which directories a command may enter, and which files it may write. The only I/O is to
resolve links."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable
from dataclasses import dataclass

_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_DESCRIPTOR = re.compile(r"/dev/fd/\d+", re.ASCII)
_NETWORK = ("/dev/tcp/", "/dev/udp/")
_PROTECTED_DIRECTORIES = frozenset({".git", ".vscode", ".husky"})
_PROTECTED_FILES = frozenset({".envrc", "bascule.toml"})
_PROTECTED_ENDING = ".code-workspace"


@dataclass(frozen=True)
class CommandContext:
    """The directories in which a command text would run. All paths are absolute.

    `resolve_links` is set if a file system is available. Then a path must be in the workspace both
    as written and with links resolved.
    """

    workspace: str
    cwd: str
    home: str
    resolve_links: Callable[[str], str] | None = None

    def contains(self, path: str) -> bool:
        """Whether an absolute path is the workspace or below it."""
        return self._below(path) is not None

    def write_objection(self, path: str) -> str | None:
        """Why a write to an absolute path needs approval, or None."""
        relative = self._below(path)
        if relative is None:
            return f"{os.path.normpath(path)} is outside the workspace"
        if _is_protected(relative):
            return f"{os.path.normpath(path)} is protected: programs run or trust what is in it"
        return None

    def _below(self, path: str) -> str | None:
        if self.resolve_links is None:
            return _relative(os.path.normpath(path), os.path.normpath(self.workspace))
        if _relative(os.path.normpath(path), os.path.normpath(self.workspace)) is None:
            return None
        return _relative(self.resolve_links(path), self.resolve_links(self.workspace))


def _is_protected(relative: str) -> bool:
    # Some file systems do not distinguish upper and lower case.
    *_, last = parts = relative.lower().split("/")
    is_file = last in _PROTECTED_FILES or last.endswith(_PROTECTED_ENDING)
    return is_file or not _PROTECTED_DIRECTORIES.isdisjoint(parts)


def is_harmless_device(path: str) -> bool:
    """Whether a write to this path, as written, changes no file."""
    return path in _DEVICES or _DESCRIPTOR.fullmatch(path) is not None


def may_be_network(prefix: str, *, is_known: bool) -> bool:
    """Whether reading from a path that begins with `prefix` may make bash open a connection."""
    if is_known:
        return prefix.startswith(_NETWORK)
    return bool(prefix) and any(
        prefix.startswith(each) or each.startswith(prefix) for each in _NETWORK
    )


def _relative(path: str, workspace: str) -> str | None:
    """The part of a path below the workspace; "" for the workspace itself."""
    # `normpath` keeps two slashes at the start.
    path, workspace = path.replace("//", "/", 1), workspace.replace("//", "/", 1).rstrip("/")
    if path == workspace:
        return ""
    return path[len(workspace) + 1 :] if path.startswith(workspace + "/") else None
