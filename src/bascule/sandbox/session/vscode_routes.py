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
            Route(_PATH, self.status, methods=["GET"]),
            Route(_PATH, self.start, methods=["POST"]),
            Route(_PATH, self.stop, methods=["DELETE"]),
        ]

    async def status(self, _: Request) -> Response:
        return json_response(await self._vscode.status())

    async def start(self, request: Request) -> Response:
        body = await json_body(request)
        if not isinstance(body, dict):
            raise InvalidRequest("The body must be an object")
        token, headless_window = body.get("token", ""), body.get("window", False)
        if not isinstance(token, str) or not isinstance(headless_window, bool):
            raise InvalidRequest("`token` must be a string and `window` true or false")
        idle = _seconds(body.get("idle_timeout", IDLE))
        return json_response(
            await self._vscode.start(
                token=token, headless_window=headless_window, idle_timeout=idle
            )
        )

    async def stop(self, _: Request) -> Response:
        await self._vscode.stop()
        return json_response(await self._vscode.status())


def _seconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (value and value <= 60):
        raise InvalidRequest("`idle_timeout` must be an integer of seconds above 60, or 0")
    return int(value)
