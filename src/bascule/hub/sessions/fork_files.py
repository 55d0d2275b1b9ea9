"""The files of forks: snapshots, the workspaces copied from them, and the changes of forks. Most
functions block.

The hub reads workspaces directly, so it must run as the session's user or as root.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bascule.core.errors import NotSupported, StorageFailed
from bascule.core.sessions import SessionId, WorkspaceSource
from bascule.forks.change_set import PathChange
from bascule.forks.file_copy import copy_tree
from bascule.forks.merge_rules import PathVersion
from bascule.forks.repository_copy import branches, head_commit
from bascule.forks.snapshot import Snapshot, take_snapshot
from bascule.forks.tree_files import (
    DIRECTORY,
    MAX_FILES,
    UNREAD,
    Entry,
    FileTooLong,
    Listing,
    differing,
    list_tree,
    opened_below,
    opened_tree,
    read_version,
)
from bascule.runtime.spawn import trees

from .merged_paths import MergedPaths, MergedVersion
from .rows import SessionRow

_MERGED: Final = "merged"
_OPEN_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ChangeKind = Literal["added", "changed", "removed"]
_Difference = tuple[str, Entry | None, Entry | None]


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """A file or link that differs from the base."""

    path: str
    change: ChangeKind


@dataclass(frozen=True, slots=True)
class ForkChange:
    """A change to merge, and the version to record after the merge."""

    change: PathChange
    merged_version: MergedVersion | None
    problem: str = ""
    """Why the change cannot be sent; empty if it can."""


@dataclass(frozen=True, slots=True)
class ForkFiles:
    """The directories of forks and of their snapshots."""

    sessions: Path
    bases: Path
    max_files: int | None = MAX_FILES
    """Maximum number of files and directories of a workspace that is copied or compared."""

    def open(self) -> None:
        self.bases.mkdir(mode=0o700, parents=True, exist_ok=True)

    def workspace(self, row: SessionRow) -> Path:
        source = row.spec.workspace
        return (
            Path(source.folder)
            if source.kind == "folder"
            else self._session_directory(row.id) / "workspace"
        )

    def folder_identity(self, row: SessionRow) -> tuple[int, int] | None:
        """Device and inode of a workspace that is a folder of this machine; None for others."""
        if row.spec.workspace.kind != "folder":
            return None
        try:
            stat = self.workspace(row).lstat()
        except OSError:  # only windows that show the merge need the identity; the merge does not
            return None
        return stat.st_dev, stat.st_ino

    def take(
        self,
        row: SessionRow,
        base: str,
        *,
        with_secrets: bool,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Snapshot:
        """Take a snapshot of a session's workspace, until it is complete or `is_stopped`."""
        with _read_errors(row), self._open_workspace(row) as opened:
            return take_snapshot(
                Path(f"/proc/self/fd/{opened}"),
                self.bases / base,
                with_secrets=with_secrets,
                max_files=self.max_files,
                is_stopped=is_stopped,
            )

    def snapshot(self, source: WorkspaceSource) -> Snapshot:
        return Snapshot.read(self.bases / source.base)

    async def fill(self, row: SessionRow) -> None:
        """Copy the snapshot into the workspace of a fork, which is emptied first: a killed hub may
        have copied a part. Cancelling ends the copy.
        """
        workspace = self._session_directory(row.id) / "workspace"
        await asyncio.to_thread(_make_empty, workspace)
        snapshot = await asyncio.to_thread(self.snapshot, row.spec.workspace)
        await copy_tree(snapshot.tree, workspace)

    def snapshots(self) -> set[str]:
        """The ids of all snapshots on disk."""
        return {each.name for each in self.bases.iterdir()}

    def remove_snapshots(self, bases: Collection[str]) -> None:
        for base in bases:
            trees.remove(self.bases / base)

    # What changed ---------------------------------------------------------------------------

    def changed_since(self, row: SessionRow, snapshot: Snapshot) -> Sequence[ChangedPath]:
        """Paths in the workspace of a session that differ from a snapshot. Leaves out ignored files
        and files that the snapshot left out."""
        with (
            _read_errors(row),
            opened_tree(snapshot.tree) as base,
            self._open_workspace(row) as now,
        ):
            listing = list_tree(now, snapshot.tracked, max_files=self.max_files)
            listing.ignored += snapshot.left_out
            found = _compare(
                snapshot.entries(),
                listing,
                lambda path: read_version(base, path) == read_version(now, path),
            )
            return _changed_paths(found)

    def changed_in_fork(self, row: SessionRow) -> Sequence[ChangedPath]:
        """The unmerged changes of a fork, without ignored files."""
        with self._compare_fork(row, with_ignored=False) as compared:
            return _changed_paths(compared.differences())

    def changes(
        self,
        row: SessionRow,
        *,
        paths: Sequence[str] = (),
        with_ignored: bool = False,
        stores_contents: bool = True,
        into: str = "",
    ) -> Generator[ForkChange]:
        """The changes to merge, one at a time, because each holds the contents of a file.

        With `stores_contents`, the contents are stored for `record_merged`. `into` is the id of the
        session to merge into; empty: the session that was forked.
        """
        only_paths = set(paths)
        with self._compare_fork(row, with_ignored=with_ignored, into=into) as compared:
            for path, _, after in compared.differences():
                if only_paths and not _is_below(path, only_paths):
                    continue
                if after == UNREAD:
                    yield ForkChange(PathChange(path, None, None), None, "its files are too deep")
                    continue
                try:
                    old, new = compared.base_version(path), read_version(compared.now, path)
                except FileTooLong as error:
                    yield ForkChange(PathChange(path, None, None), None, str(error))
                    continue
                kept = None
                if stores_contents and new is not None and after is not None:
                    kept = compared.record.keep(new, after)
                yield ForkChange(PathChange(path, old, new), kept)

    def record_merged(
        self, row: SessionRow, versions: Mapping[str, MergedVersion | None], *, into: str = ""
    ) -> None:
        """Record that these versions of a fork were merged."""
        self._record(row, into).add(versions)

    def unmerged_branches(self, row: SessionRow) -> Sequence[str]:
        """Branches and stashes of a fork with commits that are neither in the snapshot nor checked
        out. Comparing files does not find them."""
        snapshot = self.snapshot(row.spec.workspace)
        found: list[str] = []
        with (
            _read_errors(row),
            opened_tree(snapshot.tree) as base,
            self._open_workspace(row) as now,
        ):
            for directory in snapshot.heads:
                git_directory = f"{directory}/.git" if directory else ".git"
                try:
                    with (
                        opened_below(base, git_directory) as old,
                        opened_below(now, git_directory) as new,
                    ):
                        known = {*branches(old).values(), head_commit(old), head_commit(new)}
                        fork_branches = branches(new)
                except (FileNotFoundError, NotADirectoryError):
                    continue  # the fork removed its repository
                found += [
                    f"{git_directory}/{ref}"
                    for ref, commit in fork_branches.items()
                    if commit not in known
                ]
        return sorted(found)

    @contextmanager
    def _compare_fork(
        self, row: SessionRow, *, with_ignored: bool, into: str = ""
    ) -> Iterator[_ForkComparison]:
        snapshot, record = self.snapshot(row.spec.workspace), self._record(row, into)
        known = snapshot.entries(with_ignored=with_ignored)
        with (
            _read_errors(row),
            opened_tree(snapshot.tree) as base,
            self._open_workspace(row) as now,
        ):
            tracked = None if with_ignored else snapshot.tracked
            listing = list_tree(now, tracked, max_files=self.max_files)
            yield _ForkComparison(base, now, known, listing, record, record.read())

    @contextmanager
    def _open_workspace(self, row: SessionRow) -> Iterator[int]:
        """Open the workspace directory without following links.

        The path of a folder was resolved when the session was created. A link in it was created
        later, and could lead a hub that runs as root to any file.
        """
        if row.spec.workspace.kind != "folder":
            with opened_tree(self.workspace(row)) as opened:
                yield opened
            return
        current = os.open("/", _OPEN_DIRECTORY)
        try:
            for name in self.workspace(row).parts[1:]:
                child = os.open(name, _OPEN_DIRECTORY, dir_fd=current)
                os.close(current)
                current = child
            opened = os.open(".", DIRECTORY, dir_fd=current)
        finally:
            os.close(current)
        try:
            yield opened
        finally:
            os.close(opened)

    def _record(self, row: SessionRow, into: str = "") -> MergedPaths:
        """The merged versions of each path, recorded per target session: the base of its next
        merge."""
        is_source = into in ("", row.spec.workspace.fork_of)
        return MergedPaths(
            self._session_directory(row.id) / (_MERGED if is_source else f"{_MERGED}-{into}")
        )

    def _session_directory(self, session_id: SessionId) -> Path:
        return self.sessions / session_id


