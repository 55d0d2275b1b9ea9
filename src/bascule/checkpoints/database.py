"""The database of a checkpoint store: the last seen state, the actions, and their changes."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bascule.core.errors import NoSuchCheckpoint, StorageFailed

from .changes import Change
from .versions import (
    NOT_KEPT,
    Content,
    FileStat,
    Version,
    decode_listing,
    decode_stat,
    encode_listing,
    encode_stat,
    join,
)

_VERSION = 1
_SCHEMA = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE listings (
    directory BLOB PRIMARY KEY, names BLOB NOT NULL, entries BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE not_kept (path BLOB PRIMARY KEY, size INTEGER NOT NULL, reason TEXT NOT NULL)
    WITHOUT ROWID;
CREATE TABLE actions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, title TEXT NOT NULL,
    began REAL NOT NULL, ended REAL, paths TEXT, owner TEXT NOT NULL,
    notes TEXT NOT NULL DEFAULT '[]', is_interrupted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL,
    before BLOB, before_content BLOB, after BLOB, after_content BLOB,
    is_certain INTEGER NOT NULL
);
CREATE INDEX changes_before ON changes (before_content);
CREATE INDEX changes_after ON changes (after_content);
CREATE TABLE authors (
    action INTEGER NOT NULL REFERENCES actions, change INTEGER NOT NULL REFERENCES changes,
    PRIMARY KEY (action, change)
) WITHOUT ROWID;
CREATE INDEX authors_change ON authors (change);
CREATE TABLE blobs (content BLOB PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE copies (object BLOB PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An action with a checkpoint: a command, an edit or a restore."""

    id: int
    agent: str
    title: str
    began: float
    """Unix time at which the action began."""
    ended: float | None
    paths: tuple[str, ...] | None
    """The only paths that the action changes; None: the action may change any path."""
    notes: tuple[str, ...] = ()
    """Facts for users, for example that a branch moved."""
    is_interrupted: bool = False
    """Whether the process that ran the action ended before the action did."""


@dataclass(slots=True)
class State:
    """The workspace as it was last seen."""

    tree: dict[str, dict[str, FileStat]]
    contents: dict[str, Content]
    not_kept: dict[str, tuple[int, str]]
    """Size and reason by path. Directories that are left out have size -1."""
    ignored: set[str]
    """Copied files that `.gitignore` excludes."""

    def version(self, path: str) -> Version | None:
        directory, _, name = path.rpartition("/")
        found = self.tree.get(directory, {}).get(name)
        return None if found is None else Version(found, self.contents.get(path, NOT_KEPT))


