"""A sandbox for calls to its contents: its runtime, its paths and its users."""

from __future__ import annotations

import base64
import binascii
import posixpath
from typing import Final

from starlette.requests import Request

from bascule.core.errors import InvalidPath, InvalidRequest
from bascule.core.sessions import SessionId
from bascule.hub import Hub, Identity
from bascule.hub.sessions.rows import SessionRow
from bascule.hub.sessions.sandbox_client import SandboxClient
from bascule.hub.sessions.session_runtime import SessionRuntime

HOME: Final = "/home/user"
"""The home directory in E2B's sandboxes. Relative paths start there."""
_OWN_USERS: Final = ("", "user", "bascule")


class OpenSandbox:
    """One sandbox as one caller uses it."""

    def __init__(self, hub: Hub, who: Identity, row: SessionRow) -> None:
        self.who = who
        self._row = row
        self._hub = hub
        self.runtime: SessionRuntime = hub.session(who, row.id)

    @property
    def id(self) -> SessionId:
        return self._row.id

    async def client(self) -> SandboxClient:
        """The client for files. Resumes a session that was paused because it was idle."""
        return await self.runtime.sandbox_client()

    async def home(self) -> str:
        """The directory from which relative paths start: the workspace."""
        if self._row.spec.file_layout == "e2b":
            return HOME
        return await (await self.client()).workspace_dir()

    async def path(self, given: str) -> str:
        """An absolute path, normalized."""
        if "\0" in given:
            raise InvalidPath(f"{given!r} contains a NUL character, which no path can")
        home = await self.home()
        if given == "~" or given.startswith("~/"):
            given = home + given[1:]
        path = posixpath.normpath(posixpath.join(home, given))
        path = "/" + path.lstrip("/")
        if home != HOME and (path == HOME or path.startswith(HOME + "/")):
            path = home + path.removeprefix(HOME)
        return path

    async def cell_starts(self, code: str) -> None:
        """Write an audit entry for a cell. Call this before the cell runs."""
        await self._hub.sessions.cell_starts(self.who, self.id, code)

    async def environment(self, cwd: str) -> dict[str, str]:
        """Environment variables of programs, in addition to those of the session."""
        home = await self.home()
        # `HOME` is a symbolic link. With PWD, bash shows the path through this link.
        return {"HOME": home, "PWD": cwd} if home == HOME else {}

    def account_of(self, request: Request) -> str:
        """The Unix user that a request names; empty: the sandbox's own user."""
        kind, _, encoded = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return ""
        try:
            name = base64.b64decode(encoded, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError) as error:
            raise InvalidRequest(f"`Authorization: Basic` is not Base64: {error}") from None
        own = (*_OWN_USERS, self._row.spec.user)
        return "" if name in own else name
