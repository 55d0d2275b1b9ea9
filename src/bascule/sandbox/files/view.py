"""Formats files and directories for the editor's `view`. Clients rely on the exact wording."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .lines import count_lines, slice_lines
from .paths import printable

VIEW_LIMIT = 16_000
"""Maximum characters of one view."""

_CLIPPED = "Due to the max output limit, only part of this {} has been shown to you."


def show_file(text: str, shown_path: str, *, first: int = 1, whole: str | None = None) -> str:
    """Show as much of `text` as fits, with line numbers from `first`.

    `whole`: the whole text of the file, if known.
    """
    clipped = _clip(text)
    lines = _numbered(clipped, first)
    if len(clipped) < len(text):
        last = first + clipped.count("\n")
        of = "" if whole is None else f" of {count_lines(whole)}"
        lines += f"\n{_CLIPPED.format('file')} Above are lines {first} to {last}{of}; ask for"
        lines += " others with `view_range`."
    return f"Here's the result of running `cat -n` on {shown_path}:\n{lines}\n"


def show_snippet(text: str, line: int, count: int, shown_path: str, *, around: int = 4) -> str:
    """Show `count` lines from `line` on, and `around` lines before and after them."""
    first = max(1, line - around)
    last = line + count - 1 + around
    part = slice_lines(text, first - 1, last).removesuffix("\n")
    return show_file(part, f"a snippet of {shown_path}", first=first, whole=text)


def show_directory(directory: int, shown_path: str) -> str:
    """List two levels. Hidden entries are left out; a last line says how many there are. Does not
    follow links."""
    lines: list[str] = []
    size = 0
    for line in _two_levels(directory, shown_path):
        size += len(line) + 1
        if size > VIEW_LIMIT and lines:
            lines.append(f"{_CLIPPED.format('directory')} View a directory inside, or use `ls`.")
            break
        lines.append(line)
    hidden = sum(name.startswith(".") for name in os.listdir(directory))
    if hidden:
        lines.append(
            f"\n{hidden} hidden files/directories in this directory are excluded."
            f" You can use 'ls -la {shown_path}' to see them."
        )
    title = (
        f"Here's the files and directories up to 2 levels deep in {shown_path}, "
        "excluding hidden items:"
    )
    return "\n".join([title, *lines])


def _two_levels(directory: int, shown_path: str) -> Iterator[str]:
    yield f"{shown_path.rstrip('/')}/"
    for entry in _visible_entries(directory):
        path = f"{shown_path.rstrip('/')}/{printable(entry.name)}"
        yield path + "/" * entry.is_dir()
        if entry.is_dir(follow_symlinks=False):
            yield from _list_subdirectory(directory, entry.name, path)


def _list_subdirectory(above: int, name: str, shown_path: str) -> Iterator[str]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        directory = os.open(name, flags, dir_fd=above)
    except (PermissionError, FileNotFoundError, NotADirectoryError):
        return
    try:
        for entry in _visible_entries(directory):
            yield f"{shown_path}/{printable(entry.name)}" + "/" * entry.is_dir()
    finally:
        os.close(directory)


def _visible_entries(directory: int) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        found = [entry for entry in entries if not entry.name.startswith(".")]
    return sorted(found, key=lambda entry: entry.name)


def _clip(text: str) -> str:
    """Return as many whole lines as fit; if the first line does not fit, return its start."""
    if len(text) <= VIEW_LIMIT:
        return text
    newline = text.rfind("\n", 0, VIEW_LIMIT)
    return text[: newline if newline > 0 else VIEW_LIMIT]


def _numbered(text: str, first: int) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), first))