class Database:
    """The SQLite database of a store. Callers hold the store's lock."""

    def __init__(self, file: Path) -> None:
        try:
            self._sql = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
            self._sql.execute("PRAGMA journal_mode = WAL")
            self._sql.execute(
                "PRAGMA synchronous = NORMAL"
            )  # do not wait for the disk, as in `blobs`
            self._prepare()
        except sqlite3.Error as error:
            raise StorageFailed(f"cannot open the checkpoints in {file}: {error}") from error

    def _prepare(self) -> None:
        (version,) = self._sql.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._sql.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        elif version != _VERSION:
            raise StorageFailed(
                f"the checkpoints have format {version}; this version of bascule reads {_VERSION}"
            )

    def close(self) -> None:
        self._sql.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._sql.execute("ROLLBACK")
                raise
            self._sql.execute("COMMIT")
        except sqlite3.Error as error:
            raise StorageFailed(f"cannot write the checkpoints: {error}") from error

    # Facts ------------------------------------------------------------------------------

    def fact(self, key: str, default: str = "") -> str:
        row = self._sql.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def set_fact(self, key: str, value: str) -> None:
        self._sql.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))

    # The last seen state ----------------------------------------------------------------

    def load_state(self) -> State:
        state = State({}, {}, {}, set())
        for directory, names, entries in self._sql.execute("SELECT * FROM listings"):
            path = os.fsdecode(directory)
            listing = state.tree[path] = {}
            if not entries:
                continue
            for name, found, content, is_ignored in decode_listing(names, entries):
                listing[name] = found
                if content:
                    state.contents[join(path, name)] = content
                if is_ignored:
                    state.ignored.add(join(path, name))
        for path, size, reason in self._sql.execute("SELECT * FROM not_kept"):
            state.not_kept[os.fsdecode(path)] = (size, reason)
        return state

    def save_listings(self, state: State, directories: Iterable[str]) -> None:
        """Write the listings of these directories of `state`. Remove directories that `state` no
        longer has."""
        rows, gone = [], []
        for directory in directories:
            listing = state.tree.get(directory)
            if listing is None:
                gone.append((os.fsencode(directory),))
                continue
            encoded = encode_listing(directory, listing, state.contents, state.ignored)
            rows.append((os.fsencode(directory), *encoded))
        self._sql.executemany("DELETE FROM listings WHERE directory = ?", gone)
        self._sql.executemany("INSERT OR REPLACE INTO listings VALUES (?, ?, ?)", rows)

    def save_not_kept(self, not_kept: Mapping[str, tuple[int, str]]) -> None:
        self._sql.execute("DELETE FROM not_kept")
        self._sql.executemany(
            "INSERT INTO not_kept VALUES (?, ?, ?)",
            [(os.fsencode(path), size, reason) for path, (size, reason) in not_kept.items()],
        )

    # Actions ----------------------------------------------------------------------------

    def add_action(
        self, agent: str, title: str, began: float, *, paths: Sequence[str] | None, owner: str
    ) -> int:
        cursor = self._sql.execute(
            "INSERT INTO actions (agent, title, began, paths, owner) VALUES (?, ?, ?, ?, ?)",
            (agent, title, began, None if paths is None else json.dumps(paths), owner),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def end_action(
        self, action: int, ended: float, notes: Sequence[str], *, is_interrupted: bool
    ) -> None:
        self._sql.execute(
            "UPDATE actions SET ended = ?, notes = ?, is_interrupted = ? WHERE id = ?",
            (ended, json.dumps(notes), is_interrupted, action),
        )

    def forget_if_empty(self, action: int) -> None:
        """Remove an action if it has no changes and no notes, because there is nothing to
        restore."""
        self._sql.execute(
            "DELETE FROM actions WHERE id = ? AND notes = '[]' "
            "AND NOT EXISTS (SELECT 1 FROM authors WHERE action = actions.id)",
            (action,),
        )

    def action(self, action: int) -> Checkpoint:
        """The action with this id. Raises `NoSuchCheckpoint`."""
        row = self._sql.execute(f"{_ACTIONS} WHERE id = ?", (action,)).fetchone()
        if row is None:
            removed = int(self.fact("removed_up_to", "0"))
            why = (
                f"Checkpoints up to {removed} were removed to save space"
                if action <= removed
                else "`bascule checkpoint list` shows all checkpoints"
            )
            raise NoSuchCheckpoint(f"There is no checkpoint {action}. {why}")
        return _checkpoint(row)

    def actions(self) -> list[Checkpoint]:
        return [_checkpoint(row) for row in self._sql.execute(f"{_ACTIONS} ORDER BY id")]

    def open_actions(self) -> list[tuple[Checkpoint, str]]:
        """Actions without an end, each with its owner."""
        rows = self._sql.execute(f"{_ACTIONS} WHERE ended IS NULL ORDER BY id")
        return [(_checkpoint(row), row[-1]) for row in rows]

    # Changes ----------------------------------------------------------------------------

    def add_change(self, change: Change) -> None:
        cursor = self._sql.execute(
            "INSERT INTO changes (path, before, before_content, after, after_content, is_certain) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                os.fsencode(change.path),
                *_version_columns(change.before),
                *_version_columns(change.after),
                change.is_certain,
            ),
        )
        self._sql.executemany(
            "INSERT INTO authors VALUES (?, ?)",
            [(action, cursor.lastrowid) for action in change.actions],
        )

    def changes(self, *, first: int, last: int | None = None) -> list[Change]:
        """Changes of the actions `first` to `last`, oldest first."""
        rows = self._sql.execute(
            "SELECT changes.*, (SELECT group_concat(action) FROM authors WHERE change = id) "
            "FROM changes WHERE id IN (SELECT change FROM authors WHERE action BETWEEN ? AND ?) "
            "ORDER BY id",
            (first, 2**62 if last is None else last),
        )
        return [_change(row) for row in rows]

    # Contents ---------------------------------------------------------------------------

    def add_blobs(self, sizes: Mapping[Content, int]) -> None:
        self._sql.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?)", sizes.items())

    def has_blob(self, content: Content) -> bool:
        query = "SELECT 1 FROM blobs WHERE content = ?"
        return self._sql.execute(query, (content,)).fetchone() is not None

    def blobs(self) -> set[Content]:
        return {content for (content,) in self._sql.execute("SELECT content FROM blobs")}

    def blob_bytes(self) -> int:
        total: int = self._sql.execute("SELECT coalesce(sum(size), 0) FROM blobs").fetchone()[0]
        return total

    def add_copy(self, git_object: Content, content: Content) -> None:
        self._sql.execute("INSERT OR REPLACE INTO copies VALUES (?, ?)", (git_object, content))

    def copy_of(self, git_object: Content) -> Content | None:
        query = "SELECT content FROM copies WHERE object = ?"
        with closing(self._sql.execute(query, (git_object,))) as rows:
            row = rows.fetchone()
        return None if row is None else bytes(row[0])

    # Removal ----------------------------------------------------------------------------

    def oldest_ended(self) -> int | None:
        row = self._sql.execute("SELECT min(id) FROM actions WHERE ended IS NOT NULL").fetchone()
        return None if row[0] is None else int(row[0])

    def remove_action(self, action: int) -> None:
        self._sql.execute("DELETE FROM authors WHERE action = ?", (action,))
        self._sql.execute("DELETE FROM actions WHERE id = ?", (action,))
        self._sql.execute("DELETE FROM changes WHERE id NOT IN (SELECT change FROM authors)")
        self.set_fact("removed_up_to", str(action))

    def remove_unused_blobs(self, in_use: set[Content]) -> list[Content]:
        """Delete the records of blobs that neither a change nor the current state (`in_use`)
        refers to. Returns these blobs."""
        rows = self._sql.execute(
            "SELECT content FROM blobs WHERE "
            "NOT EXISTS (SELECT 1 FROM changes WHERE before_content = content) AND "
            "NOT EXISTS (SELECT 1 FROM changes WHERE after_content = content)"
        )
        unused = [content for (content,) in rows if content not in in_use]
        self._sql.executemany("DELETE FROM blobs WHERE content = ?", [(each,) for each in unused])
        self._sql.executemany("DELETE FROM copies WHERE content = ?", [(each,) for each in unused])
        return unused


