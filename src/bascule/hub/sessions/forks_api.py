"""The REST calls about forks of sessions."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from pydantic import BaseModel

from bascule.checkpoints.versions import shown_path
from bascule.core.errors import InvalidRequest
from bascule.core.sessions import SessionId
from bascule.hub.identity import Identity

from .fork_files import ChangedPath
from .forks import ForkOverview, ForkSummary, MergeRequest, SessionForks
from .messages import ForkBody, MergeBody
from .rows import SessionRow
from .sandbox_messages import MergeResult

_MAX_PATHS: Final = 1000
"""Maximum number of paths in each list of an answer; the counts include all paths."""


class ChangeAnswer(BaseModel):
    path: str
    change: str


class ForkAnswer(BaseModel):
    """A fork and its unmerged changes."""

    id: str
    name: str
    state: str
    created: float
    base: str
    """Id of the snapshot from which the fork was made."""
    left_out: dict[str, str]
    """Paths that the snapshot does not contain, with the reasons."""
    heads: dict[str, str]
    """Commits that were checked out when the fork was made, by the directory of the repository."""
    count: int
    """Number of changed paths, also of those that `changes` does not list."""
    changes: list[ChangeAnswer]


class OverlapAnswer(BaseModel):
    path: str
    sessions: list[str]


class ForksAnswer(BaseModel):
    id: str
    name: str
    count: int
    changes: list[ChangeAnswer]
    forks: list[ForkAnswer]
    overlap_count: int
    overlaps: list[OverlapAnswer]


class MergeAnswer(BaseModel):
    """The result for each path. `checkpoint` undoes the merge in session `into`."""

    into: str
    checkpoint: int | None
    conflicts: int
    results: list[MergeResult]


class ForksApi:
    """REST calls on `SessionForks`."""

    def __init__(
        self,
        forks: SessionForks,
        *,
        identity_of: Callable[[Request], Identity],
        describe: Callable[[SessionRow], dict[str, Any]],
    ) -> None:
        self._forks = forks
        self._identity_of = identity_of
        self._describe = describe

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        agent_or_admin = [require_scope("agent", "admin")]
        session_path = "/api/sessions/{session_id}"
        app.add_api_route(
            f"{session_path}/forks", self.fork, methods=["POST"], dependencies=agent_or_admin
        )
        app.add_api_route(f"{session_path}/forks", self.list_forks, dependencies=agent_or_admin)
        app.add_api_route(
            f"{session_path}/merge", self.merge, methods=["POST"], dependencies=agent_or_admin
        )

    async def fork(
        self, session_id: str, request: Request, body: ForkBody | None = None
    ) -> list[dict[str, Any]]:
        """Create sessions from a snapshot of this session's workspace."""
        options = body or ForkBody()
        rows = await self._forks.fork(
            self._identity_of(request),
            SessionId(session_id),
            count=options.count,
            name=options.name,
            with_secrets=options.secrets,
        )
        return [self._describe(row) for row in rows]

    async def list_forks(self, session_id: str, request: Request) -> ForksAnswer:
        """The forks of a session, their unmerged changes, and the paths that several changed."""
        return _overview(
            await self._forks.overview(self._identity_of(request), SessionId(session_id))
        )

    async def merge(
        self, session_id: str, request: Request, body: MergeBody | None = None
    ) -> MergeAnswer:
        """Merge the changes of a fork. Paths with conflicts are reported and left unchanged."""
        options = body or MergeBody()
        report = await self._forks.merge(
            self._identity_of(request),
            SessionId(session_id),
            MergeRequest(
                dry_run=options.dry_run,
                paths=_normalize_paths("paths", options.paths),
                take=_normalize_paths("take", options.take),
                keep=_normalize_paths("keep", options.keep),
                with_ignored=options.ignored,
                into=SessionId(options.into) if options.into else None,
            ),
        )
        return MergeAnswer(
            into=report.target.id,
            checkpoint=report.checkpoint,
            conflicts=sum(each.outcome == "conflict" for each in report.results),
            results=list(report.results),
        )


def _normalize_paths(field: str, paths: Sequence[str]) -> list[str]:
    """Normalize paths as people write them (`./src/`); `.` means everything.

    Raises `InvalidRequest` for a path that is empty or outside the workspace: it would match
    everything, or nothing.
    """
    normalized = [posixpath.normpath(path).strip("/") if path else "" for path in paths]
    for path, normal in zip(paths, normalized, strict=True):
        if normal == "" or normal.split("/")[0] == "..":
            problem = "is empty" if not path else f"{path!r} is not a path of the workspace"
            raise InvalidRequest(
                f"A path in `{field}` {problem}; name a file or directory of the workspace, "
                "or `.` for all",
                field=field,
            )
    return normalized


def _overview(found: ForkOverview) -> ForksAnswer:
    return ForksAnswer(
        id=found.source.id,
        name=found.source.spec.name,
        count=len(found.changes),
        changes=_changes(found.changes),
        forks=[_fork(each) for each in found.forks],
        overlap_count=len(found.overlaps),
        overlaps=[
            OverlapAnswer(path=shown_path(each.path), sessions=list(each.sessions))
            for each in found.overlaps[:_MAX_PATHS]
        ],
    )


def _fork(found: ForkSummary) -> ForkAnswer:
    row, snapshot = found.row, found.snapshot
    left_out = sorted(snapshot.left_out.items())[:_MAX_PATHS]
    return ForkAnswer(
        id=row.id,
        name=row.spec.name,
        state=row.state,
        created=row.created,
        base=row.spec.workspace.base,
        left_out={shown_path(path): reason for path, reason in left_out},
        heads={shown_path(path): commit for path, commit in snapshot.heads.items()},
        count=len(found.changes),
        changes=_changes(found.changes),
    )


def _changes(changes: Sequence[ChangedPath]) -> list[ChangeAnswer]:
    return [
        ChangeAnswer(path=shown_path(each.path), change=each.change)
        for each in changes[:_MAX_PATHS]
    ]
