"""Walks all files below an open directory, in order, except those that `.gitignore` excludes.

Links are neither followed nor reported; `.git`, `.hg` and `.svn` are skipped. Every directory is
opened relative to its parent, so a directory that somebody replaces meanwhile cannot lead outside.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bascule.core.ignore_rules import IgnoreLevel, is_ignored, parse_rules

from .paths import real_path

VERSION_CONTROL = (".git", ".hg", ".svn")
_MAX_RULES_BYTES = 1 << 20
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    """Relative to the root of the walk."""
    directory: int
    """Descriptor of the parent directory; valid until the next step of the walk."""
    entry: os.DirEntry[str]


@dataclass(slots=True)
class _Frame:
    directory: int
    prefix: str
    entries: Iterator[os.DirEntry[str]]
    levels: Sequence[IgnoreLevel]


def walk_files(root: int, *, include_ignored: bool = False) -> Generator[FoundFile, None, None]:
    """Yield files below the open directory `root`, sorted by the bytes of their names.

    Like ripgrep, applies ignore rules from directories above `root` too, up to the top of its
    repository. Rules outside a repository do not apply inside it.
    """
    above = () if include_ignored else _levels_above(real_path(root))
    frames = [_enter(root, "", above, include_ignored=include_ignored)]
    try:
        while frames:
            frame = frames[-1]
            entry = next(frame.entries, None)
            if entry is None:
                _leave(frames)
            elif entry.name in VERSION_CONTROL:
                continue
            elif entry.is_dir(follow_symlinks=False):
                inside = _descend(frame, entry.name, include_ignored=include_ignored)
                if inside is not None:
                    frames.append(inside)
            elif entry.is_file(follow_symlinks=False):
                path = frame.prefix + entry.name
                if not is_ignored(frame.levels, path, is_directory=False):
                    yield FoundFile(path, frame.directory, entry)
    finally:
        while frames:
            _leave(frames)


def _enter(
    directory: int, prefix: str, levels: Sequence[IgnoreLevel], *, include_ignored: bool
) -> _Frame:
    with os.scandir(directory) as scan:
        entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
    if not include_ignored:
        names = {entry.name for entry in entries}
        if ".git" in names:
            levels = ()
        if ".gitignore" in names:
            levels = [*_level_in(directory, prefix), *levels]
    return _Frame(directory, prefix, iter(entries), levels)


def _descend(frame: _Frame, name: str, *, include_ignored: bool) -> _Frame | None:
    """Enter a directory; None if it is ignored, was removed or is not readable."""
    path = frame.prefix + name
    if is_ignored(frame.levels, path, is_directory=True):
        return None
    try:
        directory = os.open(name, _DIRECTORY_FLAGS, dir_fd=frame.directory)
    except (PermissionError, FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _enter(directory, f"{path}/", frame.levels, include_ignored=include_ignored)
    except BaseException:
        os.close(directory)
        raise


def _leave(frames: list[_Frame]) -> None:
    """Close the last directory; the first one belongs to the caller of the walk."""
    frame = frames.pop()
    if frames:
        os.close(frame.directory)


def _level_in(directory: int, prefix: str) -> list[IgnoreLevel]:
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(".gitignore", flags, dir_fd=directory)
    except OSError:
        return []
    try:
        return _levels(os.read(descriptor, _MAX_RULES_BYTES), cut=len(prefix))
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _levels_above(root: str) -> list[IgnoreLevel]:
    levels: list[IgnoreLevel] = []
    here = Path(root)
    prefix = ""
    while here.parent != here and not (here / ".git").exists():
        prefix = f"{here.name}/{prefix}"
        here = here.parent
        try:
            rules = (here / ".gitignore").read_bytes()
        except OSError:
            continue
        levels += _levels(rules[:_MAX_RULES_BYTES], prefix=prefix)
    return levels


def _levels(data: bytes, *, prefix: str = "", cut: int = 0) -> list[IgnoreLevel]:
    rules = parse_rules(data.decode("utf-8", "surrogateescape"))
    return [] if rules is None else [IgnoreLevel(rules, prefix, cut)]
