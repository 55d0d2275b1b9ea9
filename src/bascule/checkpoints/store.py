"""A checkpoint store: records the changes of agents in a workspace, and undoes them."""

from __future__ import annotations

import json
import math
import os
import pwd
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bascule.core.errors import BasculeError, CheckpointsUnavailable, InvalidPath, NoSuchPath

from .blobs import BlobBatch, Blobs
from .changes import Change, Conflict, RestorePlan, plan_restore
from .database import Checkpoint, Database, State
from .editor import OpenFileEditor, OpenFiles
from .git_objects import GitObjects
from .git_repository import GitRepository
from .limits import CheckpointLimits
from .locks import Owners, StoreLock
from .observer import Observer, ScanResult
from .restorer import Restorer, remove_leftovers
from .versions import NOT_KEPT, Content, Version, is_git_object, join
from .walk import GIT, open_workspace

_DATABASE = "checkpoints.sqlite"
RESTORE = "restore"
"""The name of the agent in checkpoints of restores."""


@dataclass(frozen=True, slots=True)
class NotKept:
    """A file or directory that a checkpoint does not contain."""

    path: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of `end`."""

    id: int
    changes: Sequence[Change]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of `restore`."""

    id: int | None
    """The checkpoint of the restore itself. Restoring this checkpoint undoes the restore. None if
    nothing changed."""
    paths: Sequence[str]
    conflicts: Sequence[Conflict]
    plan: RestorePlan
    """The plan before the restore. `conflicts` also has the steps of the plan that failed."""


