"""The REST calls that read the audit log, for admins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, BaseModel

from bascule.core.sessions import SessionId
from bascule.hub.sessions.rows import AuditRow
from bascule.hub.store import Store
from bascule.wire import to_json

from .rows import AuditFilter

_MAX_ROWS: Final = 10_000
_BATCH: Final = 500
"""Number of entries that an export reads at a time."""
_MAX_INTEGER: Final = (1 << 63) - 1
"""The largest integer a database accepts."""
_EXPORT_HEADERS: Final = {
    "Content-Disposition": 'attachment; filename="audit.jsonl"',
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
Text = Annotated[str | None, Query(max_length=200)]
Since = Annotated[AwareDatetime | None, Query()]
Number = Annotated[int | None, Query(ge=1, le=_MAX_INTEGER)]
Limit = Annotated[int, Query(ge=0, le=_MAX_INTEGER)]


class AuditAnswer(BaseModel):
    """An entry of the audit log: who did what."""

    id: int
    time: str
    who: str
    """Name of the token, or of the user who signed in; `hub` for actions of the hub itself."""
    user: str
    """Owner of the token; empty for the hub itself and for callers who are not signed in."""
    owner: str
    """Owner of the session or token that the entry is about."""
    verb: str
    session_id: str
    detail: dict[str, Any]

    @classmethod
    def of(cls, row: AuditRow) -> AuditAnswer:
        return cls(
            id=row.id,
            time=datetime.fromtimestamp(row.time, UTC).isoformat(),
            who=row.who,
            user=row.user_name,
            owner=row.owner,
            verb=row.verb,
            session_id=row.session_id,
            detail=dict(row.detail),
        )


class AuditApi:
    """Reads the audit log. Nothing changes an entry; `audit_days` later the hub deletes it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        admin = [require_scope("admin")]
        app.add_api_route("/api/audit", self.entries, dependencies=admin)
        app.add_api_route("/api/audit.jsonl", self.export, dependencies=admin, response_model=None)

    async def entries(
        self,
        session_id: Text = None,
        user: Text = None,
        verb: Text = None,
        since: Since = None,
        before: Number = None,
        limit: Limit = 1000,
    ) -> list[AuditAnswer]:
        """The audit log, newest first. `before`: only entries with smaller ids."""
        only = _filter(session_id, user, verb, since, before)
        rows = await self._store.list_audit(only, limit=min(limit, _MAX_ROWS))
        return [AuditAnswer.of(row) for row in rows]

    async def export(
        self, session_id: Text = None, user: Text = None, verb: Text = None, since: Since = None
    ) -> StreamingResponse:
        """All entries as JSON lines, newest first."""
        lines = self._lines(session_id, user, verb, since)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=_EXPORT_HEADERS)

    async def _lines(
        self, session_id: str | None, user: str | None, verb: str | None, since: datetime | None
    ) -> AsyncIterator[bytes]:
        before: int | None = None
        while True:
            only = _filter(session_id, user, verb, since, before)
            rows = await self._store.list_audit(only, limit=_BATCH)
            for row in rows:
                yield to_json(AuditAnswer.of(row).model_dump()) + b"\n"
            if len(rows) < _BATCH:
                return
            before = rows[-1].id


def _filter(
    session_id: str | None,
    user: str | None,
    verb: str | None,
    since: datetime | None,
    before: int | None,
) -> AuditFilter:
    return AuditFilter(
        session_id=None if session_id is None else SessionId(session_id),
        user_name=user,
        verb=verb,
        since=None if since is None else since.timestamp(),
        before=before,
    )
