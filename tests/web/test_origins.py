"""Attacks on the hub and on sessions by pages of others, in the browser of somebody signed in.

Each page tries what a page can try, first by itself and then after a click: read the hub's page and
its key, make a token with it, call the API, read and drive another session, and find what others
left in storage and cookies. Addresses are those that the browser is led to, none is made up here.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bascule.hub import HubSettings
from bascule.hub.proxy import SessionEndpoint, UpstreamServer
from bascule.hub.proxy.nginx import render
from bascule.hub.proxy.routes import socket_path
from bascule.hub.web.page import FILES
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.listener import Listener
from tests.hub.proxy.targets import ProxyHub
from tests.hub.proxy.test_nginx import PROGRAM, Front, certificate
from tests.hub.serving import ADMIN, Client

from .browsers import CHROMIUM, FIREFOX, Tab, chromium, firefox

__all__ = ["certificate"]  # a fixture

EVIL, VICTIM = "evilone112345678", "victimone1234567"
_OPENED = "cross-origin-opener-policy"

ATTACK = r"""<!doctype html><meta charset="utf-8"><title>attack</title>
<button id="go">Win a prize</button>
<script type="module">
const { HUB, EVIL, VICTIM, SEEN } = CONFIG;
const tried = {};
const soon = (ms, what) => Promise.race([
  what, new Promise((_, no) => setTimeout(() => no(new Error("late")), ms))]);
const attempt = async (name, what) => {
  try { tried[name] = String(await soon(8000, what())); } catch (e) { tried[name] = "refused"; }
};
const KEY = /name="bascule-key" content="([^"]+)"/;
const look = (there, wanted) => new Promise((resolve, reject) => {
  const end = Date.now() + 3000;
  const again = () => {
    try {
      const found = wanted.exec(there().documentElement.outerHTML);
      if (found) return resolve(found[1] ?? found[0]);
    } catch (error) { /* not ours to read, or not yet */ }
    if (Date.now() > end) reject(new Error("unread")); else setTimeout(again, 50);
  };
  again();
});
const opened = (url, wanted) => {
  const w = window.open(url);
  if (!w) return Promise.reject(new Error("no window"));
  return look(() => w.document, wanted).finally(() => w.close());
};
const framed = (url, wanted) => {
  const frame = document.createElement("iframe");
  frame.src = url;
  document.body.append(frame);
  return look(() => frame.contentDocument, wanted).finally(() => frame.remove());
};
const fetched = async (url, more) => {
  const reply = await fetch(url, { credentials: "include", ...more });
  if (!reply.ok) throw new Error("refused");
  return reply.text();
};
const token = async (key) => {
  const headers = { "Content-Type": "application/json", "X-Bascule-Page": key };
  const body = JSON.stringify({ name: "stolen", scope: "admin" });
  return fetched(HUB + "/api/tokens", { method: "POST", headers, body });
};
const line = (url) => new Promise((resolve, reject) => {
  const made = new WebSocket(url.replace("http", "ws"));
  made.onopen = () => resolve("open");
  made.onerror = () => reject(new Error());
});
const databases = async () => (await indexedDB.databases()).map((each) => each.name);