@dataclass(frozen=True, slots=True)
class _ForkComparison:
    """A fork and its base: the snapshot, updated by the versions merged since."""

    base: int
    """Descriptor of the snapshot's directory."""
    now: int
    """Descriptor of the fork's workspace."""
    known: dict[str, Entry]
    """Entries of the snapshot, by path."""
    listing: Listing
    record: MergedPaths
    merged: Mapping[str, MergedVersion | None]

    def differences(self) -> Iterator[_Difference]:
        known = dict(self.known)
        for path, version in self.merged.items():
            if version is None:
                known.pop(path, None)
            else:
                known[path] = version.entry
        return _compare(known, self.listing, self._is_unchanged)

    def base_version(self, path: str) -> PathVersion | None:
        if path not in self.merged:
            return read_version(self.base, path)
        version = self.merged[path]
        return None if version is None else self.record.path_version(version)

    def _is_unchanged(self, path: str) -> bool:
        return self.base_version(path) == read_version(self.now, path)


def _make_empty(directory: Path) -> None:
    trees.remove(directory)
    directory.mkdir(mode=0o700)


def _compare(
    known: Mapping[str, Entry], listing: Listing, is_unchanged: Callable[[str], bool]
) -> Iterator[_Difference]:
    """Paths whose stat data and contents differ.

    A path that is ignored now does not count as removed, even if the base's `.gitignore` did not
    ignore it.
    """
    ignored = set(listing.ignored)
    known = {path: each for path, each in known.items() if not _is_below(path, ignored)}
    found = {path: each for path, each in listing.entries.items() if not _is_below(path, ignored)}
    for path, before, after in differing(known, found):
        with suppress(FileTooLong):  # too long to compare: the stat data, which differ, decide
            if after is not None and is_unchanged(path):
                continue
        yield path, before, after


def _changed_paths(differences: Iterable[_Difference]) -> list[ChangedPath]:
    """The changed files and links. Directories are left out, because their contents are listed."""
    found = []
    for path, before, after in differences:
        if all(each is None or each.kind == "directory" for each in (before, after)):
            continue
        change: ChangeKind = (
            "added" if before is None else "removed" if after is None else "changed"
        )
        found.append(ChangedPath(path, change))
    return found


def _is_below(path: str, directories: Collection[str]) -> bool:
    """Whether one of `directories` is the path or a directory above it; `.` is above all paths."""
    if "." in directories:
        return True
    while path:
        if path in directories:
            return True
        path = path.rpartition("/")[0]
    return False


@contextmanager
def _read_errors(row: SessionRow) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise NotSupported(
            f"The hub's user may not read the files of session {row.id}. Forks need a hub that "
            "runs as the user of its sessions, or as root"
        ) from error
    except OSError as error:
        raise StorageFailed(
            f"The files of session {row.id} cannot be copied or compared: {error.strerror}"
        ) from error
