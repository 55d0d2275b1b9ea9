"""`/session/workspace`: fill the workspace of a session, and read its status."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.errors import InvalidRequest
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.guard import WORKSPACE_PATH
from bascule.sandbox.server.requests import json_body, json_response
from bascule.serving.asgi import read_pieces

from .clone import Credential, read_repository
from .workspace import Workspace

_TIMEOUT: Final = 1800.0
_CREDENTIAL: Final = frozenset({"username", "password", "private_key", "known_hosts"})


class WorkspaceRoutes:
    def __init__(self, workspace: Workspace, state_dir: Path, sandbox: Sandbox) -> None:
        self._workspace = workspace
        self._state_dir = state_dir
        self._sandbox = sandbox

    def table(self) -> list[BaseRoute]:
        return [
            Route(WORKSPACE_PATH, self.status, methods=["GET"]),
            Route(WORKSPACE_PATH, self.fill, methods=["POST"]),
        ]

    async def status(self, _: Request) -> Response:
        return json_response(await self._workspace.status())

    async def fill(self, request: Request) -> Response:
        if request.headers.get("content-type") == "application/octet-stream":
            return json_response(await self._unpack(request))
        return json_response(await self._clone(await json_body(request)))

    async def _clone(self, body: Any) -> dict[str, Any]:
        if not isinstance(body, dict) or body.get("kind") != "git":
            raise InvalidRequest('The body must be {"kind": "git", "url": …}, or an archive')
        url, ref = _text(body, "url"), _text(body, "ref", "")
        if ref.startswith("-") or ref != ref.strip():
            raise InvalidRequest(f"{ref!r} is not a branch, tag or commit")
        timeout = body.get("timeout", _TIMEOUT)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise InvalidRequest("`timeout` must be a number of seconds")
        repository = read_repository(url, _credential(body.get("credential")))
        return await self._workspace.clone(repository, ref, timeout=timeout)

    async def _unpack(self, request: Request) -> dict[str, Any]:
        """Store the archive in an unnamed temporary file in the state directory, then unpack it."""
        await self._workspace.ensure_empty()
        in_thread = self._sandbox.in_thread
        spool = await in_thread(lambda: tempfile.TemporaryFile(dir=self._state_dir))  # noqa: SIM115
        try:
            async for piece in read_pieces(request.receive):
                await in_thread(spool.write, piece)
            return await self._workspace.unpack(spool)
        finally:
            spool.close()


def _credential(given: Any) -> Credential:
    if given is None:
        return Credential()
    if not isinstance(given, dict) or not given.keys() <= _CREDENTIAL:
        raise InvalidRequest(f"`credential` must be an object with {', '.join(_CREDENTIAL)}")
    fields = {name: _text(given, name) for name in given}
    if any("\n" in fields.get(name, "") for name in ("username", "password")):
        raise InvalidRequest("A name or password has no line breaks")
    return Credential(**fields)


def _text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise InvalidRequest(f"`{name}` must be a string", parameter=name)
    return value
