"""Compares the workspace with the last seen state, and stores new contents."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bascule.core.errors import StorageFailed

from .blobs import BlobBatch
from .capture import Capture, Capturer
from .changes import differing
from .database import Database, State
from .git_objects import GitObjects
from .git_repository import GitRepository, clean_files
from .limits import CheckpointLimits
from .versions import (
    NOT_KEPT,
    Content,
    FileStat,
    Version,
    is_git_object,
    is_worth_recording,
    parents_of,
)
from .walk import FoundTree, Walk, open_below, walk

_MIN_FILES_FOR_INDEX = 200
"""Number of unknown files from which reading git's index is faster than reading the files."""
_KINDS = {stat.S_IFSOCK: "socket", stat.S_IFBLK: "device", stat.S_IFCHR: "device"}


@dataclass(slots=True)
class ScanResult:
    """The current workspace, and its differences from the previous state."""

    tree: FoundTree
    changes: list[tuple[str, Version | None, Version | None]] = field(default_factory=list)
    """The changes that will be recorded: path, version before and version after."""
    candidates: list[str] = field(default_factory=list)
    capture: Capture = field(default_factory=Capture)
    skipped: dict[str, str] | None = None
    """Directories that were left out; None if only some paths were examined."""
    repositories: Sequence[str] | None = None
    copied_out: dict[Content, Content] = field(default_factory=dict)
    """The blobs that are copies of git objects, by git object."""


