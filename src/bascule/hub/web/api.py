"""REST calls that only the hub's page needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from bascule.core.sessions import SessionId
from bascule.hub.api import identity_of
from bascule.hub.sessions.service import Sessions
from bascule.serving.owning_stream import OwningStream

MakeChecks = Callable[[], Sequence[Mapping[str, Any]]]
"""Checks the machine, as `bascule doctor` does. The function blocks."""

Path = Annotated[str, Query(max_length=4096)]

_FILE_HEADERS: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Content-Disposition": "attachment",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Headers of a file of a workspace. The file may have any content, so no browser may display it as
a page of the hub."""


class FilesAnswer(BaseModel):
    path: str
    names: list[str]
    """Names of directories end with a slash."""


class CheckAnswer(BaseModel):
    name: str
    state: str
    found: str
    advice: str


class WebApi:
    def __init__(self, sessions: Sessions, checks: MakeChecks) -> None:
        self._sessions = sessions
        self._checks = checks

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        agent_or_admin = [require_scope("agent", "admin")]
        add = app.add_api_route
        add("/api/sessions/{session_id}/files", self.files, dependencies=agent_or_admin)
        add(
            "/api/sessions/{session_id}/file",
            self.file,
            dependencies=agent_or_admin,
            response_model=None,
        )
        add("/api/checks", self.checks, dependencies=[require_scope("admin")])

    async def files(self, session_id: str, request: Request, path: Path = "") -> FilesAnswer:
        """The names in a directory of a session; by default in its workspace."""
        client = await self._sessions.sandbox_client(identity_of(request), SessionId(session_id))
        directory = path or await client.workspace_dir()
        return FilesAnswer(path=directory, names=list(await client.list_files(directory)))

    async def file(self, session_id: str, request: Request, path: Path) -> StreamingResponse:
        """A file of a session, as a download that the browser never displays."""
        client = await self._sessions.sandbox_client(identity_of(request), SessionId(session_id))
        async with AsyncExitStack() as stack:
            found = await stack.enter_async_context(client.download(path))
            stack_to_close = stack.pop_all()
        size = found.size
        headers = dict(_FILE_HEADERS) | ({} if size is None else {"Content-Length": str(size)})
        return OwningStream(
            found.chunks,
            stack_to_close,
            media_type="application/octet-stream",
            headers=headers,
        )

    async def checks(self) -> list[CheckAnswer]:
        """Checks of the hub's machine, as `bascule doctor` reports them."""
        return [CheckAnswer(**each) for each in await asyncio.to_thread(self._checks)]
