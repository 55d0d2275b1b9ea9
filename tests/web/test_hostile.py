"""Pages of others, in the browser of somebody who is signed in: they can neither read nor act."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, Frame, Page

from tests.hub.sessions.serving import SessionHub, SessionsClient

from .conftest import CHROMIUM, Screen

HOSTILE = b"<!doctype html><title>hostile</title><p>Win a prize</p>"


@asynccontextmanager
async def hostile_page() -> AsyncIterator[str]:
    """On another port of the same host: to cookies that is the same site."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n" % len(
            HOSTILE
        )
        writer.write(head + b"Connection: close\r\n\r\n" + HOSTILE)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def outcome(page: Page | Frame, script: str) -> Any:
    """What the script returns, or that it failed."""
    return await page.evaluate(
        f"(async () => {{ try {{ {script} }} catch (e) {{ return 'no'; }} }})()"
    )


async def test_a_page_of_another_origin_cannot_read_or_call_the_hub(
    browser: Browser, hub: SessionHub, admin: SessionsClient
) -> None:
    session = (await admin.create({"name": "mine"}))["id"]
    await admin.reaches(session, "ready")
    async with Screen.open(browser, hub.url) as screen, hostile_page() as elsewhere:
        await screen.sign_in()
        await screen.page.get_by_role("link", name="mine").wait_for()
        page = await screen.context.new_page()
        await page.goto(elsewhere)

        # Reading: what comes is nothing one may look at.
        page_url = hub.page_url
        read = f"const r = await fetch('{page_url}/api/sessions', {{credentials: 'include'}});"
        assert await outcome(page, f"{read} return r.text();") == "no"
        seen = f"const r = await fetch('{page_url}/', {{credentials: 'include', mode: 'no-cors'}});"
        assert await outcome(page, f"{seen} return r.type;") in ("no", "opaque")

        # Acting: by form, by fetch with and without a preflight.
        for body in ("text/plain", "application/json", "application/x-www-form-urlencoded"):
            sent = (
                f"await fetch('{page_url}/api/sessions/{session}/stop', {{method: 'POST', mode: "
                f"'{'cors' if 'json' in body else 'no-cors'}', credentials: 'include', "
                f"headers: {{'Content-Type': '{body}'}}, body: '{{}}'}}); return 'sent';"
            )
            await outcome(page, sent)
        target = f"{hub.page_url}/api/sessions/{session}/stop"
        await page.evaluate(
            f"""() => new Promise((done) => {{
                const frame = document.createElement('iframe');
                frame.name = 'target';
                document.body.append(frame);
                const form = document.createElement('form');
                Object.assign(form, {{method: 'post', action: '{target}', target: 'target'}});
                document.body.append(form);
                frame.onload = done;
                form.submit();
            }})"""
        )
        assert (await admin.show(session))["state"] == "ready"

        # A socket is refused in its handshake.
        socket = hub.page_url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket"
        opened = (
            f"return await new Promise((done) => {{ const s = new WebSocket('{socket}'); "
            "s.onopen = () => done('open'); s.onerror = () => done('no'); });"
        )
        assert await outcome(page, opened) == "no"

        # Nobody lays the page under a prize, or looks into a window that shows it.
        framed = (
            f"const f = document.createElement('iframe'); f.src = '{hub.page_url}/'; "
            "document.body.append(f); await new Promise((done) => f.onload = done); "
            "return f.contentWindow.document.title;"
        )
        assert await outcome(page, framed) == "no"
        async with screen.context.expect_page() as opening:
            await page.evaluate(f"() => {{ window.shown = window.open('{hub.page_url}/'); }}")
        shown = await opening.value
        await shown.get_by_role("link", name="mine").wait_for()
        assert await page.evaluate("() => window.shown.closed") is True  # cut off from its opener


async def test_a_script_of_the_same_origin_cannot_get_the_page_key(
    browser: Browser, hub: SessionHub, admin: SessionsClient
) -> None:
    """As one that VS Code in a session runs: the cookie is sent for it, and opens nothing."""
    await admin.create({"name": "mine"})
    async with Screen.open(browser, hub.url) as screen:
        await screen.sign_in()
        await screen.page.get_by_role("link", name="mine").wait_for()
        page = await screen.context.new_page()
        await page.goto(f"{hub.page_url}/docs")
        called = "const r = await fetch('/api/sessions'); return r.status;"
        assert await outcome(page, called) == 403
        fetched = (
            'const r = await fetch(\'/\'); return (await r.text()).match(/key" content="(.*)"/)[1];'
        )
        assert await outcome(page, fetched) == ""
        async with screen.context.expect_page() as opening:
            await page.evaluate("() => { window.shown = window.open('/'); }")
        await (await opening.value).get_by_role("link", name="mine").wait_for()
        assert await outcome(page, "return window.shown.document.title;") == "no"
        framed = (
            "const f = document.createElement('iframe'); f.src = '/'; document.body.append(f); "
            "await new Promise((done) => f.onload = done); "
            "return f.contentDocument.querySelector('meta[name=bascule-key]').content;"
        )
        assert await outcome(page, framed) == "no"


async def test_a_dns_rebinding_host_is_rejected(browser: Browser, hub: SessionHub) -> None:
    """DNS rebinding: the browser takes the hub for a page of its own name."""
    rebound = f"http://rebound.example:{hub.port}"
    rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    launched = await browser.browser_type.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rules]
    )
    try:
        page = await launched.new_page()
        for where in ("/", "/health", "/api/sessions", "/sign-in"):
            reply = await page.goto(rebound + where)
            assert reply is not None
            assert reply.status == 403
    finally:
        await launched.close()
