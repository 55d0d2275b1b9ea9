"""No page gets to the sandbox's own server, to the hub or to files, whatever it tries."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from bascule.core.actions import Browse
from bascule.core.observations import BrowserOutput
from tests.sandbox.serving import address, serving

from .conftest import BrowserUser, bid, make_browser
from .pages import PageServer, serving_pages

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@dataclass(frozen=True)
class Guarded:
    visitor: BrowserUser
    server: PageServer
    """In the place of an action server or hub: it would answer every page that asks."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    with serving_pages() as server:
        served_at = (("127.0.0.1", server.port),)
        async with await make_browser(directory, served_at=served_at) as browser:
            yield Guarded(BrowserUser(browser, directory), server)


WAYS = {
    "fetch": "await fetch(there, { mode: 'no-cors' })",
    "post": "await fetch(there, { method: 'POST', mode: 'no-cors', body: '{}' })",
    "name": "await fetch(there.replace('127.0.0.1', 'localhost'), { mode: 'no-cors' })",
    "subdomain": "await fetch(there.replace('127.0.0.1', 'x.localhost'), { mode: 'no-cors' })",
    "number": "await fetch(there.replace('127.0.0.1', '0x7f.1'), { mode: 'no-cors' })",
    "zero": "await fetch(there.replace('127.0.0.1', '0.0.0.0'), { mode: 'no-cors' })",
    "decimal": "await fetch(there.replace('127.0.0.1', '2130706433'), { mode: 'no-cors' })",
    "octal": "await fetch(there.replace('127.0.0.1', '0177.0.0.01'), { mode: 'no-cors' })",
    "other loopback": "await fetch(there.replace('127.0.0.1', '127.9.8.7'), { mode: 'no-cors' })",
    "mapped": "await fetch(there.replace('127.0.0.1', '[::ffff:7f00:1]'), { mode: 'no-cors' })",
    "IPv6": "await fetch(there.replace('127.0.0.1', '[::1]'), { mode: 'no-cors' })",
    "IPv6 nowhere": "await fetch(there.replace('127.0.0.1', '[::]'), { mode: 'no-cors' })",
    "last dot": "await fetch(there.replace('127.0.0.1', 'localhost.'), { mode: 'no-cors' })",
    "full width": "await fetch(there.replace('127.0.0.1', '１２７.０.０.１'), { mode: 'no-cors' })",
    "user": "await new Promise(f => { const i = new Image(); i.onload = i.onerror = f;"
    " i.src = there.replace('127', 'u:p@127') })",
    "srcdoc": "await new Promise(f => { const i = document.createElement('iframe'); i.onload ="
    " () => setTimeout(f, 200); i.srcdoc = `<meta http-equiv=refresh content='0;url=${there}'>`;"
    " document.body.append(i) })",
    "framed form": "await new Promise(f => { document.body.insertAdjacentHTML('beforeend',"
    " `<iframe name=t></iframe><form method=post target=t action=${there}></form>`);"
    " document.forms[0].submit(); setTimeout(f, 300) })",
    "shared worker": "await new Promise(f => { const w = new SharedWorker(URL.createObjectURL(new"
    " Blob([`onconnect = e => fetch('${there}', { mode: 'no-cors' }).finally(() =>"
    " e.ports[0].postMessage(1))`]))); w.port.onmessage = f })",
    "transport": "const t = new WebTransport(there.replace('http:', 'https:')); await t.ready",
    "ice": "const c = new RTCPeerConnection({ iceServers: [{ urls: there.replace('http://',"
    " 'turn:').replace('/next', '') + '?transport=tcp', username: 'u', credential: 'p' }] });"
    " c.createDataChannel('x'); await c.setLocalDescription();"
    " await new Promise(f => setTimeout(f, 400))",
    "prefetch": "document.head.innerHTML += `<link rel=prefetch href=${there}>"
    "<link rel=dns-prefetch href=${there}><link rel=modulepreload href=${there}>`;"
    " await new Promise(f => setTimeout(f, 300))",
    "keepalive": "fetch(there, { mode: 'no-cors', keepalive: true }).catch(() => {});"
    " await new Promise(f => setTimeout(f, 200))",
    "redirect": "await fetch('/redirect?to=' + there, { mode: 'no-cors' })",
    "socket": "await new Promise(f => { const s = new WebSocket(there.replace('http', 'ws'));"
    " s.onclose = s.onopen = f })",
    "events": "await new Promise(f => { new EventSource(there).onerror = f })",
    "image": "await new Promise(f => { const i = new Image(); i.onload = i.onerror = f;"
    " i.src = there })",
    "frame": "await new Promise(f => { const i = document.createElement('iframe');"
    " i.onload = f; i.src = there; document.body.append(i) })",
    "script": "await new Promise(f => { const s = document.createElement('script');"
    " s.onload = s.onerror = f; s.src = there; document.body.append(s) })",
    "worker": "await new Promise(f => { const w = new Worker(URL.createObjectURL(new Blob(["
    "`fetch('${there}', { mode: 'no-cors' }).finally(() => postMessage(1))`])));"
    " w.onmessage = f })",
    "beacon": "navigator.sendBeacon(there, 'x'); await new Promise(f => setTimeout(f, 200))",
    "preconnect": "document.head.innerHTML += `<link rel=preconnect href=${there}>`;"
    " await new Promise(f => setTimeout(f, 200))",
}


