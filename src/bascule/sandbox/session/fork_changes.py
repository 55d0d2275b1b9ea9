"""`/session/changes`: merge the changes of a fork into the workspace, as one checkpoint."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.errors import StorageFailed
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.guard import CHANGES_PATH
from bascule.sandbox.server.requests import flag, json_response, text
from bascule.serving.asgi import read_pieces

if TYPE_CHECKING:
    from bascule.forks.change_set import PathChange, PathResult
    from bascule.sandbox.checkpoint_recorder import Recording

logger = logging.getLogger(__name__)

_AGENT = "fork"
"""The name of the agent in checkpoints of merges."""


class ForkChangeRoutes:
    """Merges the changes of a fork. The sandbox does this, not the hub, because the sandbox runs as
    the session's user, notices files that a person saves meanwhile, and has the session's
    checkpoints."""

    def __init__(self, workspace: Path, state_dir: Path, sandbox: Sandbox) -> None:
        self._workspace = workspace
        self._state_dir = state_dir
        self._journal = state_dir / "merge.journal"
        self._sandbox = sandbox

    def prepare(self) -> None:
        """Remove the temporary file of a merge that was killed. Blocks the calling thread."""
        try:
            if self._journal.exists() and self._journal.stat().st_size:
                from bascule.forks.merge_journal import merge_journal

                with merge_journal(self._journal, self._workspace):
                    pass
        except (StorageFailed, OSError) as error:  # the session is usable with this file
            logger.warning("the temporary file of a merge could not be removed: %s", error)

    def table(self) -> list[BaseRoute]:
        return [Route(CHANGES_PATH, self.merge, methods=["POST"])]

    async def merge(self, request: Request) -> Response:
        title, dry_run = text(request, "title"), flag(request, "dry_run")
        in_thread = self._sandbox.in_thread
        spool = await in_thread(lambda: tempfile.TemporaryFile(dir=self._state_dir))  # noqa: SIM115
        try:
            async for piece in read_pieces(request.receive):
                await in_thread(spool.write, piece)
            if dry_run:
                results = await in_thread(lambda: self._apply(spool, dry_run=True))
                return json_response(_answer(results, None))
            paths = await in_thread(lambda: [path for _, path, _ in _order(spool)])
            recording = await self._begin(title, paths)
            try:
                results = await in_thread(lambda: self._apply(spool, dry_run=False))
            finally:
                checkpoint = await self._end(recording)
        finally:
            spool.close()
        return json_response(_answer(results, checkpoint))

    def _apply(self, spool: IO[bytes], *, dry_run: bool) -> Sequence[PathResult]:
        from bascule.forks.apply import apply_changes  # few sessions need it
        from bascule.forks.merge_journal import merge_journal

        changes = _in_order(spool)
        if dry_run:
            return apply_changes(self._workspace, changes, dry_run=True)
        with merge_journal(self._journal, self._workspace) as journal:
            return apply_changes(self._workspace, changes, journal=journal)

    async def _begin(self, title: str, paths: Sequence[str]) -> Recording | None:
        recorder = self._sandbox.checkpoints
        return None if recorder is None else await recorder.begin_paths(_AGENT, title, paths)

    async def _end(self, recording: Recording | None) -> int | None:
        recorder = self._sandbox.checkpoints
        return None if recorder is None else await recorder.end(recording)


def _in_order(spool: IO[bytes]) -> Iterator[PathChange]:
    """The changes, read one by one in the order in which they are applied."""
    from bascule.forks.change_set import decode_changes

    for _, _, offset in _order(spool):
        spool.seek(offset)
        yield from decode_changes([spool.readline()])


def _order(spool: IO[bytes]) -> Sequence[tuple[tuple[int, int, str], str, int]]:
    """Sort key, path and offset of each change, sorted. The contents may not fit into memory."""
    from bascule.forks.apply import merge_order
    from bascule.forks.change_set import decode_changes

    found, offset = [], 0
    spool.seek(0)
    for line in spool:
        (change,) = decode_changes([line])
        found.append((merge_order(change), change.path, offset))
        offset += len(line)
    return sorted(found)


def _answer(results: Sequence[PathResult], checkpoint: int | None) -> dict[str, Any]:
    return {"results": [each.to_json() for each in results], "checkpoint": checkpoint}
