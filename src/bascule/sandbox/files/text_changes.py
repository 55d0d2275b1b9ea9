"""Changes the texts of several files, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from bascule.core.errors import BasculeError, EditConflict, EditInvalid, FileTooLarge

from .history import EditHistory, RecordedEdit
from .paths import PinnedPath
from .storage import FileVersion, Storage
from .textfile import TextFormat, decode

_LIMIT = 32 << 20
"""Maximum bytes of a file that is read or changed."""
_ADVICE = "Change it with a program in the shell"


@dataclass(frozen=True, slots=True)
class TextChange:
    """The new text of a file."""

    path: str
    before: str | None
    """The text from which the change was computed; None: the file is created."""
    after: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    change: TextChange
    pinned: PinnedPath
    version: FileVersion | None
    data: bytes


class TextChanges:
    """Reads texts, and replaces the texts of several files. The methods block.

    Each file keeps its encoding and line endings, and each change can be undone as an edit of its
    file.
    """

    def __init__(self, storage: Storage, history: EditHistory) -> None:
        self._storage = storage
        self._history = history

    def read(self, path: str, cwd: str) -> str:
        """The text of a file with its own line endings."""
        with self._storage.paths.pin(path, cwd) as pinned:
            data = self._storage.load(pinned, limit=_LIMIT, advice=_ADVICE).data
            return decode(data, pinned.shown_path).content

    def is_readable(self, path: str) -> bool:
        """Whether the path is inside of the roots, and a text file that exists."""
        try:
            self.read(path, "/")
        except BasculeError:
            return False
        return True

    def apply(self, changes: Sequence[TextChange]) -> None:
        """Make all changes, or none.

        Raises `EditConflict` if a file has another text than the one that the change replaces.
        """
        with self._pinned(changes) as pinned:
            prepared = [
                self._prepare(change, place) for change, place in zip(changes, pinned, strict=True)
            ]
            done: list[_Prepared] = []
            try:
                for each in prepared:
                    self._replace(each)
                    done.append(each)
            except BaseException:
                for each in reversed(done):
                    self._put_back(each)
                raise
        for each in prepared:
            if each.version is not None:
                self._history.push(each.pinned.key, RecordedEdit(each.version.data, each.data))

    @contextmanager
    def _pinned(self, changes: Sequence[TextChange]) -> Iterator[list[PinnedPath]]:
        """Hold the files, so that no other edit of this sandbox changes them meanwhile."""
        with ExitStack() as stack:
            pinned = [
                stack.enter_context(
                    self._storage.paths.pin(each.path, "/", make_parents=each.before is None)
                )
                for each in changes
            ]
            by_key = {each.key: each for each in pinned}
            if len(by_key) < len(pinned):
                raise EditInvalid("Two of the changes are for the same file; nothing was changed")
            # All callers hold files in the same order, so that no two wait for each other.
            for key in sorted(by_key):
                stack.enter_context(self._storage.exclusive(by_key[key]))
            yield pinned

    def _prepare(self, change: TextChange, pinned: PinnedPath) -> _Prepared:
        if change.before is None:
            data = TextFormat().encode(change.after, pinned.shown_path)
            return _Prepared(change, pinned, None, data)
        try:
            version = self._storage.load(pinned, limit=_LIMIT, advice=_ADVICE)
        except FileNotFoundError:
            version = None
        if version is None or (
            (text := decode(version.data, pinned.shown_path)).content != change.before
        ):
            raise EditConflict(
                f"{pinned.shown_path} was changed while the change was computed; nothing was "
                "changed. Try again"
            )
        data = text.format.encode(change.after, pinned.shown_path)
        if len(data) > _LIMIT:
            size = len(data)
            raise FileTooLarge(f"{pinned.shown_path} would have {size:,} bytes", size=size)
        return _Prepared(change, pinned, version, data)

    def _replace(self, each: _Prepared) -> None:
        is_new = each.version is None
        self._storage.replace(each.pinned, each.data, over=each.version, must_be_new=is_new)

    def _put_back(self, each: _Prepared) -> None:
        # The first failure is what the caller has to know.
        with suppress(BasculeError, OSError):
            if each.version is None:
                self._storage.remove(each.pinned)
            else:
                self._storage.replace(each.pinned, each.version.data)