_ACTIONS = "SELECT id, agent, title, began, ended, paths, notes, is_interrupted, owner FROM actions"


def _checkpoint(row: Sequence[object]) -> Checkpoint:
    id_, agent, title, began, ended, paths, notes, interrupted, _ = row
    assert isinstance(id_, int)
    assert isinstance(began, float)
    assert isinstance(notes, str)
    return Checkpoint(
        id_,
        str(agent),
        str(title),
        began,
        ended if isinstance(ended, float) else None,
        tuple(json.loads(paths)) if isinstance(paths, str) else None,
        tuple(json.loads(notes)),
        bool(interrupted),
    )


def _version_columns(version: Version | None) -> tuple[bytes | None, bytes | None]:
    return (None, None) if version is None else (encode_stat(version.stat), version.content)


def _version(found: bytes | None, content: bytes | None) -> Version | None:
    return None if found is None else Version(decode_stat(found), content or NOT_KEPT)


def _change(row: Sequence[object]) -> Change:
    _, path, before, before_content, after, after_content, is_certain, actions = row
    assert isinstance(path, bytes)
    return Change(
        os.fsdecode(path),
        _version(before, before_content),  # type: ignore[arg-type]
        _version(after, after_content),  # type: ignore[arg-type]
        tuple(sorted(map(int, str(actions).split(",")))),
        bool(is_certain),
    )
