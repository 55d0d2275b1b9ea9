"""Apps of sessions in a real browser, with and without nginx. VS Code there is in test_sessions."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, async_playwright, expect

from bascule.hub import HubSettings
from bascule.hub.proxy import SessionEndpoint, UpstreamServer
from bascule.hub.proxy.nginx import render
from bascule.serving.asgi import App, Receive, Scope, Send
from bascule.serving.listener import Listener
from tests.hub.proxy.targets import ProxyHub
from tests.hub.proxy.test_nginx import PROGRAM, Front, certificate
from tests.hub.serving import ADMIN

from .code_server import CHROMIUM

__all__ = ["certificate"]  # a fixture

RESOLVER = "--host-resolver-rules=MAP hub.test 127.0.0.1,MAP *.sessions.test 127.0.0.1"
ONE = "sessionone123456"
TIMEOUT = 90_000

PAGE = b"""<!doctype html><title>app</title><script type="module" src="app.js"></script>"""
SCRIPT = b"""
const tried = {};
const attempt = async (name, what) => {
  try { tried[name] = String(await what()); } catch (error) { tried[name] = 'refused'; }
};
await attempt('own', async () => (await (await fetch('data.json')).json()).data);
await attempt('socket', () => new Promise((resolve, reject) => {
  const socket = new WebSocket('ws' + location.href.slice(4).split('?')[0] + 'ws');
  socket.onmessage = (event) => resolve(event.data);
  socket.onerror = reject;
}));
await attempt('cookie', () => document.cookie);
await attempt('storage', () => localStorage.length);
await attempt('hub', async () => (await fetch(VSCODE)).status);
await attempt('api', async () => (await fetch('/api/vscode/instances')).status);
await attempt('frame', () => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.onload = () => resolve(frame.contentDocument ? 'open' : 'closed');
  frame.src = VSCODE;
  document.body.append(frame);
}));
await attempt('worker', () => navigator.serviceWorker.register('app.js'));
document.title = JSON.stringify(tried);
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """A hub with the endpoints of one session, and a browser that knows the way."""

    hub: ProxyHub
    context: BrowserContext


@pytest.fixture(params=["hub", "nginx"])
async def ground(
    request: pytest.FixtureRequest, short_path: Path, certificate: tuple[Path, Path]
) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        front = None
        settings: dict[str, Any] = {"run_dir": short_path / "sockets"}
        if request.param == "nginx":
            if PROGRAM is None:
                pytest.skip("nginx is not installed (scripts/nginx)")
            (short_path / "nginx").mkdir()
            front = await asyncio.to_thread(Front, short_path / "nginx", certificate)
            settings["public_url"], settings["run_dir"] = front.url, front.run_dir
            settings["sessions_origin"] = front.sessions_origin
        hub = await stack.enter_async_context(ProxyHub(**settings))
        if front is not None:
            await asyncio.to_thread(front.nginx.install, render(front.site(hub.port)), front.file)
            await asyncio.to_thread(front.start)
            stack.callback(front.stop)
        vscode = await stack.enter_async_context(_listening(_vscode))
        hub.open(SessionEndpoint("vscode", ONE), UpstreamServer(port=vscode))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", RESOLVER],
        )
        stack.push_async_callback(browser.close)
        yield Ground(hub, await browser.new_context(ignore_https_errors=True))


@asynccontextmanager
async def _listening(app: App) -> AsyncIterator[int]:
    """The port of a server."""
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    listener = Listener(app, HubSettings(admin_token="x", stop_grace=0.1))
    await listener.start(sock)
    try:
        yield sock.getsockname()[1]
    finally:
        await listener.stop()
        sock.close()


async def _vscode(scope: Scope, receive: Receive, send: Send) -> None:
    """Where a session's VS Code would be: whether a script gets there is what is tested."""
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"<!doctype html><title>VS Code</title>"})


async def _sign_in(page: Page) -> None:
    await page.get_by_label("Token").fill(ADMIN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).not_to_have_title("Sign in to Bascule")  # the browser has the cookie now


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "through"})
        await receive()
        return
    script = f"const VSCODE = '/vscode/{ONE}/';".encode() + SCRIPT
    kind, body = {
        "/": (b"text/html", PAGE),
        "/app.js": (b"text/javascript", script),
        "/data.json": (b"application/json", b'{"data": "its own"}'),
    }[scope["path"]]
    headers = [(b"content-type", kind), (b"set-cookie", b"mine=1; Path=/")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("is_sandboxed", [True, False])
async def test_a_sandboxed_apps_script_reaches_only_its_app(
    ground: Ground, is_sandboxed: bool
) -> None:
    async with _listening(_app) as port:
        target = UpstreamServer(port=port, is_sandboxed=is_sandboxed)
        ground.hub.open(SessionEndpoint("apps", ONE, 0), target)
        page = await ground.context.new_page()
        await page.goto(ground.hub.hub.addresses.app(ONE, 0))
        await _sign_in(page)
        await page.wait_for_function("document.title.startsWith('{')", timeout=TIMEOUT)
        tried = json.loads(await page.title())

    assert (tried["own"], tried["socket"]) == ("its own", "through")
    if is_sandboxed:
        assert "/~" in page.url
        refused = {name for name, result in tried.items() if result == "refused"}
        assert refused == {"cookie", "storage", "hub", "api", "worker"}
        assert tried["frame"] == "closed"
    else:
        # What the documentation warns of: its scripts have the origin of its session's VS Code.
        assert tried["hub"] == "200"
        # Not that of the hub: nothing of it is there. Nor are cookies shown to scripts.
        assert "bascule" not in tried["cookie"]
        assert tried["api"] == "404"
