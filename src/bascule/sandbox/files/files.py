"""Reads, writes and removes files, and lists directories.

Every method takes the action and the base directory of relative paths. All methods block and are
thread-safe.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from typing import Literal

from bascule.core.actions import FileRead, FileWrite, ListDir, MakeDir, Remove, RemoveDir
from bascule.core.errors import (
    BasculeError,
    BinaryFile,
    InvalidRange,
    IsADirectory,
    NoSuchPath,
    NotADirectory,
    PathExists,
    StorageFailed,
    UndecodableFile,
)
from bascule.core.observations import (
    DirEntry,
    DirListing,
    DirMade,
    DirRemoved,
    FileContent,
    FileRemoved,
    FileWritten,
)

from .excerpts import Excerpts
from .lines import count_lines, skip_lines
from .media import data_url, media_type
from .paths import PinnedPath, make_directory, printable
from .storage import Storage, read_up_to
from .textfile import DecodedText, TextFormat, decode, end_with_newline, format_of_start

READ_LIMIT = 32 << 20
"""Maximum bytes of one `read`, and maximum size of a file in which `write` replaces lines."""

_ASK_FOR_LINES = "Ask for a range of lines (`start`, `end`), or download it"
_START = 1 << 20


class SandboxFiles:
    def __init__(self, storage: Storage, *, read_limit: int = READ_LIMIT) -> None:
        self._storage = storage
        self._paths = storage.paths
        self._limit = read_limit
        self._excerpts = Excerpts(storage, limit=read_limit, advice=_ASK_FOR_LINES)

    def read(self, action: FileRead, cwd: str) -> FileContent:
        """Return lines `start` to `end` unchanged, including their line endings.

        From a file larger than the limit only the requested lines are loaded, and the encoding is
        detected from them. Raises `BinaryFile`, `FileTooLarge`, `InvalidRange`.
        """
        _ensure_range(action.start, action.end)
        with self._paths.pin(action.path, cwd) as pinned:
            kind = media_type(action.path)
            if kind is not None:
                advice = "Download it instead"
                data = self._storage.load(pinned, limit=self._limit, advice=advice).data
                return FileContent(content=data_url(kind, data), path=pinned.shown_path)
            content = self._excerpts.lines(pinned, action.start, action.end)
            return FileContent(content=content, path=pinned.shown_path)

    def write(self, action: FileWrite, cwd: str) -> FileWritten:
        """Replace the file's text, or its lines `start` to `end`, by `content`.

        A missing newline at the end of `content` is added. An existing file keeps its encoding, and
        keeps CR LF if all its lines end so. A new file is UTF-8 with the line endings of `content`.
        """
        _ensure_range(action.start, action.end)
        with (
            self._paths.pin(action.path, cwd, make_parents=True) as pinned,
            self._storage.exclusive(pinned),
        ):
            content = end_with_newline(action.content)
            if action.start == 0 and action.end == -1:
                old = self._format_of(pinned, content)
                data = _encode_or_utf8(old, content, pinned.shown_path)
                self._storage.replace(pinned, data)
            else:
                self._replace_lines(pinned, content, action.start, action.end)
            return FileWritten(path=pinned.shown_path)

    def make_dir(self, action: MakeDir, cwd: str) -> DirMade:
        try:
            with self._paths.directory(action.path, cwd):
                return DirMade(path=self._paths.absolute(action.path, cwd), created=False)
        except NotADirectory as error:
            raise PathExists(f"{action.path} exists, or leads through a file") from error
        except NoSuchPath:
            pass
        with self._paths.pin(action.path, cwd, make_parents=True) as pinned:
            created = make_directory(pinned.directory, pinned.name, self._paths.owner)
            return DirMade(path=pinned.shown_path, created=created)

    def remove_dir(self, action: RemoveDir, cwd: str) -> DirRemoved:
        """Remove a directory. Refuses a symbolic link to a directory."""
        with self._paths.pin(action.path, cwd, follow=False) as pinned:
            found = pinned.stat()
            if found is None:
                raise NoSuchPath(f"No such directory: {pinned.shown_path}")
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectory(f"{pinned.shown_path} is not a directory; remove it as a file")
            if action.recursive:
                _remove_tree(pinned)
            else:
                os.rmdir(pinned.name, dir_fd=pinned.directory)
            return DirRemoved(path=pinned.shown_path)

    def remove(self, action: Remove, cwd: str) -> FileRemoved:
        with (
            self._paths.pin(action.path, cwd, follow=False) as pinned,
            self._storage.exclusive(pinned),
        ):
            found = pinned.stat()
            if found is not None and stat.S_ISDIR(found.st_mode):
                raise IsADirectory(f"{pinned.shown_path} is a directory; remove it as one")
            self._storage.remove(pinned)
            return FileRemoved(path=pinned.shown_path)

    def list_dir(self, action: ListDir, cwd: str) -> DirListing:
        """List a directory. With `depth` above 1, entries follow directly after their directory."""
        if action.depth < 1 or action.limit < 1:
            raise InvalidRange("`depth` and `limit` of a listing are 1 or more")
        entries: list[DirEntry] = []
        truncated = False
        with self._paths.directory(action.path, cwd) as directory:
            for entry in _entries(directory, "", action.depth, hidden=action.include_hidden):
                if len(entries) == action.limit:
                    truncated = True
                    break
                entries.append(entry)
        lines = [entry.path + "/" * (entry.type == "directory") for entry in entries]
        if truncated:
            lines.append(f"(only the first {action.limit} entries; list a directory inside)")
        return DirListing(
            content="\n".join(lines),
            path=self._paths.absolute(action.path, cwd),
            entries=entries,
            truncated=truncated,
        )

    def list_names(self, path: str, cwd: str) -> list[str]:
        """List names, directories first and with a slash; includes hidden ones, not broken links.

        Returns an empty list if the directory cannot be read, because clients expect that.
        """
        try:
            with self._paths.directory(path, cwd) as directory, os.scandir(directory) as entries:
                found = [(not entry.is_dir(), entry.name) for entry in entries if _exists(entry)]
        except BasculeError:
            return []
        found.sort(key=lambda each: (each[0], each[1].lower(), each[1]))
        return [printable(name) + "/" * (not is_file) for is_file, name in found]

    def _format_of(self, pinned: PinnedPath, content: str) -> TextFormat:
        """Return the format in which to write `content`: that of the existing file if it is text.

        Only the start of a large file is examined. If the start is plain ASCII and `content` is
        not, the rest is read too (up to the limit) to find out whether it is UTF-8.
        """
        try:
            with self._storage.reading(pinned) as (descriptor, found):
                data = read_up_to(descriptor, _START, expected=found.st_size)
                if len(data) == _START:
                    if content.isascii() or not data.isascii() or found.st_size > self._limit:
                        return format_of_start(data)
                    data += read_up_to(descriptor, self._limit, expected=found.st_size - _START)
            return decode(data, pinned.shown_path).format
        except (FileNotFoundError, BinaryFile):
            return TextFormat()

    def _replace_lines(self, pinned: PinnedPath, content: str, start: int, end: int) -> None:
        try:
            advice = "Change it with a program in the shell"
            version = self._storage.load(pinned, limit=self._limit, advice=advice)
        except FileNotFoundError:
            self._storage.replace(pinned, TextFormat().encode(content, pinned.shown_path))
            return
        old = decode(version.data, pinned.shown_path)
        new = _with_lines_replaced(old, content, start, end, pinned.shown_path)
        self._storage.replace(pinned, old.format.encode(new, pinned.shown_path), over=version)


def _with_lines_replaced(
    old: DecodedText, content: str, start: int, end: int, shown_path: str
) -> str:
    line_count = count_lines(old.content)
    if start > line_count:
        raise InvalidRange(
            f"{shown_path} has {line_count} lines; none can be written after line {start}"
        )
    first = skip_lines(old.content, start)
    before = end_with_newline(old.content[:first])
    after = "" if end == -1 else old.content[skip_lines(old.content, end - start, start=first) :]
    return before + content + after


def _encode_or_utf8(old: TextFormat, content: str, shown_path: str) -> bytes:
    """Encode in the old encoding, or in UTF-8 if it lacks a character.

    Safe because none of the old text remains in the file.
    """
    try:
        return old.encode(content, shown_path)
    except UndecodableFile:
        return TextFormat(crlf=old.crlf).encode(content, shown_path)


def _remove_tree(pinned: PinnedPath) -> None:
    try:
        shutil.rmtree(pinned.name, dir_fd=pinned.directory)
    except RecursionError:
        raise StorageFailed(
            f"{pinned.shown_path} is nested too deeply to be removed here; "
            "use `rm -rf` in the shell"
        ) from None


def _ensure_range(start: int, end: int) -> None:
    if start < 0 or end < -1 or (end != -1 and end < start):
        raise InvalidRange(
            f"Lines {start} to {end} are not a valid range: `start` counts from 0, `end` is the "
            "first line"
            " left out, or -1 for all that follow"
        )


def _entries(directory: int, prefix: str, depth: int, *, hidden: bool) -> Iterator[DirEntry]:
    with os.scandir(directory) as scan:
        found = [each for each in scan if hidden or not each.name.startswith(".")]
    found.sort(key=lambda each: (not _is_directory(each), each.name.lower(), each.name))
    for each in found:
        try:
            info = each.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        path = prefix + printable(each.name)
        kind = _kind(info)
        yield DirEntry(path=path, type=kind, size=info.st_size, modified=info.st_mtime)
        if kind == "directory" and depth > 1:
            yield from _entries_inside(directory, each.name, path, depth - 1, hidden=hidden)


def _entries_inside(
    above: int, name: str, path: str, depth: int, *, hidden: bool
) -> Iterator[DirEntry]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        directory = os.open(name, flags, dir_fd=above)
    except (PermissionError, FileNotFoundError, NotADirectoryError):
        return
    try:
        yield from _entries(directory, f"{path}/", depth, hidden=hidden)
    finally:
        os.close(directory)


def _kind(info: os.stat_result) -> Literal["file", "directory", "link", "other"]:
    match stat.S_IFMT(info.st_mode):
        case stat.S_IFREG:
            return "file"
        case stat.S_IFDIR:
            return "directory"
        case stat.S_IFLNK:
            return "link"
        case _:
            return "other"


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _exists(entry: os.DirEntry[str]) -> bool:
    if not entry.is_symlink():
        return True
    try:
        entry.stat()
    except OSError:
        return False
    return True
