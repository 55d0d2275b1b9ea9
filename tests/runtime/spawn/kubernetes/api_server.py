"""A small API server on a real socket, which tests let cut, stall and refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PODS = "/api/v1/namespaces/sessions/pods"


def pod(name: str, version: int, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    return {"kind": "Pod", "metadata": {**metadata, "resourceVersion": str(version)}}


def event(kind: str, changed: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": changed}).encode() + b"\n"


def too_old() -> bytes:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"})


Watcher = Callable[["WatchAnswer"], Awaitable[None]]


@dataclass
class WatchAnswer:
    """A watch that the server answers now."""

    version: str
    query: Mapping[str, str]
    response: web.StreamResponse
    request: web.Request

    async def send(self, *events: bytes) -> None:
        for each in events:
            await self.response.write(each)

    def cut(self) -> None:
        """Close the connection in the middle of the answer."""
        transport = self.request.transport
        assert transport is not None
        transport.abort()


@dataclass
class ApiServer:
    """Lists `pods`, and answers each watch as the next of `watchers` says; without one, with
    silence until the end."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 1
    watchers: list[Watcher] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path and body of each request."""
    tokens: list[str] = field(default_factory=list)
    lists: int = 0
    refusals: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Statuses and bodies for the next requests that are not watches."""
    log: bytes = b""
    watched: asyncio.Condition = field(default_factory=asyncio.Condition)
    watches: int = 0
    url: str = ""
    created: asyncio.Event = field(default_factory=asyncio.Event)
    """A pod was created."""
    deleted: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> ApiServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def until_watched(self, times: int) -> None:
        async with self.watched:
            await self.watched.wait_for(lambda: self.watches >= times)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        if "watch" in request.query:
            return await self._watch(request)
        body: Any = json.loads(text) if (text := await request.text()) else None
        self.requests.append((request.method, request.path, body))
        if self.refusals:
            status, refusal = self.refusals.pop(0)
            return web.json_response(refusal, status=status)
        if request.path.endswith("/log"):
            return web.Response(body=self.log)
        if not request.path.startswith(PODS):  # of other kinds nothing is kept
            return web.json_response(body or {}, status=201 if request.method == "POST" else 404)
        return self._pods(request, body)

    def _pods(self, request: web.Request, body: Any) -> web.Response:
        name = request.path.removeprefix(PODS).strip("/")
        if not name and request.method == "GET":
            self.lists += 1
            metadata = {"resourceVersion": str(self.version)}
            return web.json_response({"metadata": metadata, "items": [*self.pods.values()]})
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.pods:
                return _status(409, "AlreadyExists", f'pods "{name}" already exists')
            self.version += 1
            self.pods[name] = pod(name, self.version)
            self.created.set()
            return web.json_response(self.pods[name], status=201)
        if name not in self.pods:
            return _status(404, "NotFound", f'pods "{name}" not found')
        if request.method == "PATCH":
            asked = body["metadata"].get("resourceVersion")
            if asked and asked != self.pods[name]["metadata"]["resourceVersion"]:
                return _status(409, "Conflict", "the object has been modified")
            self.version += 1
            self.pods[name]["metadata"] |= {**body["metadata"], "resourceVersion": self.version}
        if request.method == "DELETE":
            wanted = (body.get("preconditions") or {}).get("uid")
            if wanted and wanted != self.pods[name]["metadata"]["uid"]:
                return _status(409, "Conflict", "the UID does not match")
            self.deleted.set()
            return web.json_response(self.pods.pop(name))
        return web.json_response(self.pods[name])

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        answer = WatchAnswer(
            request.query["resourceVersion"], dict(request.query), response, request
        )
        watcher = self.watchers.pop(0) if self.watchers else None
        async with self.watched:
            self.watches += 1
            self.watched.notify_all()
        if watcher is not None:
            await watcher(answer)
        else:
            await self._ended.wait()
        return response


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)