@pytest.mark.parametrize("way", WAYS)
async def test_no_page_can_reach_the_action_server(
    guarded: Guarded, pages: PageServer, way: str
) -> None:
    there = f"{guarded.server.url}/next"
    pages.pages["/attack"] = (
        f"<title>Attack</title><p id='out'></p><script>const there = '{there}';"
        f"(async () => {{ try {{ {WAYS[way]} }} catch (e) {{}}"
        " out.textContent = 'finished' })()</script>"
    )
    seen = await guarded.visitor.browse(f"{pages.url}/attack")
    while "finished" not in seen.content:
        seen = await guarded.visitor.do("noop(50)")

    assert guarded.server.asked == []


async def test_no_service_worker_can_reach_the_action_server(
    guarded: Guarded, pages: PageServer
) -> None:
    there = f"{guarded.server.url}/next"
    pages.scripts["/worker.js"] = (
        f"onmessage = e => fetch('{there}', {{ mode: 'no-cors' }})"
        ".then(() => e.source.postMessage(1), () => e.source.postMessage(2))"
    )
    pages.pages["/service"] = (
        "<title>Service</title><p id='out'></p><script>navigator.serviceWorker.onmessage ="
        " () => out.textContent = 'finished';"
        "navigator.serviceWorker.register('/worker.js').then(() =>"
        " navigator.serviceWorker.ready).then(r => r.active.postMessage(0))</script>"
    )
    seen = await guarded.visitor.browse(f"{pages.url}/service")
    while "finished" not in seen.content:
        seen = await guarded.visitor.do("noop(50)")

    assert guarded.server.asked == []


async def test_navigating_to_the_action_server_is_blocked_and_reported(
    guarded: Guarded, pages: PageServer
) -> None:
    straight = await guarded.visitor.browse(f"{guarded.server.url}/next")
    around = await guarded.visitor.browse(f"{pages.url}/redirect?to={guarded.server.url}/next")

    for seen in (straight, around):
        assert "kept from the browser" in seen.last_browser_action_error
        assert "Next page" not in seen.content
    leads = f"{pages.url}/redirect?to={guarded.server.url}/next leads to {guarded.server.url}/next"
    assert straight.last_browser_action_error.startswith(f"{guarded.server.url}/next is kept")
    assert around.last_browser_action_error.startswith(leads)
    assert guarded.server.asked == []


async def test_an_https_url_of_the_action_server_is_blocked_and_reported_at_once(
    guarded: Guarded,
) -> None:
    async with asyncio.timeout(5):
        seen = await guarded.visitor.browse(guarded.server.url.replace("http:", "https:"))

    assert "is kept from the browser" in seen.last_browser_action_error
    assert guarded.server.asked == []


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_submitting_a_form_to_the_action_server_is_blocked_and_reported(
    guarded: Guarded, pages: PageServer, size: int
) -> None:
    pages.pages["/post"] = (
        f"<title>P</title><form method='post' action='{guarded.server.url}/next'>"
        "<textarea name='t' hidden></textarea><button>Send</button></form>"
        f"<script>document.querySelector('textarea').value = 'x'.repeat({size})</script>"
    )
    page = await guarded.visitor.well(f"goto('{pages.url}/post')")
    seen = await guarded.visitor.do(f"click('{bid(page, 'Send')}')")
    after = await guarded.visitor.do("noop(0)")

    assert f"{guarded.server.url}/next is kept from the browser" in seen.last_browser_action_error
    assert "=== BEGIN error of the last action ===" in seen.content
    assert not after.error
    assert guarded.server.asked == []


