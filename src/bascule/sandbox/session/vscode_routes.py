"""`/session/vscode`: the VS Code of a session, on request."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.errors import InvalidRequest
from bascule.sandbox.server.requests import json_body, json_response

from .vscode import IDLE, SessionVSCode

_PATH: Final = "/session/vscode"


class VSCodeRoutes:
    def __init__(self, vscode: SessionVSCode) -> None:
        self._vscode = vscode

    def table(self) -> list[BaseRoute]:
        return [
            Route(_PATH, self.standing, methods=["GET"]),
            Route(_PATH, self.start, methods=["POST"]),
            Route(_PATH, self.stop, methods=["DELETE"]),
        ]

    async def standing(self, _: Request) -> Response:
        return json_response(await self._vscode.standing())

    async def start(self, request: Request) -> Response:
        asked = await json_body(request)
        if not isinstance(asked, dict):
            raise InvalidRequest("The body has to be an object")
        token, window = asked.get("token", ""), asked.get("window", False)
        if not isinstance(token, str) or not isinstance(window, bool):
            raise InvalidRequest("`token` has to be text and `window` true or false")
        idle = _seconds(asked.get("idle_timeout", IDLE))
        return json_response(
            await self._vscode.start(token=token, window=window, idle_timeout=idle)
        )

    async def stop(self, _: Request) -> Response:
        await self._vscode.stop()
        return json_response(await self._vscode.standing())


def _seconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (value and value <= 60):
        raise InvalidRequest("`idle_timeout` has to be a whole number of seconds above 60, or 0")
    return int(value)
