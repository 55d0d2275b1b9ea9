"""Asking a hub as OpenHands' client does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bascule.core.contracts import OnStage
from bascule.core.sessions import RunningSandbox, SandboxPlan
from bascule.link.http import HttpClient
from bascule.runtime.spawn.plain import PlainSpawner
from bascule.wire import from_json, to_json

START = {"session_id": "conversation", "image": "any", "command": ["--username", "root"]}


class Openhands(HttpClient):
    """A client that knows keys and no bearer."""

    def __init__(self, url: str, key: str, **more: str) -> None:
        super().__init__(url, headers={"X-API-Key": key, **more})

    async def ask(self, method: str, where: str, body: object = None) -> tuple[int, Any]:
        kind = {} if body is None else {"Content-Type": "application/json"}
        packed = b"" if body is None else to_json(body)
        reply = await self.request(
            method, f"/openhands/v0{where}", body=packed, headers=kind, timeout=60
        )
        is_json = reply.headers.get("content-type") == "application/json"
        return reply.status, from_json(reply.body) if is_json else reply.headers

    async def must(self, method: str, where: str, body: object = None) -> Any:
        status, answer = await self.ask(method, where, body)
        assert status == 200, (status, answer)
        return answer


class LenientSpawner(PlainSpawner):
    """Starts without what a plain one refuses: the user and the paths that OpenHands wants."""

    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        return await super().start(replace(plan, user="", file_layout=""), on_stage=on_stage)


def inside(started: Any) -> str:
    """Where its client finds the runtime's own server, below the prefix."""
    return str(started["url"]).removeprefix("https://hub.example/openhands/v0")


def run(command: str, **args: Any) -> dict[str, Any]:
    return {"action": {"id": 7, "action": "run", "args": {"command": command, **args}}}
