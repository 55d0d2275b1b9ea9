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
from bascule.sandbox.server.replies import ClientDisconnected
from bascule.sandbox.server.requests import json_body, json_response

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
            Route(WORKSPACE_PATH, self.standing, methods=["GET"]),
            Route(WORKSPACE_PATH, self.fill, methods=["POST"]),
        ]

    async def standing(self, _: Request) -> Response:
        return json_response(await self._workspace.standing())

    async def fill(self, request: Request) -> Response:
        if request.headers.get("content-type") == "application/octet-stream":
            return json_response(await self._unpack(request))
        return json_response(await self._clone(await json_body(request)))

    async def _clone(self, asked: Any) -> dict[str, Any]:
        if not isinstance(asked, dict) or asked.get("kind") != "git":
            raise InvalidRequest('The body has to be {"kind": "git", "url": …}, or an archive')
        url, ref = _text(asked, "url"), _text(asked, "ref", "")
        if ref.startswith("-") or ref != ref.strip():
            raise InvalidRequest(f"{ref!r} names no branch, tag or commit")
        timeout = asked.get("timeout", _TIMEOUT)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise InvalidRequest("`timeout` has to be a number of seconds")
        repository = read_repository(url, _credential(asked.get("credential")))
        return await self._workspace.clone(repository, ref, timeout=timeout)

    async def _unpack(self, request: Request) -> dict[str, Any]:
        """The archive lies beside the workspace, without a name, until it is unpacked."""
        await self._workspace.ensure_empty()
        in_thread = self._sandbox.in_thread
        spool = await in_thread(lambda: tempfile.TemporaryFile(dir=self._state_dir))  # noqa: SIM115
        try:
            more = True
            while more:
                message = await request.receive()
                if message["type"] != "http.request":
                    raise ClientDisconnected
                more = message.get("more_body", False)
                await in_thread(spool.write, message["body"])
            return await self._workspace.unpack(spool)
        finally:
            spool.close()


def _credential(given: Any) -> Credential:
    if given is None:
        return Credential()
    if not isinstance(given, dict) or not given.keys() <= _CREDENTIAL:
        raise InvalidRequest(f"`credential` has to be an object with {', '.join(_CREDENTIAL)}")
    fields = {name: _text(given, name) for name in given}
    if any("\n" in fields.get(name, "") for name in ("username", "password")):
        raise InvalidRequest("A name or password has no line breaks")
    return Credential(**fields)


def _text(asked: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = asked.get(name, default)
    if not isinstance(value, str):
        raise InvalidRequest(f"`{name}` has to be text", parameter=name)
    return value