class CheckpointStore:
    """Checkpoints of one workspace, in a directory outside of the workspace. All methods block.

    Callers call `begin` and `end` around each action of an agent. Changes between the two belong to
    the agent. Changes at other times belong to the user and are never undone. Several processes and
    threads may use a store; their calls run one at a time. If a process is killed, the store keeps
    every checkpoint that was recorded.
    """

    def __init__(
        self,
        directory: Path,
        workspace: Path,
        limits: CheckpointLimits | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open or create a store. Raises `CheckpointsUnavailable` if the workspace is `/` or the
        user's home directory, or contains the store."""
        self.limits = limits or CheckpointLimits()
        self.workspace = suitable_workspace(workspace, directory)
        self._clock = clock
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._directory = directory
        self._lock = StoreLock(directory / "lock")
        self._root = open_workspace(self.workspace)
        with self._lock.held():
            self._owners = Owners(directory / "owners")
            self._database = Database(directory / _DATABASE)
            self._blobs = Blobs(directory)
            self._git = GitObjects(directory / "git")
            self._ensure_same_workspace()
            self._generation = ""
            self._state = State({}, {}, {}, set())
            self._racy: set[str] = set()
            self._heads: dict[int, Mapping[str, str]] = {}
            self._used = 0
            self._kept_from: float = math.inf
            self._sweep()
        self._observer = Observer(
            self._root, self.workspace, directory, self._database, self._git, self.limits
        )

    @classmethod
    def existing(cls, directory: Path) -> CheckpointStore:
        """Open an existing store with the workspace it belongs to. Raises `NoSuchPath`."""
        if not (directory / _DATABASE).is_file():
            raise NoSuchPath(f"There is no checkpoint store in {directory}")
        database = Database(directory / _DATABASE)
        try:
            workspace = database.fact("workspace")
        finally:
            database.close()
        return cls(directory, Path(workspace))

    def __enter__(self) -> CheckpointStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. Actions of this process that have not ended count as interrupted."""
        self._database.close()
        self._owners.close()
        self._lock.close()
        os.close(self._root)

    # Recording --------------------------------------------------------------------------

    def begin(self, agent: str, title: str, *, paths: Iterable[str] | None = None) -> int:
        """Store the state before an action, and return the checkpoint's id.

        `paths`, relative to the workspace, are the only paths that the action changes. With
        `paths`, no walk of the workspace is needed. Raises `CheckpointsUnavailable` if the
        workspace is too large.
        """
        only = None if paths is None else [self.relative(path) for path in paths]
        with self._exclusive():
            seen = self._observe(only)
            with self._database.transaction():
                number = self._database.add_action(
                    agent, title, self._clock(), paths=only, owner=self._owners.name
                )
            if only is None:
                self._heads[number] = self._git_heads(seen)
            return number

    def begin_in_empty(self, agent: str, title: str, *, began: float) -> int:
        """Add an action that began at the time `began`, when the workspace was empty and this store
        did not exist. The next walk attributes all files in the workspace to this action."""
        with self._exclusive(), self._database.transaction():
            return self._database.add_action(
                agent, title, began, paths=None, owner=self._owners.name
            )

    def end(self, checkpoint: int) -> Recorded:
        """Record the changes since `begin` as changes of this action. Callers call this
        method also if the action failed."""
        with self._exclusive():
            action = self._database.action(checkpoint)
            notes: list[str] = []
            try:
                if action.paths is None:
                    seen = self._observe(None)
                    before = self._heads.pop(checkpoint, {})
                    notes = _git_notes(before, self._git_heads(seen))
                else:
                    self._observe(action.paths, authors=[action])
            except CheckpointsUnavailable as error:
                notes.append(error.message)
            with self._database.transaction():
                self._database.end_action(checkpoint, self._clock(), notes, is_interrupted=False)
                changes = self._database.changes(first=checkpoint, last=checkpoint)
                self._database.forget_if_empty(checkpoint)
            return Recorded(checkpoint, changes, notes)

    def observe(self, paths: Iterable[str]) -> None:
        """Record that the user saved these paths. May be called while an agent's command runs."""
        only = [self.relative(path) for path in paths]
        with self._exclusive():
            self._observe(only, authors=())

    def scan(self) -> None:
        """Store the present state of the workspace, so that the next `begin` has less to copy."""
        with self._exclusive():
            self._observe(None)

    # Reading ----------------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first. Actions that changed nothing are not listed."""
        with self._exclusive():
            return self._database.actions()

    def checkpoint(self, checkpoint: int) -> Checkpoint:
        """One checkpoint. Raises `NoSuchCheckpoint`."""
        with self._exclusive():
            return self._database.action(checkpoint)

    def counts(self) -> dict[int, int]:
        """The number of paths that each checkpoint changed, without times of directories."""
        with self._exclusive():
            found = {
                (action, change.path)
                for change in self._database.changes(first=0)
                if not change.is_only_a_directory_time
                for action in change.actions
            }
        return dict(Counter(action for action, _ in found))

    def removed_up_to(self) -> int:
        """Checkpoints up to this id were removed to save space; 0 if none was removed."""
        with self._exclusive():
            return int(self._database.fact("removed_up_to", "0"))

    def changes(self, checkpoint: int) -> list[Change]:
        """The changes of one action, oldest first. Raises `NoSuchCheckpoint`."""
        with self._exclusive():
            self._database.action(checkpoint)
            return self._database.changes(first=checkpoint, last=checkpoint)

    def not_kept(self) -> list[NotKept]:
        """The files and directories that cannot be restored, largest first."""
        with self._exclusive():
            found = [
                NotKept(path, max(size, 0), reason)
                for path, (size, reason) in self._state.not_kept.items()
            ]
        return sorted(found, key=lambda each: (-each.size, each.path))

    def read(self, content: Content) -> bytes:
        """The content of a version. Raises `StorageFailed` if the content was not kept or is
        damaged."""
        return b"".join(self._blobs.read(content))

    def used_bytes(self) -> int:
        """Disk space of all copied contents."""
        with self._exclusive():
            return self._used

    def relative(self, path: str) -> str:
        """`path` relative to the workspace. Raises `InvalidPath` for a path outside of it or in
        `.git`."""
        absolute = os.path.normpath(self.workspace / path)
        relative = os.path.relpath(absolute, self.workspace)
        if relative == "." or relative.startswith("../") or relative == "..":
            raise InvalidPath(f"{path!r} is not a path inside of the workspace {self.workspace}")
        if GIT in relative.split("/"):
            raise InvalidPath(f"{path!r} belongs to git, which checkpoints leave alone")
        return relative

    # Restoring --------------------------------------------------------------------------

    def plan(
        self,
        first: int,
        last: int | None = None,
        *,
        paths: Iterable[str] | None = None,
        editor: OpenFileEditor | None = None,
    ) -> RestorePlan:
        """The plan of `restore` with the same arguments. Restores nothing."""
        only = None if paths is None else [self.relative(path) for path in paths]
        with self._exclusive(), self._keeping_from(first):
            self._observe(None)
            opened = OpenFiles() if editor is None else editor.open_files()
            return self._make_plan(first, last, only, opened)

    def restore(
        self,
        first: int,
        last: int | None = None,
        *,
        paths: Iterable[str] | None = None,
        editor: OpenFileEditor | None = None,
    ) -> Restored:
        """Undo the checkpoints `first` to `last`, or everything since `first`.

        With `paths`, only these files and directories are restored, even if it is uncertain which
        action changed them. Paths that somebody has changed since are not restored, but reported.
        The restore gets its own checkpoint, so it can be undone in the same way. Files that are
        open in the `editor` are written by the editor; the store stays locked meanwhile.
        """
        only = None if paths is None else [self.relative(path) for path in paths]
        with self._exclusive(), self._keeping_from(first):
            self._observe(None)
            opened = OpenFiles() if editor is None else editor.open_files()
            plan = self._make_plan(first, last, only, opened)
            if not plan.steps:
                return Restored(None, (), plan.conflicts, plan)
            touched = [each.path for each in plan.steps]
            title = _title(first, last, only)
            with self._database.transaction():
                number = self._database.add_action(
                    RESTORE, title, self._clock(), paths=touched, owner=self._owners.name
                )
            restorer = Restorer(
                self._root,
                self._blobs.read,
                present=self._possible_hard_links(plan),
                owner=self._owners.name,
                save=None if editor is None else editor.write,
                opened=opened.saved,
            )
            done, refused = restorer.apply(plan)
            author = self._database.action(number)
            self._observe([*touched, *plan.directory_times], authors=[author])
            with self._database.transaction():
                self._database.end_action(number, self._clock(), (), is_interrupted=False)
                # An editor may have saved a file with other content than requested.
                has_changed = bool(done or self._database.changes(first=number, last=number))
                self._database.forget_if_empty(number)
            conflicts = [*plan.conflicts, *refused]
            return Restored(number if has_changed else None, done, conflicts, plan)

    def _make_plan(
        self, first: int, last: int | None, only: Sequence[str] | None, opened: OpenFiles
    ) -> RestorePlan:
        if last is not None:
            self._database.action(last)
        if first <= int(self._database.fact("removed_up_to", "0")):
            self._database.action(first)
        changes = self._database.changes(first=first, last=last)
        if only is not None:
            changes = [each for each in changes if is_below(each.path, only)]
            for path in only:
                if not any(is_below(each.path, [path]) for each in changes):
                    raise NoSuchPath(f"No agent changed {path} in these checkpoints")
        return plan_restore(
            changes,
            self._current,
            actions=lambda each: each >= first and (last is None or each <= last),
            is_named=only is not None,
            unsaved=opened.unsaved,
        )

    def _possible_hard_links(self, plan: RestorePlan) -> dict[str, Version]:
        """Files outside the plan, by path, with the inode of a file in the plan. They may have been
        hard links to the same file."""
        steps = {each.path for each in plan.steps}
        inodes = {each.target.stat.inode for each in plan.steps if each.target is not None}
        found = {}
        for directory, listing in self._state.tree.items():
            for name, entry in listing.items():
                path = join(directory, name)
                if entry.inode in inodes and entry.is_file and path not in steps:
                    found[path] = Version(entry, self._state.contents.get(path, NOT_KEPT))
        return found

    def _current(self, path: str) -> Version | None:
        found = self._state.version(path)
        if found is not None and is_git_object(found.content):
            copy = self._database.copy_of(found.content)
            return found if copy is None else found._replace(content=copy)
        return found

    # Observing --------------------------------------------------------------------------

    def _observe(
        self, paths: Sequence[str] | None, *, authors: Sequence[Checkpoint] | None = None
    ) -> ScanResult:
        """Update the state of `paths`, or of the whole workspace.

        The differences belong to `authors`. If `authors` is None, they belong to all running
        actions, or to the user if no action is running.
        """
        running, dead = self._open_actions() if authors is None else ([], set())
        # Computed at the first use: most observations copy nothing and do not need this number.
        overhead = cache(self._database_bytes)
        with self._blobs.batch() as batch:
            seen = self._observer.scan(
                self._state,
                batch,
                paths=paths,
                racy=self._racy,
                is_attributed=bool(authors or running),
                make_room=lambda size: self._make_room(size + batch.total + overhead()),
            )
            dropped = self._observer.replace_dropped_packs(self._state, seen, batch)

        def responsible(path: str) -> tuple[int, ...]:
            if authors is not None:
                return tuple(each.id for each in authors)
            matching = (each for each in running if not each.paths or is_below(path, each.paths))
            return tuple(each.id for each in matching)

        if not dead and not batch.sizes and not dropped and self._is_unchanged(seen):
            batch.forget()
            return seen
        self._record(seen, batch, responsible, dead)
        self._git.remove_packs(dropped)
        batch.forget()
        return seen

    def _is_unchanged(self, seen: ScanResult) -> bool:
        """Whether `seen` equals the known state, so that there is nothing to record. Most
        commands change nothing."""
        if seen.candidates or seen.copied_out or self._generation in ("", "0"):
            return False
        skipped = {path: why for path, (size, why) in self._state.not_kept.items() if size < 0}
        return seen.skipped is None or seen.skipped == skipped

    def _open_actions(self) -> tuple[list[Checkpoint], set[int]]:
        """The actions without an end, and the ids of those actions whose process has ended."""
        found = self._database.open_actions()
        dead = set()
        for action, owner in found:
            if not self._owners.is_alive(owner):
                dead.add(action.id)
                if action.agent == RESTORE:
                    remove_leftovers(self._root, action.paths or (), owner)
        return [action for action, _ in found], dead

    def _record(
        self,
        seen: ScanResult,
        batch: BlobBatch,
        responsible: Callable[[str], tuple[int, ...]],
        dead: set[int],
    ) -> None:
        state, directories = self._next_state(seen)
        racy = (self._racy - set(seen.candidates)) | seen.capture.racy
        generation = str(int(self._generation or 0) + 1)
        with self._database.transaction():
            self._database.add_blobs(batch.sizes)
            for name, content in seen.copied_out.items():
                self._database.add_copy(name, content)
            for path, before, after in seen.changes:
                if actions := responsible(path):
                    certain = dead.isdisjoint(actions)
                    self._database.add_change(Change(path, before, after, actions, certain))
            for each in dead:
                self._database.end_action(each, self._clock(), (), is_interrupted=True)
                self._database.forget_if_empty(each)
            self._database.save_listings(state, directories)
            if state.not_kept != self._state.not_kept:
                self._database.save_not_kept(state.not_kept)
            self._database.set_fact("racy", json.dumps(sorted(racy)))
            self._database.set_fact("generation", generation)
        self._state, self._racy, self._generation = state, racy, generation
        self._used = self._database.blob_bytes()

    def _next_state(self, seen: ScanResult) -> tuple[State, set[str]]:
        """The new state, and the directories whose listings differ from those of the old state."""
        old, capture = self._state, seen.capture
        contents = dict(old.contents)
        not_kept = dict(old.not_kept)
        ignored = set(old.ignored)
        for path in seen.candidates:
            contents.pop(path, None)
            not_kept.pop(path, None)
            ignored.discard(path)
        contents |= {path: each for path, each in capture.contents.items() if each != NOT_KEPT}
        not_kept |= capture.not_kept
        ignored |= capture.ignored
        if seen.skipped is not None:
            # Size -1: a directory that was left out.
            not_kept = {path: (size, why) for path, (size, why) in not_kept.items() if size >= 0}
            not_kept |= {path: (-1, why) for path, why in seen.skipped.items()}
        # Identical listing objects have the same stat data. Only their contents may differ.
        trees = (seen.tree, old.tree)
        directories = {
            each for tree in trees for each in tree if seen.tree.get(each) is not old.tree.get(each)
        }
        rewritten = self._racy.intersection(seen.candidates)
        if seen.copied_out:
            for path, name in old.contents.items():
                if name in seen.copied_out and contents.get(path) == name:
                    contents[path] = seen.copied_out[name]
                    rewritten.add(path)
        directories |= {path.rpartition("/")[0] for path in rewritten}
        return State(seen.tree, contents, not_kept, ignored), directories

    # Space ------------------------------------------------------------------------------

    def _make_room(self, size: int) -> bool:
        """Remove the oldest checkpoints until `size` more bytes fit. Returns whether they fit."""
        while self._used + size > self.limits.store_bytes:
            oldest = self._database.oldest_ended()
            if oldest is None or oldest >= self._kept_from:
                return False
            with self._database.transaction():
                self._database.remove_action(oldest)
                unused = self._database.remove_unused_blobs(set(self._state.contents.values()))
            self._blobs.remove(unused)
            self._used = self._database.blob_bytes()
        return True

    def _database_bytes(self) -> int:
        return sum(each.stat().st_size for each in self._directory.glob(f"{_DATABASE}*"))

    @contextmanager
    def _keeping_from(self, first: int) -> Iterator[None]:
        """Make `_make_room` keep all checkpoints from `first` on, while they are being restored."""
        self._kept_from = first
        try:
            yield
        finally:
            self._kept_from = math.inf

    def _sweep(self) -> None:
        """Remove the files that killed processes left."""
        self._owners.sweep()
        if self._blobs.has_leftovers():
            self._blobs.sweep(self._database.blobs())

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the store's lock, and first load the state that other processes recorded."""
        with self._lock.held():
            if self._generation != (generation := self._database.fact("generation", "0")):
                self._state = self._database.load_state()
                self._racy = set(json.loads(self._database.fact("racy", "[]")))
                self._used = self._database.blob_bytes()
                self._generation = generation
            yield

    def _ensure_same_workspace(self) -> None:
        known = self._database.fact("workspace")
        if not known:
            with self._database.transaction():
                self._database.set_fact("workspace", str(self.workspace))
        elif known != str(self.workspace):
            raise CheckpointsUnavailable(
                f"The store {self._directory} belongs to the workspace {known}, not to "
                f"{self.workspace}"
            )

    def _git_heads(self, seen: ScanResult) -> dict[str, str]:
        found = {each: GitRepository.find(self.workspace, each) for each in seen.repositories or ()}
        return {each: "" if git is None else git.head() for each, git in found.items()}


def is_store_needed(directory: Path, workspace: Path) -> bool:
    """Whether an action that begins now needs the store. False if the workspace is empty and
    `directory` has no store yet, because then there is nothing to keep. True if the workspace
    cannot have a store; opening the store reports the reason."""
    try:
        if (directory / _DATABASE).exists():
            return True
        with os.scandir(suitable_workspace(workspace, directory)) as entries:
            return next(entries, None) is not None
    except (BasculeError, OSError):
        return True


def suitable_workspace(workspace: Path, store: Path) -> Path:
    """The path of the workspace with links resolved, if the workspace can have checkpoints in
    `store`.

    Raises `CheckpointsUnavailable` or `NoSuchPath`.
    """
    try:
        real = workspace.resolve(strict=True)
    except FileNotFoundError:
        raise NoSuchPath(f"There is no workspace {workspace}") from None
    if real in (Path("/"), _home()):
        raise CheckpointsUnavailable(
            f"{real} cannot have checkpoints, because it is not the folder of one project. Open "
            "the folder of a project instead"
        )
    if store.resolve().is_relative_to(real):
        raise CheckpointsUnavailable(
            f"The store {store} is inside of the workspace {real}; it must be elsewhere"
        )
    return real


def _home() -> Path | None:
    """The user's home directory; None for a user without an account, as in some containers."""
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    except KeyError:
        return None


def _git_notes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    notes = []
    for directory, head in before.items():
        place = directory or "the workspace"
        if directory not in after:
            notes.append(
                f"The git repository of {place} was removed; a restore does not bring it back"
            )
        elif after[directory] != head:
            notes.append(
                f"git in {place}: {head or 'nothing'} became {after[directory] or 'nothing'}; a "
                "restore undoes changes of files, not commits"
            )
    return notes


def is_below(path: str, tops: Iterable[str]) -> bool:
    """Whether `path` is one of `tops` or inside one of them."""
    return any(path == top or path.startswith(f"{top}/") for top in tops)


def _title(first: int, last: int | None, only: Sequence[str] | None) -> str:
    which = f"since checkpoint {first}" if last is None else f"checkpoint {first}"
    if last is not None and last != first:
        which = f"checkpoints {first} to {last}"
    return f"{which}: {', '.join(only)}" if only else which
