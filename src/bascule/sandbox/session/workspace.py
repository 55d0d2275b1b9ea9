"""Fills a new workspace from a git clone or an uploaded archive."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, CloneFailed, DirectoryNotEmpty, InternalError
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.shell.settings import shell_environment

from .clone import Repository, clone
from .session_events import SessionEvents

logger = logging.getLogger(__name__)

State = Literal["empty", "filling", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class WorkspaceStatus:
    """The state of the workspace and of the work that fills it."""

    state: State
    stage: str = ""
    """The current step of the work."""
    percent: int | None = None
    commit: str = ""
    """The commit that was checked out."""
    cause: str = ""
    """Reason of a failure; the workspace is empty again."""


class Workspace(Closable):
    """A workspace that is filled once, while it is empty: completely or not at all.

    The work continues if the client disconnects. If the sandbox is killed during the work, a marker
    file remains, and the next sandbox empties the workspace.
    """

    def __init__(
        self, directory: Path, state_dir: Path, *, sandbox: Sandbox, events: SessionEvents
    ) -> None:
        self._directory = directory
        self._mark = state_dir / "workspace.filling"
        self._sandbox = sandbox
        self._events = events
        self._filling: asyncio.Task[WorkspaceStatus] | None = None
        self._status: WorkspaceStatus | None = None

    def prepare(self) -> None:
        """Empty a workspace that was only partly filled. Blocks the calling thread."""
        if self._mark.exists():
            logger.warning("the workspace was being filled when its sandbox was killed")
            _empty(self._directory)
            self._mark.unlink()

    async def status(self) -> dict[str, Any]:
        if self._status is None:
            is_empty = await asyncio.to_thread(_is_empty, self._directory)
            return asdict(WorkspaceStatus("empty" if is_empty else "ready"))
        return asdict(self._status)

    async def clone(self, repository: Repository, ref: str, *, timeout: float) -> dict[str, Any]:
        async def work() -> WorkspaceStatus:
            environment = shell_environment(self._sandbox.settings.shells)
            try:
                async with asyncio.timeout(timeout):
                    commit = await clone(
                        repository,
                        ref,
                        self._directory,
                        environment=environment,
                        on_progress=self._progress,
                    )
            except TimeoutError:
                raise CloneFailed(f"The clone took longer than {timeout:g} seconds") from None
            return WorkspaceStatus("ready", commit=commit)

        return await self._fill(work)

    async def unpack(self, archive: IO[bytes]) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        reported = -1

        def on_entry(done: int, of: int) -> None:
            nonlocal reported
            percent = 100 * done // of
            if percent != reported:
                reported = percent
                loop.call_soon_threadsafe(self._progress, "Unpacking", percent)

        async def work() -> WorkspaceStatus:
            where = str(self._directory)
            await self._sandbox.in_thread(
                lambda: self._sandbox.files.transfers.unpack(archive, where, "/", on_entry)
            )
            return WorkspaceStatus("ready")

        return await self._fill(work)

    async def ensure_empty(self) -> None:
        """Raise `DirectoryNotEmpty` if the workspace has content or is being filled."""
        self._ensure_not_filling()
        if not await asyncio.to_thread(_is_empty, self._directory):
            raise DirectoryNotEmpty(
                "The workspace is not empty; clone or unpack only into an empty one"
            )

    def _ensure_not_filling(self) -> None:
        if self._filling is not None and not self._filling.done():
            raise DirectoryNotEmpty("Another clone or upload into the workspace is in progress")

    async def aclose(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait([self._filling])

    async def _fill(self, work: Callable[[], Awaitable[WorkspaceStatus]]) -> dict[str, Any]:
        await self.ensure_empty()
        self._ensure_not_filling()  # another request may have started during the check
        self._filling = asyncio.get_running_loop().create_task(self._begin(work))
        return asdict(await asyncio.shield(self._filling))

    async def _begin(self, work: Callable[[], Awaitable[WorkspaceStatus]]) -> WorkspaceStatus:
        self._status = WorkspaceStatus("filling")
        await asyncio.to_thread(self._mark.touch)
        try:
            self._status = await work()
        except Exception as error:  # not CancelledError: then the sandbox ends and the mark stays
            await asyncio.to_thread(_empty, self._directory)
            known = error if isinstance(error, BasculeError) else InternalError(str(error))
            self._status = WorkspaceStatus("failed", cause=known.message)
            self._events.publish("workspace.failed", cause=known.message)
            await asyncio.to_thread(self._mark.unlink)
            raise
        await asyncio.to_thread(self._mark.unlink)
        self._events.publish("workspace.ready", commit=self._status.commit)
        if self._sandbox.checkpoints is not None:
            self._sandbox.checkpoints.scan()  # so that the first action need not wait for it
        return self._status

    def _progress(self, stage: str, percent: int) -> None:
        self._status = WorkspaceStatus("filling", stage=stage, percent=percent)
        self._events.publish("workspace.progress", stage=stage, percent=percent)


def _is_empty(directory: Path) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def _empty(directory: Path) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()
