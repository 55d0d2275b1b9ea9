"""`/contexts/…`: further IPython kernels, whose cells answer with rich results."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from bascule.core.errors import BasculeError, InvalidRequest
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.ipython.contexts import CellEnd, CodeContext, ensure_directory
from bascule.wire import to_json

from .requests import json_body, json_response
from .system import SystemInfo

_MAX_TIMEOUT: Final = 86400.0
_ID: Final = re.compile(r"[a-z]{0,40}")


class ContextRoutes:
    def __init__(self, sandbox: Sandbox, system: SystemInfo) -> None:
        self._sandbox = sandbox
        self._system = system

    def table(self) -> list[BaseRoute]:
        one = "/contexts/{id}"
        return [
            Route("/contexts", self.create, methods=["POST"]),
            Route("/contexts", self.list_contexts, methods=["GET"]),
            Route(one, self.remove, methods=["DELETE"]),
            Route(f"{one}/restart", self.restart, methods=["POST"]),
            Route(f"{one}/execute", self.execute, methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        body = await json_body(request)
        cwd = body.get("cwd") if isinstance(body, dict) else None
        if not isinstance(cwd, str) or not cwd.startswith("/"):
            raise InvalidRequest('The body must be {"cwd": absolute path}')
        context_id = body.get("id", "")
        if not isinstance(context_id, str) or not _ID.fullmatch(context_id):
            raise InvalidRequest(f"`id` must have at most 40 characters a-z, not {context_id!r}")
        await self._sandbox.in_thread(ensure_directory, cwd)
        return json_response(_described(self._sandbox.contexts.create(cwd, context_id)))

    async def list_contexts(self, _: Request) -> Response:
        found = [_described(each) for each in self._sandbox.contexts.all()]
        return json_response({"contexts": found})

    async def remove(self, request: Request) -> Response:
        await self._sandbox.contexts.remove(request.path_params["id"])
        return json_response({})

    async def restart(self, request: Request) -> Response:
        await self._sandbox.contexts.get(request.path_params["id"]).restart()
        return json_response({})

    async def execute(self, request: Request) -> Response:
        """Run a cell. Its results are JSON lines `{"output"}`, then `{"end"}`. If the client
        disconnects, the cell is interrupted."""
        context = self._sandbox.contexts.get(request.path_params["id"])
        body = await json_body(request)
        code = body.get("code") if isinstance(body, dict) else None
        timeout = body.get("timeout") if isinstance(body, dict) else None
        if not isinstance(code, str):
            raise InvalidRequest('The body must be {"code": text, "timeout": seconds}')
        if timeout is not None and not (
            isinstance(timeout, int | float) and 0 < timeout <= _MAX_TIMEOUT
        ):
            raise InvalidRequest(f"`timeout` must be 0 to {_MAX_TIMEOUT:g} seconds")
        self._system.touch()
        return StreamingResponse(
            self._lines(context, code, timeout), media_type="application/x-ndjson"
        )

    async def _lines(
        self, context: CodeContext, code: str, timeout: float | None
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._sandbox.contexts.run(context, code, timeout)) as results:
                async for each in results:
                    if isinstance(each, CellEnd):
                        yield to_json({"end": asdict(each)}) + b"\n"
                    else:
                        yield to_json({"output": each}) + b"\n"
        except BasculeError as error:
            yield to_json({"end": {"count": None, "error": error.message}}) + b"\n"


def _described(context: CodeContext) -> dict[str, Any]:
    return {"id": context.id, "cwd": context.cwd}
