"""Records a checkpoint around each action of a sandbox that may change files."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from bascule.checkpoints import CheckpointLimits, CheckpointStore
from bascule.checkpoints.actions import CheckpointAction, CheckpointObservation, execute
from bascule.checkpoints.edited_path import EditedPath, paths_inside
from bascule.checkpoints.lazy_store import LazyStore
from bascule.checkpoints.store import is_store_needed
from bascule.core.actions import (
    Action,
    CmdRun,
    FileEdit,
    FileWrite,
    IPythonRun,
    MakeDir,
    Remove,
    RemoveDir,
)
from bascule.core.errors import BasculeError, SandboxDied
from bascule.wire import encode_action

_Result = TypeVar("_Result")
_PROGRAMS: Final = (CmdRun, IPythonRun)
_EDITS: Final = (FileWrite, FileEdit, MakeDir, RemoveDir, Remove)


@dataclass(slots=True, eq=False)
class Recording:
    """An action, or another change, between `begin` and `end`."""

    action: Action | None = None
    """None: a change that is not an action. Its checkpoint always has a number."""
    began: float = field(default_factory=time.time)
    """Unix time."""
    number: int | None = None
    """The checkpoint's number. None: the workspace was empty at `begin`, so no store was needed,
    and no store has been opened since."""


class CheckpointRecorder:
    """Keeps the workspace's contents before and after each action.

    A store serves one call at a time, so one thread does all the work; the event loop never waits
    for the disk. If a checkpoint cannot be made, the action runs without it. `on_notice` is called
    once with the reason, and also with what checkpoints leave out.

    Thread and store cost a session time and memory, so neither exists before it is needed. A
    program that begins in an empty workspace does not need them, because there is nothing to keep.
    If the program leaves the workspace empty, there is nothing to record either.
    """

    def __init__(self, directory: Path, workspace: Path, *, max_bytes: int) -> None:
        self._directory, self._workspace = directory, workspace
        self._store = LazyStore(
            directory,
            workspace,
            CheckpointLimits(store_bytes=max_bytes),
            on_notice=lambda notice: self.on_notice(notice),
            on_open=self._add_begun,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._has_work = threading.Event()
        """Set once the thread is given work. Until then only the event loop changes `_open`, and
        afterwards only the thread."""
        self._open: dict[Recording, None] = {}
        """Actions that have not ended, in the order in which they began."""
        self._closing = threading.Event()
        self.on_notice: Callable[[str], None] = lambda _: None
        """Called in the recorder's thread."""

    def is_for(self, action: Action) -> bool:
        """Whether the action gets a checkpoint: programs do, because they may change any file, and
        edits, which change the file that they name."""
        if isinstance(action, FileEdit):
            return action.command != "view"
        return isinstance(action, _PROGRAMS + _EDITS)

    async def begin(self, action: Action, cwd: str) -> Recording | None:
        """Store the state before the action. Returns None if the action gets no checkpoint."""
        if isinstance(action, _PROGRAMS) and await self._needs_no_store():
            recording = Recording(action)
            self._open[recording] = None
            return recording
        return await self._do(lambda: self._begin(action, cwd), undo=self._end)

    async def begin_edits(self, action: Action, paths: Sequence[str]) -> Recording | None:
        """Store the state of files that an action will change, although it does not name them all.
        `paths`: absolute. None if there is no checkpoint."""
        return await self._do(lambda: self._begin_edits(action, paths), undo=self._end)

    async def begin_paths(self, agent: str, title: str, paths: Sequence[str]) -> Recording | None:
        """Store the state of these paths of the workspace, before they change by other means
        than an action. None if there is no checkpoint."""
        return await self._do(lambda: self._begin_paths(agent, title, paths), undo=self._end)

    async def end(self, recording: Recording | None) -> int | None:
        """Record the changes since `begin`, and return the checkpoint's number; None if nothing
        changed. The changes are recorded even if the caller is cancelled."""
        if recording is None:
            return None
        try:
            if await self._needs_no_store():
                del self._open[recording]
                return None
        except asyncio.CancelledError:
            if not self._closing.is_set():
                self._submit(self._end, recording)
            raise
        if self._closing.is_set():  # closing ends all open recordings
            return None
        return await self._do(lambda: self._end(recording))

    async def execute(self, action: CheckpointAction) -> CheckpointObservation:
        """List, show or restore checkpoints."""
        return await self._do(lambda: execute(self._store.get(), action))

    def scan(self) -> None:
        """Store the workspace as it is now, in the background, so that the next action waits
        less."""
        if not self._closing.is_set():
            self._submit(self._store.scan)

    async def aclose(self) -> None:
        """Close the store. Actions that have not ended are recorded up to now."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._has_work.is_set() or self._open:
            closed = self._submit(self._close)
            self._thread.shutdown(wait=False)
            await asyncio.wrap_future(closed)

    async def _needs_no_store(self) -> bool:
        """Whether there still is no store, and nothing in the workspace that needs one."""
        if self._has_work.is_set():
            return False
        needed = await asyncio.to_thread(is_store_needed, self._directory, self._workspace)
        # Meanwhile another action may have opened the store, with all of `_open`.
        return not (needed or self._has_work.is_set() or self._closing.is_set())

    def _submit(self, work: Callable[..., _Result], *arguments: object) -> Future[_Result]:
        self._has_work.set()
        return self._thread.submit(work, *arguments)

    async def _do(
        self, work: Callable[[], _Result], *, undo: Callable[[_Result], object] | None = None
    ) -> _Result:
        """Run `work` in the thread. Work that has begun always runs to its end. If the caller was
        cancelled meanwhile, `undo` is called with the result."""
        if self._closing.is_set():
            raise SandboxDied("The sandbox was closed")
        future = self._submit(work)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if undo is not None and not future.cancel() and not self._closing.is_set():
                self._submit(_undo_result, future, undo)
            raise

    # In the thread --------------------------------------------------------------------------

    def _begin(self, action: Action, cwd: str) -> Recording | None:
        try:
            store = self._store.get()
            is_program = isinstance(action, _PROGRAMS)
            paths = None if is_program else _edited_path(action, cwd).paths_to_change(store)
            if paths is not None and not paths:
                return None
            recording = Recording(action)
            recording.number = store.begin(*_agent_and_title(action), paths=paths)
        except (BasculeError, OSError) as error:
            self._store.report(f"There is no checkpoint of this action: {error}")
            return None
        self._open[recording] = None
        self._store.report_left_out()
        return recording

    def _begin_edits(self, action: Action, paths: Sequence[str]) -> Recording | None:
        try:
            inside = paths_inside((Path(each).resolve() for each in paths), self._store.get())
        except (BasculeError, OSError) as error:
            self._store.report(f"There is no checkpoint of this action: {error}")
            return None
        return self._begin_paths(*_agent_and_title(action), inside) if inside else None

    def _begin_paths(self, agent: str, title: str, paths: Sequence[str]) -> Recording | None:
        try:
            recording = Recording()
            recording.number = self._store.get().begin(agent, title, paths=paths)
        except (BasculeError, OSError) as error:
            self._store.report(f"There is no checkpoint of this change: {error}")
            return None
        self._open[recording] = None
        return recording

    def _end(self, recording: Recording | None) -> int | None:
        if recording is None or recording not in self._open:
            return None
        try:
            store = self._store.get()
            assert recording.number is not None
            recorded = store.end(recording.number)
        except (BasculeError, OSError) as error:
            self._store.report(f"The changes of this action were not recorded: {error}")
            return None
        finally:
            del self._open[recording]
        return recording.number if recorded.changes or recorded.notes else None

    def _add_begun(self, store: CheckpointStore) -> None:
        """Add the actions that began without a store. The store must not have scanned the workspace
        yet: all files in it were created after these actions began."""
        for each in self._open:
            assert each.action is not None
            each.number = store.begin_in_empty(*_agent_and_title(each.action), began=each.began)

    def _close(self) -> None:
        for recording in list(self._open):
            self._end(recording)
        self._store.close()


def _agent_and_title(action: Action) -> tuple[str, str]:
    """The agent that acts, and the title of the checkpoint."""
    return action.source or "agent", encode_action(action)["message"]


def _undo_result(begun: Future[_Result], undo: Callable[[_Result], object]) -> None:
    undo(begun.result())


def _edited_path(action: Action, cwd: str) -> EditedPath:
    assert isinstance(action, _EDITS)
    follows = not isinstance(action, Remove | RemoveDir)
    return EditedPath(Path(cwd, action.path), follows_links=follows)
