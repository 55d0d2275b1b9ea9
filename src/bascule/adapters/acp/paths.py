"""Maps the paths in messages between two views of one workspace. Rules only, no I/O."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

_OPAQUE: Final = frozenset({"_meta", "rawInput", "rawOutput", "mcpServers", "env", "headers"})
"""Fields that belong to the agent or to the client alone: they are passed on unchanged."""
_PATHS: Final = frozenset({"path", "cwd"})
_PATH_LISTS: Final = frozenset({"additionalDirectories"})
_FILE_SCHEME: Final = "file://"


@dataclass(frozen=True, slots=True)
class PathMap:
    """One directory with two names: `here` on this side, `there` on the other side.

    Paths outside of it are not changed, so a path that already has the other form stays valid.
    """

    here: str
    there: str

    def to_there(self, path: str) -> str:
        return _moved(path, self.here, self.there)

    def to_here(self, path: str) -> str:
        return _moved(path, self.there, self.here)


SAME_PATHS: Final = PathMap("/", "/")


def map_for(cwd: str, root: str) -> PathMap:
    """The map between `cwd`, the workspace as the client names it, and `root`, its real path.

    If `cwd` is already inside of `root`, no path is mapped.
    """
    cwd = posixpath.normpath(cwd)
    return SAME_PATHS if is_inside(cwd, root) else PathMap(cwd, root)


def is_inside(path: str, root: str) -> bool:
    """Whether `path` is `root` or below it, without following links."""
    path, root = posixpath.normpath(path), posixpath.normpath(root)
    return path == root or path.startswith(root.rstrip("/") + "/")


def map_paths(value: Any, move: Callable[[str], str]) -> Any:
    """`value` with all its paths and `file:` URIs moved. The same object if nothing changes."""
    if isinstance(value, list):
        items = [map_paths(each, move) for each in value]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else items
    if not isinstance(value, Mapping):
        return value
    found = {name: _map_field(name, each, move) for name, each in value.items()}
    return value if all(found[name] is value[name] for name in value) else found


def _map_field(name: str, value: Any, move: Callable[[str], str]) -> Any:
    if name in _OPAQUE:
        return value
    if isinstance(value, str):
        moved = value
        if name in _PATHS:
            moved = move(value)
        elif name == "uri" and value.startswith(_FILE_SCHEME):
            moved = _moved_uri(value, move)
        return value if moved == value else moved
    if name in _PATH_LISTS and isinstance(value, list):
        paths = [move(each) if isinstance(each, str) else each for each in value]
        return value if paths == value else paths
    return map_paths(value, move)


def _moved_uri(uri: str, move: Callable[[str], str]) -> str:
    rest = uri.removeprefix(_FILE_SCHEME)
    end = min((at for mark in "?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    path = unquote(rest[:end])
    moved = move(path)
    return uri if moved == path else f"{_FILE_SCHEME}{quote(moved)}{rest[end:]}"


def _moved(path: str, source: str, target: str) -> str:
    if source == target or not path.startswith("/"):
        return path
    if path == source or path.rstrip("/") == source:
        return target
    prefix = source.rstrip("/") + "/"
    if not path.startswith(prefix):
        return path
    return f"{target.rstrip('/')}/{path[len(prefix) :]}"