async function attack(how) {
  const at = (name, what) => attempt(how + ": " + name, what);
  const plain = { method: "POST", mode: "no-cors", credentials: "include", body: "{}" };
  const seen = { mode: "no-cors", credentials: "include" };
  const sent = (url, more) => fetch(url, more).then(() => { throw 0; });
  await Promise.all([
    at("hub's page by fetch", async () => KEY.exec(await fetched(HUB + "/"))[1]),
    at("token by window", async () => token(await opened(HUB + "/", KEY))),
    at("hub's page by frame", () => framed(HUB + "/", KEY)),
    at("sessions", () => fetched(HUB + "/api/sessions")),
    at("sandbox", () => fetched(`${HUB}/sandbox/${EVIL}/alive`)),
    at("openhands", () => fetched(`${HUB}/openhands/v0/${EVIL}/alive`)),
    at("hub's socket", () => line(HUB + "/socket.io/?EIO=4&transport=websocket")),
    at("token blindly", () => sent(HUB + "/api/tokens", plain)),
    at("session by fetch", () => fetched(SEEN)),
    at("session by window", () => opened(SEEN, /secret of the victim/)),
    at("session by frame", () => framed(SEEN, /secret of the victim/)),
    at("session's socket", () => line(SEEN + "attacked")),
    at("post to session", () => sent(SEEN + "attacked", plain)),
    at("get from session", () => sent(SEEN + "attacked", seen)),
    at("image of session", () => new Promise((done, no) => {
      const image = new Image();
      image.onload = done;
      image.onerror = no;
      image.src = SEEN + "attacked";
    })),
  ]);
}
const signOut = () => attempt("sign out", async () => {
  await fetch(HUB + "/sign-out", { method: "POST", mode: "no-cors", credentials: "include" });
  throw new Error("not to be seen from here");
});
async function rummage() {
  await attempt("local storage", () => localStorage.getItem("victim") ?? (() => { throw 0; })());
  await attempt("databases", async () => {
    if (!(await databases()).includes("victim")) throw new Error("none");
    return "found";
  });
  await attempt("caches", async () => {
    if (!(await caches.keys()).includes("victim")) throw new Error("none");
    return "found";
  });
  await attempt("cookies", () => {
    if (!/victim|bascule[^=;]*=(?!evil)/.test(document.cookie)) throw new Error("none");
    return document.cookie;
  });
  await attempt("opener", () => KEY.exec(window.opener.document.documentElement.outerHTML)[1]);
  await attempt("parent", () => {
    if (parent === window) throw new Error("none");
    return KEY.exec(parent.document.documentElement.outerHTML)[1];
  });
  const parts = location.hostname.split(".");
  for (const name of ["__Host-Http-bascule", "__Host-bascule", "planted"])
    for (let i = 0; i < parts.length; i++)
      try {
        document.cookie = `${name}=evil; Path=/; Secure; Domain=${parts.slice(i).join(".")}`;
      } catch (error) { /* a sandboxed page has no cookies */ }
}
const act = async () => {
  document.getElementById("go").disabled = true;
  await attack("after a click");
  await signOut();  // last: whoever is signed out cannot be attacked any more
  document.title = JSON.stringify(tried);
};
document.getElementById("go").onclick = act;
await rummage();
await attack("by itself");
document.body.dataset.ready = "1";
document.getElementById("go").className = "armed";
</script>"""

WORKER = r"""
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  if (!event.request.url.includes("by-worker")) return;
  event.respondWith(fetch(event.request.url.replace("by-worker", "attack")).then(async (reply) =>
    new Response(await reply.text(), { headers: {
      "Content-Type": "text/html", "Cross-Origin-Opener-Policy": "same-origin" } })));
});
"""
INSTALLS = r"""<!doctype html><title>installs</title><script type="module">
try {
  await navigator.serviceWorker.register("worker.js");
  await navigator.serviceWorker.ready;
} catch (error) { /* then the page comes without one */ }
location.replace("by-worker");
</script>"""
LEADS = r"""<!doctype html><title>leads</title><script>location.replace("/vscode/EVIL/attack");
</script>""".replace("EVIL", EVIL)
SECRET = r"""<!doctype html><meta charset="utf-8"><title>victim</title><p>secret of the victim</p>
<script type="module">
localStorage.setItem("victim", "1");
document.cookie = "victim=1; Path=/";
await new Promise((done) => { indexedDB.open("victim").onsuccess = done; });
await caches.open("victim");
document.title = "{}";
</script>"""


@dataclass
class Servers:
    """What the attacker serves, and what the victim's session was asked."""

    config: dict[str, str] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    """Cookies that came to servers that are neither the hub's nor behind it."""
    asked: list[str] = field(default_factory=list)
    """Paths that the victim's session was asked for."""

    async def evil(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        name = scope["path"].rpartition("/")[2]
        page = ATTACK.replace("CONFIG", json.dumps(self.config))
        body, kind, headers = page, b"text/html", []
        if name == "worker.js":
            body, kind = WORKER, b"text/javascript"
        elif name == "installs":
            body = INSTALLS
        elif name == "leads":
            body = LEADS
        elif name.startswith("coop-"):
            headers = [(_OPENED.encode(), name.removeprefix("coop-").encode())]
        await _answer(send, body, kind, headers)

    async def elsewhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        cookies = [value.decode() for name, value in scope["headers"] if name == b"cookie"]
        self.given += cookies
        await self.evil(scope, receive, send)

    async def victim(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            return
        await _answer(send, SECRET, b"text/html", [])


async def _answer(send: Send, body: str, kind: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    fixed = [(b"content-type", kind), (b"cache-control", b"no-store"), *headers]
    await send({"type": "http.response.start", "status": 200, "headers": fixed})
    await send({"type": "http.response.body", "body": body.encode()})


@dataclass(frozen=True)
class SignedInBrowser:
    """A browser that is signed in and has opened both sessions, and who is after it."""

    hub: ProxyHub
    servers: Servers
    tab: Tab
    url: str
    """As people know the hub."""
    port: int
    """Of a server that has nothing to do with the hub."""


@pytest.fixture(params=["chromium", "firefox"])
def browser_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if (CHROMIUM if name == "chromium" else FIREFOX) is None:
        pytest.skip(f"NOT TESTED in {name}, which is not installed (apt-get install firefox-esr)")
    if not (FILES / "index.html").is_file():
        pytest.skip("the page is not built; scripts/web builds it")
    return name


@pytest.fixture(params=["hub", "nginx"])
async def ground(
    request: pytest.FixtureRequest,
    browser_name: str,
    short_path: Path,
    certificate: tuple[Path, Path],
) -> AsyncIterator[SignedInBrowser]:
    async with AsyncExitStack() as stack:
        front, settings = None, {}
        if request.param == "nginx":
            if PROGRAM is None:
                pytest.skip("nginx is not installed (scripts/nginx)")
            (short_path / "nginx").mkdir()
            front = await asyncio.to_thread(Front, short_path / "nginx", certificate)
            settings = {"public_url": front.url, "run_dir": front.run_dir}
            if "sessions_origin" in HubSettings.__dataclass_fields__:
                settings["sessions_origin"] = front.sessions_origin
        hub = await stack.enter_async_context(ProxyHub(**settings))
        if front is not None:
            await asyncio.to_thread(front.nginx.install, render(front.site(hub.port)), front.file)
            await asyncio.to_thread(front.start)
            stack.callback(front.stop)
        servers = Servers()
        for place, app in (
            (SessionEndpoint("vscode", EVIL), servers.evil),
            (SessionEndpoint("apps", EVIL, 0), servers.evil),
            (SessionEndpoint("vscode", VICTIM), servers.victim),
        ):
            path = None if front is None else socket_path(front.run_dir, place)
            hub.open(place, await stack.enter_async_context(_served(app, path)))
        other = await stack.enter_async_context(_served(servers.elsewhere))
        names = ["hub.test", f"{EVIL}.sessions.test", f"{VICTIM}.sessions.test"]
        start = chromium if browser_name == "chromium" else firefox
        tab = await stack.enter_async_context(start(short_path / "profile", names))
        url = front.url if front is not None else hub.url
        await _prepare(tab, url, servers)
        yield SignedInBrowser(hub, servers, tab, url, other.port)


async def _prepare(tab: Tab, url: str, servers: Servers) -> None:
    """Sign in, and open both sessions once. The attacker knows every address."""
    await tab.goto(f"{url}/")
    await tab.fill("input[name=token]", ADMIN)
    await tab.click("button")
    await tab.text("#page h1")
    hub = urlsplit(await tab.url())
    servers.config |= {"EVIL": EVIL, "VICTIM": VICTIM, "HUB": f"{hub.scheme}://{hub.netloc}"}
    await tab.goto(f"{url}/vscode/{VICTIM}/")
    await tab.report()
    servers.config["SEEN"] = await tab.url()
    servers.asked.clear()


@asynccontextmanager
async def _served(app: object, path: Path | None = None) -> AsyncIterator[UpstreamServer]:
    if path is None:
        sock = socket.create_server(("127.0.0.1", 0))
        target = UpstreamServer(port=sock.getsockname()[1])
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        target = UpstreamServer(socket=path)
    sock.setblocking(False)
    listener = Listener(app, HubSettings(admin_token="x", stop_grace=0.1))  # type: ignore[arg-type]
    await listener.start(sock)
    try:
        yield target
    finally:
        await listener.stop()
        sock.close()


async def _attacked_from(ground: SignedInBrowser, address: str) -> None:
    """Let the page there do what it can, click on it, and see that nothing came of it."""
    tokens = await _tokens(ground.hub)
    await ground.tab.goto(address)
    await ground.tab.click("button.armed")
    tried = await ground.tab.report()
    reached = {name: seen for name, seen in tried.items() if seen != "refused"}
    assert reached == {}, address
    assert len(tried) > 20
    driven = [path for path in ground.servers.asked if path.endswith("attacked")]
    assert driven == [], address
    assert await _tokens(ground.hub) == tokens
    bascule = [each for each in ground.servers.given if re.search("bascule[^=;]*=(?!evil)", each)]
    assert bascule == [], "a server on another port was sent a cookie of the hub"
    await ground.tab.goto(f"{ground.url}/")  # still signed in
    await ground.tab.text("#page h1")


async def _tokens(hub: ProxyHub) -> object:
    async with Client(hub.url) as client:
        status, tokens = await client.ask("GET", "/api/tokens")
    assert status == 200
    return tokens


async def test_pages_of_a_sessions_vscode_cannot_reach_the_hub(ground: SignedInBrowser) -> None:
    for name in ("attack", "coop-same-origin", "coop-noopener-allow-popups"):
        await _attacked_from(ground, f"{ground.url}/vscode/{EVIL}/{name}")
    # And one that is made by a service worker, past whatever the proxy does to headers.
    await _attacked_from(ground, f"{ground.url}/vscode/{EVIL}/installs")


async def test_pages_of_an_app_cannot_reach_the_hub(ground: SignedInBrowser) -> None:
    for name in ("attack", "leads"):
        await _attacked_from(ground, f"{ground.url}/apps/{EVIL}-0/{name}")


async def test_pages_of_another_port_or_site_cannot_reach_the_hub(
    ground: SignedInBrowser,
) -> None:
    for host in ("127.0.0.1", "localhost", "evil.localhost"):
        await _attacked_from(ground, f"http://{host}:{ground.port}/coop-same-origin")
    await _attacked_from(ground, f"http://127.0.0.1:{ground.port}/attack")
