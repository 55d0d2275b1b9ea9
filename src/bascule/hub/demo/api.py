"""The REST calls about the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel

from bascule.hub.api import identity_of
from bascule.hub.messages import MessageAnswer
from bascule.hub.proxy import HubAddresses

from .demos import Demo, Demos, Phase


class SaidAnswer(BaseModel):
    """A message of the demo's agent: a step it begins, what it saw, or that it is done."""

    kind: Literal["step", "seen", "done"]
    text: str


class DemoAnswer(BaseModel):
    session_id: str
    url: str
    """Page with the session's VS Code and, beside it, the actions done there."""
    phase: Phase
    said: list[SaidAnswer]
    """All messages since the demo started, oldest first."""
    cause: str
    """Why the demo failed; empty otherwise."""


class DemoApi:
    def __init__(self, demos: Demos, addresses: HubAddresses) -> None:
        self._demos = demos
        self._addresses = addresses

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        agent_or_admin = [require_scope("agent", "admin")]
        add = app.add_api_route
        add("/api/demo", self.show, dependencies=agent_or_admin)
        add("/api/demo", self.play, methods=["POST"], dependencies=agent_or_admin)
        add("/api/demo", self.remove, methods=["DELETE"], dependencies=agent_or_admin)
        add("/api/demo/skip", self.skip, methods=["POST"], dependencies=agent_or_admin)

    async def show(self, request: Request) -> DemoAnswer | None:
        """The caller's demo and its progress; null if there is none."""
        demo = self._demos.of(identity_of(request))
        return None if demo is None else self._answer(demo)

    async def play(self, request: Request) -> DemoAnswer:
        """Play the demo: a scripted agent works in the VS Code of the demo's session, as soon as
        its `url` is open in a browser. No effect while the demo is playing."""
        return self._answer(await self._demos.play(identity_of(request)))

    async def skip(self, request: Request) -> MessageAnswer:
        """Skip the pause in which the agent lets people look at its last step."""
        self._demos.skip(identity_of(request))
        return MessageAnswer(message="The agent goes on")

    async def remove(self, request: Request) -> MessageAnswer:
        """End the demo and remove its session with all files."""
        await self._demos.remove(identity_of(request))
        return MessageAnswer(message="The demo is removed")

    def describe(self, demo: Demo) -> Mapping[str, Any]:
        """A demo as JSON, as these calls return it."""
        return self._answer(demo).model_dump()

    def _answer(self, demo: Demo) -> DemoAnswer:
        return DemoAnswer(**asdict(demo), url=self._addresses.watch(demo.session_id))
