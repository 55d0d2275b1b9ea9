"""The REST calls that export records."""

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

Who = Callable[[Request], Identity]
FormatQuery = Annotated[Form, Query(alias="format")]

_MEDIA_TYPES: Final = {"jsonl": "application/x-ndjson", "json": "application/json"}
_AS_BYTES: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""The export contains program output, so no browser may display it as a page of the hub."""


class TimelinesApi:
    """Exports the timeline of a session or window, running or not, to users who may see it."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        records: Records,
        timelines: WindowTimelines,
        registry: Registry,
        who: Who,
    ) -> None:
        self._sessions = sessions
        self._records = records
        self._timelines = timelines
        self._registry = registry
        self._who = who

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        app.add_api_route(
            "/api/sessions/{session_id}/timeline.jsonl",
            self.session,
            dependencies=[require_scope("agent", "admin", "session")],
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
        record = await self._sessions.settled_record(self._who(request), SessionId(session_id))
        return _export(record, form, f"session-{session_id}")

    async def window(
        self, window_id: str, request: Request, form: FormatQuery = "jsonl"
    ) -> StreamingResponse:
        """The actions and observations of a window, connected or not, as an OpenHands
        trajectory."""
        record = await self._of_window(self._who(request), WindowId(window_id))
        return _export(record, form, f"window-{window_id}")

    async def _of_window(self, who: Identity, window_id: WindowId) -> Record:
        try:
            owner, is_known = self._registry.owner(window_id), True
        except NoSuchWindow:
            owner, is_known = await self._records.window_owner(window_id), False
        if not who.may_see(owner):
            raise NoSuchWindow(f"There is no record of a window {window_id!r}", window_id=window_id)
        if is_known:
            return await self._timelines.of(window_id)
        return await self._records.of_window(window_id, owner)


def _export(record: Record, form: Form, name: str) -> StreamingResponse:
    headers = {**_AS_BYTES, "Content-Disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(
        export_record(record, form), media_type=_MEDIA_TYPES[form], headers=headers
    )
