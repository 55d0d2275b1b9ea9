"""A session never sees a credential of the hub, whatever a client sends and whichever way it comes.

Each request goes to the hub itself and to a real nginx in front of it: one list for both.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bascule.hub.proxy import SessionEndpoint
from bascule.hub.proxy.endpoints import EndpointPath
from bascule.hub.proxy.nginx import render
from bascule.hub.proxy.routes import socket_path
from tests.hub.serving import ADMIN

from .targets import APP, SESSION, VSCODE, ProxyHub, Raw, request
from .test_nginx import PROGRAM, Front, certificate

__all__ = ["certificate"]  # a fixture

SANDBOX = SessionEndpoint("sandbox", SESSION)
V0 = f"/openhands/v0/{SESSION}"
SHAKE = (
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


@dataclass
class Entrance:
    """A way to the hub's port: directly, or through nginx."""

    hub: ProxyHub
    client: Callable[[], Raw]
    host: str
    origin: str


@pytest.fixture(
    params=[
        "hub",
        pytest.param(
            "nginx",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed"),
            ],
        ),
    ]
)
async def entrance(
    request: pytest.FixtureRequest, tmp_path: Path, certificate: tuple[Path, Path]
) -> AsyncIterator[Entrance]:
    async with AsyncExitStack() as stack:
        is_fronted = request.param == "nginx"
        front = await asyncio.to_thread(Front, tmp_path, certificate) if is_fronted else None
        settings: dict[str, Any] = {"run_dir": tmp_path / "run"}
        if front is not None:
            settings["public_url"] = front.url
        hub = await stack.enter_async_context(ProxyHub(**settings))
        hub.hub.proxy._resolve_mounted = hub.hub.proxy.access_control._resolve_mounted = _carried
        for place in (VSCODE, APP, SANDBOX):
            path = socket_path(tmp_path / "run", place)
            path.parent.mkdir(parents=True, exist_ok=True)
            await stack.enter_async_context(hub.echo(place, path=path))
        if front is None:
            yield Entrance(hub, lambda: Raw(hub.port), f"127.0.0.1:{hub.port}", hub.url)
            return
        stack.callback(front.stop)
        await asyncio.to_thread(front.nginx.install, render(front.site(hub.port)), front.file)
        await asyncio.to_thread(front.start)
        yield Entrance(hub, front.client, front.host, front.url)


def _carried(target: bytes) -> EndpointPath | str | None:
    """As `OpenHandsV0Mount` does."""
    if not target.startswith(V0.encode()):
        return None
    return EndpointPath(SANDBOX, V0, target[len(V0) :])


SENT = [
    "X-API-Key: {token}",
    "X_Api_Key: {token}",
    "X-Session-API-Key: {token}",
    "X-API-Key: {admin}",
    "X-Session-API-Key: {admin}",
    "X-Bascule-Page: {page}",
    "X-Auth-Token: {token}",
    "Proxy-Authorization: Bearer {token}",
    "Sec-WebSocket-Protocol: base64url.bearer.{token}",
    "Referer: {origin}/vscode/x/?tkn={token}",
    "Referer: {origin}/apps/otherone12345678-0/~{page}/",
    "Referer: {origin}/sign-in?code={page}",
    "Cookie: vscode-tkn={token}; a=1",
    "?tkn={token}&a=1",
    "?a=1&session_api_key={token}",
    "?session_api_key={admin}",
    "?anything={token}",
]
"""Headers, and queries where it begins with `?`."""


@pytest.mark.parametrize("way", [VSCODE.path, SANDBOX.path, V0, APP.path, "keyed"])
async def test_no_request_carries_a_credential_into_a_session(entrance: Entrance, way: str) -> None:
    secrets = {
        "token": await entrance.hub.token("one", "agent", owner="admin"),
        "admin": ADMIN,
        "page": "k" * 43,
    }
    base = entrance.hub.hub.addresses.keyed_path(APP) if way == "keyed" else way
    async with entrance.client() as raw:
        for pattern in SENT:
            sent = pattern.format(**secrets, origin=entrance.origin)
            query, header = (sent, ()) if sent.startswith("?") else ("", (sent,))
            asked = request(f"{base}/x{query}", *header, host=entrance.host, token=ADMIN)
            status, _, body = await raw.ask(asked)

            assert status == 200, (pattern, body)
            told = json.loads(body)
            for secret in secrets.values():
                assert secret not in body.decode(), (pattern, told)
            assert told["path"] == "/x", pattern
            assert ("a=1" in told["query"]) == ("a=1" in query), pattern


@pytest.mark.parametrize("way", [VSCODE.path, SANDBOX.path, V0, "keyed"])
async def test_no_websocket_carries_a_credential_into_a_session(
    entrance: Entrance, way: str
) -> None:
    token = await entrance.hub.token("one", "agent", owner="admin")
    base = entrance.hub.hub.addresses.keyed_path(APP) if way == "keyed" else way
    asked = request(
        f"{base}/ws?session_api_key={token}",
        *SHAKE,
        f"X-API-Key: {token}",
        f"X-Session-API-Key: {token}",
        f"Origin: {entrance.origin}",
        host=entrance.host,
        token=token,
    )
    async with entrance.client() as raw, asyncio.timeout(20):
        raw.writer.write(asked)
        assert (await raw.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        told = await raw.reader.readuntil(b"}]")
    assert b"x-forwarded-for" in told
    assert token.encode() not in told


async def test_an_app_gets_only_its_own_keys(entrance: Entrance) -> None:
    keyed = entrance.hub.hub.addresses.keyed_path(APP)
    own = ("X-API-Key: an-apps-own-key", "X-Session-API-Key: another", "Cookie: session=x")
    async with entrance.client() as raw:
        asked = request(f"{keyed}/x?tkn=an-apps-own&key=v", *own, host=entrance.host)
        _, _, body = await raw.ask(asked)
    told = json.loads(body)
    headers = dict(told["headers"])
    assert headers["x-api-key"] == "an-apps-own-key"
    assert headers["x-session-api-key"] == "another"
    assert headers["cookie"] == "session=x"
    assert told["query"] == "tkn=an-apps-own&key=v"
