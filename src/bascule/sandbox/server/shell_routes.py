"""Endpoints that list shells and read their logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from bascule.core.actions import Interrupt
from bascule.core.contracts import OutputLog, Shell
from bascule.core.errors import InvalidRange
from bascule.sandbox.executor import Sandbox

from .requests import flag, json_response, number, text

_PIECE_BYTES = 1 << 20


class ShellRoutes:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._shells = sandbox.shells

    def table(self) -> list[BaseRoute]:
        return [
            Route("/shells", self.list_shells, methods=["GET"]),
            Route("/shells/{name}", self.close_shell, methods=["DELETE"]),
            Route("/shells/{name}/interrupt", self.interrupt, methods=["POST"]),
            Route("/shells/{name}/log", self.read_log, methods=["GET"]),
            Route("/shells/{name}/log/search", self.search_log, methods=["GET"]),
        ]

    async def list_shells(self, _: Request) -> Response:
        shells = (self._shells.get(name) for name in self._shells.names())
        return json_response({"shells": [_describe(shell) for shell in shells]})

    async def close_shell(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._shells.close_shell(name)
        return json_response({"closed": name})

    async def interrupt(self, request: Request) -> Response:
        action = Interrupt(request.path_params["name"], kill=flag(request, "kill"))
        answer = await self._sandbox.interrupt(action)
        return json_response({"shell": answer.shell, "was_running": answer.was_running})

    async def read_log(self, request: Request) -> Response:
        """Send raw bytes of a shell's log.

        The first piece is read before the response starts, so that a range no longer in the log is
        still answered with an error status.
        """
        log = self._log(request)
        start, requested_end = number(request, "start"), number(request, "end")
        start = log.start if start is None else start
        end = log.end if requested_end is None else min(requested_end, log.end)
        if start > end:
            raise InvalidRange(
                f"The log has no range {start} to {end}; it holds {log.start} to {log.end}"
            )
        first = await self._sandbox.in_thread(log.read, start, min(start + _PIECE_BYTES, end))
        return StreamingResponse(
            self._pieces(log, first, start, end),
            media_type="application/octet-stream",
            headers={
                "content-length": str(end - start),
                "x-log-start": str(start),
                "x-log-end": str(end),
            },
        )

    async def search_log(self, request: Request) -> Response:
        log, pattern = self._log(request), text(request, "pattern")
        start, limit = number(request, "start") or 0, number(request, "limit")

        def search() -> list[dict[str, Any]]:
            matches = log.search(pattern, start=start, limit=100 if limit is None else limit)
            return [{"offset": match.offset, "text": match.text} for match in matches]

        return json_response({"matches": await self._sandbox.in_thread(search)})

    def _log(self, request: Request) -> OutputLog:
        return self._sandbox.log(request.path_params["name"])

    async def _pieces(
        self, log: OutputLog, first: bytes, start: int, end: int
    ) -> AsyncIterator[bytes]:
        yield first
        start += len(first)
        while start < end:
            piece = await self._sandbox.in_thread(log.read, start, min(start + _PIECE_BYTES, end))
            yield piece
            start += len(piece)


def _describe(shell: Shell) -> dict[str, Any]:
    log = shell.log
    return {
        "name": shell.name,
        "running": shell.is_running,
        "cwd": shell.cwd,
        "log": {"start": log.start, "end": log.end, "path": log.path and str(log.path)},
    }
