"""docs/protocol.md names every endpoint, and nothing that is not there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from starlette.routing import Route, WebSocketRoute

from bascule.core import errors
from bascule.core.errors import BasculeError, BridgeError
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.inflight import InFlight
from bascule.sandbox.server.replies import ERRORS
from bascule.sandbox.server.routes import SandboxRoutes
from bascule.sandbox.session.services import SessionServices
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from tests.sandbox.session.running import launch_in

SECTION = (Path(__file__).parents[3] / "docs/protocol.md").read_text().partition("## Endpoints")[2]
DOCUMENTED = re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", SECTION, re.MULTILINE)
STATUSES = {int(status) for status in re.findall(r"^\| (\d{3}) \|", SECTION, re.MULTILINE)}


async def test_the_page_has_every_endpoint_once_and_no_other(tmp_path: Path) -> None:
    async with await asyncio.to_thread(Sandbox, SandboxSettings()) as sandbox:
        services = SessionServices(launch_in(tmp_path))
        await asyncio.to_thread(services.prepare)
        settings = ServerSettings(key="k")
        routes = await asyncio.to_thread(SandboxRoutes, sandbox, InFlight(), settings, services)
        there = []
        for route in (await asyncio.to_thread(routes.endpoints)).table:
            if isinstance(route, WebSocketRoute):
                there.append(f"WEBSOCKET {route.path}")
            elif isinstance(route, Route):
                methods = (route.methods or set()) - {"HEAD"}
                there += [f"{method} {route.path}" for method in methods]
        await services.aclose()
        assert sorted(there) == sorted(DOCUMENTED)


def test_the_page_has_every_status_an_error_can_have() -> None:
    classes = [
        cls
        for cls in vars(errors).values()
        if isinstance(cls, type)
        and issubclass(cls, BasculeError)
        and not issubclass(cls, BridgeError)  # told to scripts, by no server of ours
    ]
    assert {ERRORS.status_of(cls.__new__(cls)) for cls in classes} <= STATUSES


def test_no_error_status_falsely_reports_that_the_sandbox_is_gone() -> None:
    assert not STATUSES & {404, 502, 504}
