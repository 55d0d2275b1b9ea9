"""VS Code and apps of sessions in a real browser, each session at its own origin, with and without
nginx."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext, Page, async_playwright, expect

from bascule.hub import HubSettings
from bascule.hub.proxy import SessionEndpoint, UpstreamServer
from bascule.hub.proxy.nginx import render
from bascule.hub.proxy.routes import socket_path
from bascule.hub.replies import Receive, Scope, Send
from bascule.sandbox.server.listener import Listener
from bascule.sandbox.vscode.installation import Installation
from tests.hub.proxy.targets import ProxyPlace
from tests.hub.proxy.test_nginx import PROGRAM, Front, certificate
from tests.hub.serving import ADMIN

from .code_server import CHROMIUM, install_editor

__all__ = ["certificate"]  # a fixture

RESOLVER = "--host-resolver-rules=MAP hub.test 127.0.0.1,MAP *.sessions.test 127.0.0.1"
ONE, TWO = "sessionone123456", "sessiontwo123456"
PATIENCE = 90_000

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
    """Two sessions of one hub, and a browser that knows the way."""

    hub: ProxyPlace
    url: str
    context: BrowserContext
    folders: dict[str, Path]

    def origin(self, session_id: str) -> str:
        host = urlsplit(self.url).netloc
        return self.hub.hub.proxy.access_control.origins.session(host, session_id)

    def address(self, session_id: str) -> str:
        return f"{self.url}/vscode/{session_id}/?folder={self.folders[session_id]}"


@pytest.fixture(params=["hub", "nginx"])
async def ground(
    request: pytest.FixtureRequest, short_path: Path, certificate: tuple[Path, Path]
) -> AsyncIterator[Ground]:
    home = await asyncio.to_thread(install_editor)
    async with AsyncExitStack() as stack:
        front = None
        run_dir = short_path / "sockets"
        settings = {}
        if request.param == "nginx":
            if PROGRAM is None:
                pytest.skip("nginx is not installed (scripts/nginx)")
            (short_path / "nginx").mkdir()
            front = await asyncio.to_thread(Front, short_path / "nginx", certificate)
            settings["public_url"], run_dir = front.url, front.run_dir
            settings["sessions_origin"] = front.sessions_origin
        hub = await stack.enter_async_context(ProxyPlace(run_dir=run_dir, **settings))
        if front is not None:
            await asyncio.to_thread(front.nginx.install, render(front.site(hub.port)), front.file)
            await asyncio.to_thread(front.start)
            stack.callback(front.stop)
        folders = {}
        for session_id in (ONE, TWO):
            folder = folders[session_id] = short_path / session_id
            folder.mkdir()
            (folder / f"only-in-{session_id}.txt").write_text(f"text of {session_id}\n")
            place = SessionEndpoint("vscode", session_id)
            path = socket_path(run_dir, place)
            data = short_path / f"d-{session_id}"
            await stack.enter_async_context(_code_server(home, path, data))
            hub.open(place, UpstreamServer(socket=path, uid=os.getuid()))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", RESOLVER],
        )
        stack.push_async_callback(browser.close)
        context = await browser.new_context(ignore_https_errors=True)
        yield Ground(hub, hub.hub.url, context, folders)


@asynccontextmanager
async def _code_server(home: Path, path: Path, data: Path) -> AsyncIterator[None]:
    """As a session has it: on a socket, without a password or a proxy of its own."""
    path.parent.mkdir(parents=True)
    settings = data / "User" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"security.workspace.trust.enabled": False}))
    process = await asyncio.create_subprocess_exec(
        *Installation(home).command,
        *("--auth=none", f"--socket={path}", "--socket-mode=600", "--disable-proxy"),
        *(f"--user-data-dir={data}", f"--extensions-dir={data / 'extensions'}"),
        *("--disable-telemetry", "--disable-update-check", f"--config={data / 'none.yaml'}"),
        env={"PATH": os.environ["PATH"], "HOME": str(data), "VSCODE_CLI": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while b"HTTP server listening" not in (line := await process.stdout.readline()):
                assert line, "code-server ended"
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _sign_in(page: Page) -> None:
    await page.get_by_label("Token").fill(ADMIN)
    await page.get_by_role("button", name="Sign in").click()


async def test_two_sessions_are_drawn_side_by_side(ground: Ground) -> None:
    pages = {}
    for session_id in (ONE, TWO):
        page = pages[session_id] = await ground.context.new_page()
        await page.goto(ground.address(session_id))
        if session_id == ONE:  # and never again
            await expect(page).to_have_title("Sign in to Bascule")
            await _sign_in(page)
    for session_id, page in pages.items():
        await page.bring_to_front()  # a tab that nobody sees draws nothing
        own = page.get_by_role("treeitem", name=f"only-in-{session_id}.txt")
        await expect(own).to_be_visible(timeout=PATIENCE)
        assert page.url.startswith(f"{ground.origin(session_id)}/vscode/{session_id}/")
        await own.dblclick()
        shown = page.locator(".view-lines", has_text=f"text of {session_id}")
        await expect(shown).to_be_visible(timeout=PATIENCE)
    assert ground.origin(ONE) != ground.origin(TWO) != ground.url
    for session_id in (ONE, TWO):
        cookies = await ground.context.cookies(ground.origin(session_id))
        ours = {c["name"]: c for c in cookies if "bascule" in c["name"]}
        assert set(ours) == {f"__Host-Http-bascule-{session_id}"}
        assert all(cookie["httpOnly"] and cookie["secure"] for cookie in ours.values())


async def test_a_terminal_works(ground: Ground) -> None:
    page = await ground.context.new_page()
    await page.goto(ground.address(ONE))
    await _sign_in(page)
    own = page.get_by_role("treeitem", name=f"only-in-{ONE}.txt")
    await expect(own).to_be_visible(timeout=PATIENCE)
    await page.keyboard.press("Control+Backquote")
    await expect(page.locator(".terminal.xterm")).to_be_visible(timeout=PATIENCE)
    pipe = ground.folders[ONE] / "pipe"
    os.mkfifo(pipe)
    with _opened(pipe) as heard:
        await page.locator(".terminal.xterm").click()
        await page.keyboard.type("echo typed-$((40+2)) > pipe\n")
        assert await asyncio.wait_for(heard.get(), PATIENCE / 1000) == b"typed-42\n"


@contextmanager
def _opened(pipe: Path) -> Iterator[asyncio.Queue[bytes]]:
    """What is written to a pipe, as it comes."""
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, lambda: heard.put_nowait(os.read(descriptor, 4096)))
    try:
        yield heard
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


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
async def test_an_apps_script_reaches_its_app_and_in_the_sandbox_nothing_else(
    ground: Ground, is_sandboxed: bool
) -> None:
    place = SessionEndpoint("apps", ONE, 0)
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    listener = Listener(_app, HubSettings(admin_token="x", stop_grace=0.1))
    await listener.start(sock)
    target = UpstreamServer(port=sock.getsockname()[1], is_sandboxed=is_sandboxed)
    ground.hub.open(place, target)
    try:
        page = await ground.context.new_page()
        await page.goto(ground.hub.hub.addresses.app(ONE, 0))
        await _sign_in(page)
        await page.wait_for_function("document.title.startsWith('{')", timeout=PATIENCE)
        tried = json.loads(await page.title())
    finally:
        await listener.stop()
        sock.close()

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
