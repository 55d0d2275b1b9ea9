"""The editor that agents use: view, create, str_replace, insert, undo_edit.

A failure is not an exception but an observation whose content starts with `ERROR:`, because
OpenHands' clients look for that text. Bascule's clients read the code in `error_id`. Files keep
their encoding, line endings, mode and owner. If all lines of a file end in CR LF, the editor works
on text with plain newlines and restores CR LF when it saves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TypeVar

from bascule.core.actions import FileEdit, FileRead
from bascule.core.errors import (
    BasculeError,
    BinaryFile,
    EditConflict,
    EditInvalid,
    InvalidRange,
    IsADirectory,
    NoEditHistory,
    NoSuchPath,
    NotADirectory,
    NotSupported,
    PathExists,
)
from bascule.core.observations import FileContent, FileEdited

from .diff import unified_diff
from .edits import Edited, insert_lines, replace_once, without_edit
from .excerpts import Excerpts
from .history import EditHistory, RecordedEdit
from .lines import count_lines
from .paths import PinnedPath
from .storage import FileVersion, Storage
from .textfile import TextFormat, decode, unix_lines
from .view import show_directory, show_file, show_snippet

EDIT_LIMIT = 10 << 20
"""Maximum size in bytes of a file that is edited or viewed whole."""

HISTORY_DEPTH = 10
"""Maximum number of edits of one file that can be undone."""
HISTORY_LIMIT = 64 << 20
"""Maximum bytes of the history of all files together."""

_COMMANDS = ("view", "create", "str_replace", "insert", "undo_edit")
_DOCUMENTS = frozenset((".docx", ".xlsx", ".pptx", ".pdf", ".mp3", ".wav", ".m4a", ".flac"))
_REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."

T = TypeVar("T")


class FileEditor:
    """Executes edits and keeps the undo history of each file. A sandbox has one editor."""

    def __init__(self, storage: Storage, *, size_limit: int = EDIT_LIMIT) -> None:
        self._storage = storage
        self._paths = storage.paths
        self._limit = size_limit
        self._excerpts = Excerpts(
            storage, limit=size_limit, advice="Look at a part of it with `view_range`"
        )
        self.history = EditHistory(depth=HISTORY_DEPTH, limit=HISTORY_LIMIT)

    def edit(self, action: FileEdit, cwd: str) -> FileEdited:
        """Execute the action's `command`.

        `old_content` and `new_content` repeat the request, as clients expect. `diff` holds the
        actual change.
        """
        if action.impl_source != "oh_aci":
            raise NotSupported(f"Edits by {action.impl_source!r} are made by the client")
        try:
            done = self._do(action, cwd)
        except BasculeError as error:
            existed = self._exists(action.path, cwd)
            done = _EditResult(_error(error), existed=existed, error_id=error.code)
        return FileEdited(
            content=done.content,
            path=self._shown_path(action.path, cwd),
            prev_exist=done.existed,
            old_content=action.old_str,
            new_content=action.new_str,
            impl_source="oh_aci",
            diff=done.diff,
            error_id=done.error_id,
        )

    def view(self, action: FileRead, cwd: str) -> FileContent:
        """Answer a `read` with the text that the `view` command of `edit` shows."""
        code = ""
        try:
            content = self._view(action.path, action.view_range, cwd)
        except BasculeError as error:
            content, code = _error(error), error.code
        shown_path = self._shown_path(action.path, cwd)
        return FileContent(content=content, path=shown_path, impl_source="oh_aci", error_id=code)

    def _do(self, action: FileEdit, cwd: str) -> _EditResult:
        match action.command:
            case "view":
                return _EditResult(self._view(action.path, action.view_range, cwd), existed=True)
            case "create":
                return self._create(action, cwd)
            case "str_replace":
                return self._str_replace(action, cwd)
            case "insert":
                return self._insert(action, cwd)
            case "undo_edit":
                return self._undo(action, cwd)
        known = ", ".join(_COMMANDS)
        raise EditInvalid(f"Unrecognized command {action.command!r}. Known commands: {known}")

    def _create(self, action: FileEdit, cwd: str) -> _EditResult:
        text = _required(action.file_text, "file_text", action)
        _ensure_no_document(action.path)
        with (
            self._paths.pin(action.path, cwd, make_parents=True) as pinned,
            self._storage.exclusive(pinned),
        ):
            try:
                data = TextFormat().encode(text, pinned.shown_path)
                self._storage.replace(pinned, data, must_be_new=True)
            except (PathExists, FileExistsError):
                raise PathExists(
                    f"{_invalid_path(pinned.shown_path)} File already exists at: "
                    f"{pinned.shown_path}. `create` overwrites nothing; change it with "
                    "`str_replace` or `insert`."
                ) from None
            shown_path = pinned.shown_path
            return _EditResult(
                f"File created successfully at: {shown_path}",
                existed=False,
                diff=unified_diff("", text, shown_path),
            )

    def _str_replace(self, action: FileEdit, cwd: str) -> _EditResult:
        old = _required(action.old_str, "old_str", action)
        if old == action.new_str:
            raise EditInvalid(
                "No replacement was performed. `new_str` and `old_str` must be different."
            )
        with self._open_text(action.path, cwd) as file:
            old, new = file.as_text(old), file.as_text(action.new_str or "")
            return self._save(file, replace_once(file.text, old, new, shown_path=file.shown_path))

    def _insert(self, action: FileEdit, cwd: str) -> _EditResult:
        line = _required(_as_line(action.insert_line), "insert_line", action)
        new = _required(action.new_str, "new_str", action)
        with self._open_text(action.path, cwd) as file:
            return self._save(file, insert_lines(file.text, line, file.as_text(new)))

    def _undo(self, action: FileEdit, cwd: str) -> _EditResult:
        with self._open_text(action.path, cwd) as file:
            recorded = self.history.last(file.pinned.key)
            if recorded is None:
                raise NoEditHistory(f"No edit history found for {file.shown_path}.")
            data = _content_without(recorded, file)
            text = unix_lines(decode(data, file.shown_path).content)
            self._storage.replace(file.pinned, data, over=file.version)
            self.history.drop_last(file.pinned.key)
            view = show_file(text, file.shown_path, whole=text)
            return _EditResult(
                f"Last edit to {file.shown_path} undone successfully. {view}",
                existed=True,
                diff=unified_diff(file.text, text, file.shown_path),
            )

    def _save(self, file: _OpenFile, edited: Edited) -> _EditResult:
        data = file.format.encode(edited.content, file.shown_path)
        self._storage.replace(file.pinned, data, over=file.version)
        self.history.push(file.pinned.key, RecordedEdit(file.version.data, data))
        snippet = show_snippet(edited.content, edited.line, edited.line_count, file.shown_path)
        return _EditResult(
            f"The file {file.shown_path} has been edited. {snippet}{_REVIEW}",
            existed=True,
            diff=unified_diff(file.text, edited.content, file.shown_path),
        )

    @contextmanager
    def _open_text(self, path: str, cwd: str) -> Iterator[_OpenFile]:
        """Open a text file for editing, and keep other threads from editing it meanwhile."""
        with self._existing(path, cwd) as pinned, self._storage.exclusive(pinned):
            advice = "Change it with a program in the shell"
            version = self._storage.load(pinned, limit=self._limit, advice=advice)
            text = decode(version.data, pinned.shown_path)
            file = _OpenFile(pinned, version, text.content, text.format)
            yield replace(file, text=file.as_text(text.content))

    @contextmanager
    def _existing(self, path: str, cwd: str) -> Iterator[PinnedPath]:
        shown_path = self._paths.absolute(path, cwd)
        try:
            with self._paths.pin(path, cwd) as pinned:
                _ensure_no_document(shown_path)
                yield pinned
        except NoSuchPath as error:
            raise NoSuchPath(
                f"{_invalid_path(shown_path)} The path {shown_path} does not exist."
                " Look for it with `view` on a directory, or make it with `create`."
            ) from error
        except IsADirectory as error:
            raise IsADirectory(
                f"{_invalid_path(shown_path)} The path {shown_path} is a directory, which only "
                "`view` shows."
            ) from error
        except BinaryFile as error:
            raise BinaryFile(
                f"{shown_path} is not text and cannot be viewed or edited here"
            ) from error

    def _view(self, path: str, view_range: Sequence[int] | None, cwd: str) -> str:
        try:
            with self._paths.directory(path, cwd) as directory:
                if view_range:
                    raise EditInvalid("`view_range` is for files; a directory is viewed whole")
                return show_directory(directory, self._paths.absolute(path, cwd))
        except (NotADirectory, NoSuchPath):
            pass
        with self._existing(path, cwd) as pinned:
            if not view_range:
                text = unix_lines(self._excerpts.lines(pinned, 0, -1))
                return show_file(text, pinned.shown_path, whole=text)
            return self._view_lines(pinned, view_range)

    def _view_lines(self, pinned: PinnedPath, view_range: Sequence[int]) -> str:
        first, last = _as_range(view_range)
        found = unix_lines(self._excerpts.lines(pinned, first - 1, last))
        if not found:
            line_count = count_lines(self._excerpts.lines(pinned, 0, first - 1))
            raise InvalidRange(
                f"{_invalid_range(view_range)} {pinned.shown_path} has lines {[1, line_count]};"
                f" the first element `{first}` should be one of them."
            )
        view = show_file(found.removesuffix("\n"), pinned.shown_path, first=first)
        end = first + count_lines(found) - 1
        if end < last:
            view += f"\nNOTE: the file ends with line {end}.\n"
        return view

    def _shown_path(self, path: str, cwd: str) -> str:
        try:
            return self._paths.absolute(path, cwd)
        except BasculeError:
            return path

    def _exists(self, path: str, cwd: str) -> bool:
        try:
            with self._paths.pin(path, cwd) as pinned:
                return pinned.stat() is not None
        except BasculeError:
            return False


@dataclass(frozen=True, slots=True)
class _EditResult:
    content: str
    existed: bool
    diff: str = ""
    error_id: str = ""


@dataclass(frozen=True, slots=True)
class _OpenFile:
    pinned: PinnedPath
    version: FileVersion
    text: str
    format: TextFormat

    @property
    def shown_path(self) -> str:
        return self.pinned.shown_path

    def as_text(self, content: str) -> str:
        """Convert `content` to the line endings of `text`: plain newlines if the file has CR LF."""
        return unix_lines(content) if self.format.crlf else content


def _content_without(recorded: RecordedEdit, file: _OpenFile) -> bytes:
    """Return the content of the file without the recorded edit. Later changes by others are
    kept."""
    if file.version.data == recorded.after:
        return recorded.before
    before, after, now = (
        decode(data, file.shown_path).content
        for data in (recorded.before, recorded.after, file.version.data)
    )
    undone = without_edit(before, after, now)
    if undone is None:
        raise EditConflict(
            f"{file.shown_path} was changed since the last edit, in the same lines or right beside"
            " them; nothing was undone. Look at it with `view` and use `str_replace`"
        )
    return file.format.encode(undone, file.shown_path)


def _error(error: BasculeError) -> str:
    return f"ERROR:\n{error.message}"


def _invalid_path(shown_path: str) -> str:
    return f"Invalid `path` parameter: {shown_path}."


def _invalid_range(view_range: Sequence[int]) -> str:
    return f"Invalid `view_range` parameter: {list(view_range)}."


def _ensure_no_document(shown_path: str) -> None:
    if PurePosixPath(shown_path).suffix.lower() in _DOCUMENTS:
        raise NotSupported(
            f"{shown_path} is a document or recording, and those are not turned into text here."
            " Use a program in the shell (`pdftotext`, `pandoc`, …)"
        )


def _required(value: T | None, name: str, action: FileEdit) -> T:
    if value is None:
        raise EditInvalid(f"Parameter `{name}` is required for command: {action.command}.")
    return value


def _as_line(value: int | str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        raise EditInvalid(f"Invalid `insert_line` parameter: {value!r} is not a number") from None


def _as_range(view_range: Sequence[int]) -> tuple[int, int]:
    """Return first and last line, 1-based and inclusive; a last line of -1 means the end."""
    if len(view_range) != 2 or not all(isinstance(each, int) for each in view_range):
        raise InvalidRange(f"{_invalid_range(view_range)} It should be a list of two integers.")
    first, last = view_range
    if first < 1:
        raise InvalidRange(f"{_invalid_range(view_range)} Its first element should be 1 or more.")
    if last != -1 and last < first:
        raise InvalidRange(
            f"{_invalid_range(view_range)} Its second element `{last}` should be greater than or"
            f" equal to the first element `{first}`, or -1 for the end."
        )
    return first, last