async def test_a_link_to_the_action_server_is_blocked(guarded: Guarded, pages: PageServer) -> None:
    pages.pages["/link"] = f"<title>L</title><a href='{guarded.server.url}/next'>Go</a>"
    page = await guarded.visitor.well(f"goto('{pages.url}/link')")
    seen = await guarded.visitor.do(f"click('{bid(page, 'Go')}')")

    assert "kept from pages" in seen.content
    assert f"{guarded.server.url}/next is kept from the browser" in seen.last_browser_action_error
    assert guarded.server.asked == []


async def test_other_servers_of_the_machine_stay_reachable(
    guarded: Guarded, pages: PageServer
) -> None:
    assert "Next page" in (await guarded.visitor.browse(f"{pages.url}/next")).content


async def test_the_agent_can_view_files_at_the_servers_url_but_pages_cannot(
    guarded: Guarded, pages: PageServer
) -> None:
    note = guarded.visitor.directory / "note.txt"
    note.write_text("for the agent")
    address = f"{guarded.server.url}/view?path={note}"
    seen = await guarded.visitor.browse(address)
    for there in (address, f"http://files.bascule.invalid/view?path={note}"):
        pages.pages["/framed"] = f"<title>Framed</title><p>here</p><iframe src='{there}'></iframe>"
        framed = await guarded.visitor.browse(f"{pages.url}/framed")
        assert "here" in framed.content
        assert "for the agent" not in framed.content

    assert "for the agent" in seen.content
    assert guarded.server.asked == []


async def test_a_page_cannot_read_files(guarded: Guarded, pages: PageServer) -> None:
    secret = guarded.visitor.directory / "secret.txt"
    secret.write_text("between us")
    pages.pages["/file"] = ""
    pages.pages["/files"] = (
        f"<title>Files</title><p id='out'>here</p><iframe src='file://{secret}'></iframe><script>"
        f"fetch('file://{secret}').then(r => r.text()).then(t => out.textContent = t,"
        " () => out.textContent = 'finished')</script>"
    )
    seen = await guarded.visitor.browse(f"{pages.url}/files")
    assert "finished" in seen.content
    assert "between us" not in seen.content


async def test_a_browser_confined_to_directories_shows_no_others(
    tmp_path: Path, pages: PageServer
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "note.txt").write_text("may be seen")
    (tmp_path / "secret.txt").write_text("may not")
    (inside / "way-out").symlink_to(tmp_path / "secret.txt")
    async with await make_browser(inside, roots=(inside,)) as browser:
        visitor = BrowserUser(browser, inside)
        shown = await visitor.browse(f"{inside}/note.txt")
        hidden = [
            await visitor.browse(f"{tmp_path}/secret.txt"),
            await visitor.browse(f"{inside}/way-out"),
            await visitor.browse(f"file://{tmp_path}/secret.txt"),
        ]
        page = await visitor.well(f"goto('{pages.url}/upload')")
        sent = await visitor.do(f"upload_file('{bid(page, 'Choose')}', '../secret.txt')")

    assert "may be seen" in shown.content
    assert all("may not" not in each.content for each in hidden)
    assert "outside" in sent.last_browser_action_error


async def test_the_browser_of_a_real_server_can_view_files_but_not_call_the_server(
    tmp_path: Path, pages: PageServer
) -> None:
    """End to end: the action server keeps itself from the pages its own browser shows."""
    (tmp_path / "note.txt").write_text("by way of the server")
    async with serving(tmp_path) as server:
        host, port = address(server)
        sandbox = server._parts[0]  # type: ignore[index]
        view = await sandbox.act(Browse(f"http://{host}:{port}/view?path={tmp_path}/note.txt"))
        alive = await sandbox.act(Browse(f"http://{host}:{port}/alive"))

    assert isinstance(view, BrowserOutput)
    assert isinstance(alive, BrowserOutput)
    assert "by way of the server" in view.content
    assert alive.error
    assert '"status"' not in alive.content


async def test_the_proxy_is_for_this_machine_only(guarded: Guarded) -> None:
    """Nothing else of ours listens: the browser is spoken to by a pipe."""
    listening = await asyncio.to_thread(_ports_below, guarded.visitor.browser)
    assert len(listening) == 1
    assert listening[0].startswith("127.0.0.1:")


def _ports_below(browser: object) -> list[str]:
    keeper = browser._keeper._process.pid  # type: ignore[attr-defined]
    return [
        f"{each.laddr.ip}:{each.laddr.port}"
        for process in psutil.Process(keeper).children(recursive=True)
        for each in process.net_connections("inet")
        if each.status == "LISTEN" and each.type == socket.SOCK_STREAM
    ]