class Observer:
    """Examines one workspace. Between two calls, an observer holds only an open directory."""

    def __init__(
        self,
        root: int,
        workspace: Path,
        store: Path,
        database: Database,
        git: GitObjects,
        limits: CheckpointLimits,
    ) -> None:
        self._root, self._workspace, self._store = root, workspace, store
        self._database, self._git, self._limits = database, git, limits
        self._tracked_directories: dict[str, bool] = {}

    def scan(
        self,
        state: State,
        batch: BlobBatch,
        *,
        paths: Iterable[str] | None,
        racy: set[str],
        is_attributed: bool,
        make_room: Callable[[int], bool],
    ) -> ScanResult:
        """Compare `paths`, or everything, with `state`; add new contents to `batch`.

        With `is_attributed` the differences will be recorded as an agent's changes, so the old
        contents of changed files are copied out of git too.
        """
        paths = None if paths is None else set(paths)
        seen = self._scan_all(state) if paths is None else self._scan_paths(state, paths)
        found = differing(state.tree, seen.tree)
        again = racy if paths is None else racy.intersection(paths)
        found |= {path: each for path in again if (each := _stat(seen.tree, path)) is not None}
        seen.candidates = list(found)
        unknown: dict[str, FileStat] = {}
        for path, each in found.items():
            if each is None:
                continue
            kind = stat.S_IFMT(each.mode)
            if kind in (stat.S_IFREG, stat.S_IFLNK):
                unknown[path] = each
            elif kind in _KINDS:
                reason = f"a {_KINDS[kind]}, which has no content to keep"
                seen.capture.not_kept[path] = (0, reason)
        if not is_attributed and len(unknown) >= _MIN_FILES_FOR_INDEX and seen.repositories:
            seen.capture.contents = self._contents_in_git(seen, unknown)
            for path in seen.capture.contents:
                del unknown[path]
        self._copy(state, seen, unknown, batch, make_room)
        if is_attributed:
            self._compare(state, seen, batch)
        return seen

    def replace_dropped_packs(self, state: State, seen: ScanResult, batch: BlobBatch) -> list[Path]:
        """Copy the objects that exist only in packs that git has removed. Returns these packs. The
        caller removes the packs after it has recorded the copies."""
        if seen.repositories is None or not self._git.has_dropped_packs():
            return []

        def copy(names: Sequence[Content]) -> None:
            with self._git.reading() as reader:
                for name in names:
                    seen.copied_out[name] = batch.add(reader.read(name))

        found = [GitRepository.find(self._workspace, each) for each in seen.repositories]
        contents = (*state.contents.values(), *seen.capture.contents.values())
        used = {each for each in contents if is_git_object(each)}
        objects = [each.objects for each in found if each]
        return self._git.replace_dropped_packs(objects, used, copy)

    # Walking ----------------------------------------------------------------------------

    def _scan_all(self, state: State) -> ScanResult:
        found = walk(
            self._root, known=state.tree, entries=self._limits.entries, tracked=self._is_tracked
        )
        _keep_skipped(found, state)
        return ScanResult(found.tree, skipped=found.skipped, repositories=found.repositories)

    def _scan_paths(self, state: State, paths: set[str]) -> ScanResult:
        """Walk only `paths`, the directories above them and everything below them."""
        seen = ScanResult(dict(state.tree))
        wanted = {each for path in paths for each in (*parents_of(path), path)}
        walked: set[str] = set()
        for path in sorted(wanted, key=lambda each: each.count("/")):
            if not walked.isdisjoint(parents_of(path)):
                continue
            self._update(seen.tree, path, state)
            if path in paths and path in seen.tree:
                self._walk_again(seen.tree, path, state)
                walked.add(path)
        return seen

    def _walk_again(self, tree: FoundTree, start: str, state: State) -> None:
        limit = self._limits.entries
        found = walk(self._root, start, known=state.tree, entries=limit, tracked=self._is_tracked)
        _keep_skipped(found, state)
        _remove_below(tree, start)
        tree |= found.tree

    def _update(self, tree: FoundTree, path: str, state: State) -> None:
        directory, _, name = path.rpartition("/")
        found = self._stat_now(directory, name) if directory in tree or not directory else None
        listing = dict(tree.get(directory, {}))
        if found is None:
            listing.pop(name, None)
        else:
            listing[name] = found
        if directory in tree or not directory:
            tree[directory] = listing
        if found is None or not found.is_directory:
            _remove_below(tree, path)
        else:
            tree.setdefault(path, state.tree.get(path, {}))

    def _stat_now(self, directory: str, name: str) -> FileStat | None:
        try:
            parent_fd = open_below(self._root, directory)
        except OSError:
            return None
        try:
            return FileStat.of(os.stat(name, dir_fd=parent_fd, follow_symlinks=False))
        except FileNotFoundError:
            return None
        finally:
            os.close(parent_fd)

    def _is_tracked(self, directory: str) -> bool:
        """Whether git tracks a file in the directory. The answer is cached, because reading the
        index for every walk would take too long."""
        if directory not in self._tracked_directories:
            repository = GitRepository.find(self._workspace, "")
            entries = repository.read_index()[0] if repository else {}
            prefix = f"{directory}/"
            self._tracked_directories[directory] = any(path.startswith(prefix) for path in entries)
        return self._tracked_directories[directory]

    # Contents ---------------------------------------------------------------------------

    def _contents_in_git(
        self, seen: ScanResult, unknown: Mapping[str, FileStat]
    ) -> dict[str, Content]:
        """The contents, by path, of files that are unchanged since git stored them, if the store
        could link their git objects."""
        contents: dict[str, Content] = {}
        if not self._git.is_available:
            return contents
        for directory in seen.repositories or ():
            repository = GitRepository.find(self._workspace, directory)
            if repository is None:
                continue
            clean = clean_files(repository, self._workspace, seen.tree, unknown)
            sizes = self._git.adopt(repository.objects, set(clean.values()))
            contents |= {
                path: name for path, name in clean.items() if sizes.get(name) == unknown[path].size
            }
        return contents

    def _copy(
        self,
        state: State,
        seen: ScanResult,
        files: dict[str, FileStat],
        batch: BlobBatch,
        make_room: Callable[[int], bool],
    ) -> None:
        if not files:
            return
        others = [
            (path, found.size)
            for path, content in state.contents.items()
            if not is_git_object(content)
            and path not in files
            and (found := _stat(seen.tree, path)) is not None
        ]
        unchanged = {
            path: content
            for path, found in files.items()
            if (content := state.contents.get(path)) and _stat(state.tree, path) == found
        }
        done = Capturer(self._root, self._store, self._limits, make_room=make_room).capture(
            files,
            batch,
            known=unchanged,
            kept_bytes=sum(size for _, size in others),
            kept_ignored_bytes=sum(size for path, size in others if path in state.ignored),
        )
        done.contents |= seen.capture.contents
        done.not_kept |= seen.capture.not_kept
        seen.capture = done
        # Change copies of the listings: `state` may share the originals, and must not change
        # before the difference is recorded.
        for directory in {path.rpartition("/")[0] for path in (*done.stats, *done.gone)}:
            seen.tree[directory] = dict(seen.tree.get(directory, {}))
        for path in (*done.stats, *done.gone):
            directory, _, name = path.rpartition("/")
            if path in done.gone:
                seen.tree[directory].pop(name, None)
            else:
                seen.tree[directory][name] = done.stats[path]

    def _compare(self, state: State, seen: ScanResult, batch: BlobBatch) -> None:
        changes = [
            (path, state.version(path), self._new_version(seen, path)) for path in seen.candidates
        ]
        wanted = {before.content for _, before, _ in changes if before is not None}
        self._copy_out({each for each in wanted if is_git_object(each)}, seen, batch)
        changes = [
            (path, self._with_copied_content(before, seen), after)
            for path, before, after in changes
        ]
        seen.changes = [
            (path, before, after)
            for path, before, after in changes
            if is_worth_recording(before, after)
        ]

    def _new_version(self, seen: ScanResult, path: str) -> Version | None:
        found = _stat(seen.tree, path)
        if found is None:
            return None
        return Version(found, seen.capture.contents.get(path, NOT_KEPT))

    def _with_copied_content(self, version: Version | None, seen: ScanResult) -> Version | None:
        if version is None or not is_git_object(version.content):
            return version
        return version._replace(content=seen.copied_out.get(version.content, NOT_KEPT))

    def _copy_out(self, objects: set[Content], seen: ScanResult, batch: BlobBatch) -> None:
        """Copy git objects to blobs, so that their contents no longer depend on packs."""
        for name in objects:
            if (copy := self._database.copy_of(name)) is not None:
                seen.copied_out[name] = copy
        missing = objects - seen.copied_out.keys()
        if not missing:
            return
        with self._git.reading() as reader:
            for name in missing:
                try:
                    seen.copied_out[name] = batch.add(reader.read(name))
                except StorageFailed:
                    continue  # the earlier content is then reported as not kept


def _keep_skipped(found: Walk, state: State) -> None:
    """Keep the old listings of directories that could not be entered: their files still exist."""
    for path in found.skipped:
        if path in state.tree:
            for directory, listing in state.tree.items():
                if directory == path or directory.startswith(f"{path}/"):
                    found.tree[directory] = listing


def _remove_below(tree: FoundTree, path: str) -> None:
    if path not in tree:
        return
    prefix = f"{path}/"
    for directory in [each for each in tree if each == path or each.startswith(prefix)]:
        del tree[directory]


def _stat(tree: FoundTree, path: str) -> FileStat | None:
    directory, _, name = path.rpartition("/")
    return tree.get(directory, {}).get(name)
