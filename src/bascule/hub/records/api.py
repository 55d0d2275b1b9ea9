"""The REST calls that export records.

A record is the stored timeline of a session or window: its actions and observations. The export has
the format of an OpenHands trajectory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Request
from fastapi.responses import StreamingResponse

from bascule.core.errors import NoSuchWindow
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.identity import Identity
from bascule.hub.registry import Registry
from bascule.hub.sessions.service import Sessions
from bascule.hub.window_timelines import WindowTimelines

from .export import Form, export_record
from .record import Record
from .records import Records

IdentityOf = Callable[[Request], Identity]
"""Returns the identity behind a request."""
FormatQuery = Annotated[Form, Query(alias="format")]

_MEDIA_TYPES: Final = {"jsonl": "application/x-ndjson", "json": "application/json"}
_EXPORT_HEADERS: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Headers of an export. It contains program output, so no browser may display it as a page of the
hub."""


class TimelinesApi:
    """Exports the record of a session or window, running or not, to users who may see it."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        records: Records,
        timelines: WindowTimelines,
        registry: Registry,
        identity_of: IdentityOf,
    ) -> None:
        self._sessions = sessions
        self._records = records
        self._timelines = timelines
        self._registry = registry
        self._identity_of = identity_of

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        app.add_api_route(
            "/api/sessions/{session_id}/timeline.jsonl",
            self.session,
            dependencies=[require_scope("agent", "admin", "session", "viewer")],
            response_model=None,
        )
        app.add_api_route(
            "/api/windows/{window_id}/timeline.jsonl",
            self.window,
            dependencies=[require_scope("agent", "admin")],
            response_model=None,
        )

    async def session(
        self, session_id: str, request: Request, form: FormatQuery = "jsonl"
    ) -> StreamingResponse:
        """The actions and observations of a session, as an OpenHands trajectory."""
        record = await self._sessions.up_to_date_record(
            self._identity_of(request), SessionId(session_id)
        )
        return _export(record, form, f"session-{session_id}")

    async def window(
        self, window_id: str, request: Request, form: FormatQuery = "jsonl"
    ) -> StreamingResponse:
        """The actions and observations of a window, connected or not, as an OpenHands
        trajectory."""
        record = await self._of_window(self._identity_of(request), WindowId(window_id))
        return _export(record, form, f"window-{window_id}")

    async def _of_window(self, who: Identity, window_id: WindowId) -> Record:
        try:
            owner, is_registered = self._registry.owner(window_id), True
        except NoSuchWindow:
            owner, is_registered = await self._records.window_owner(window_id), False
        if not who.may_see(owner):
            raise NoSuchWindow(f"There is no record of a window {window_id!r}", window_id=window_id)
        if is_registered:
            return await self._timelines.of(window_id)
        return await self._records.of_window(window_id, owner)


def _export(record: Record, form: Form, name: str) -> StreamingResponse:
    headers = {**_EXPORT_HEADERS, "Content-Disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(
        export_record(record, form), media_type=_MEDIA_TYPES[form], headers=headers
    )
