"""The page that shows a session's VS Code in a frame: what is framed there can do little."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import socketio
from playwright.async_api import Browser, expect

from bascule.hub.web.page import FILES
from tests.hub.serving import ADMIN
from tests.hub.sessions.serving import SessionHub, SessionsClient

from .conftest import Screen
from .test_access import VISIT, BrowserClient
from .test_hostile import outcome


@pytest.fixture
async def visitor(hub: SessionHub) -> AsyncIterator[BrowserClient]:
    if not (FILES / "index.html").is_file():
        pytest.skip("the page is not built; scripts/web builds it")
    async with BrowserClient(hub) as made:
        await made.sign_in(ADMIN)
        yield made


async def key_at(visitor: BrowserClient, where: str) -> str:
    reply = await visitor.get(where, VISIT)
    found = re.search(rb'name="bascule-key" content="([^"]*)"', reply.body)
    assert found is not None, reply.status
    return found[1].decode()


class Listener:
    """The socket of a page, without the page."""

    def __init__(self) -> None:
        self.hello: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._lost = asyncio.Event()
        # A client that reconnects opens another HTTP session after `disconnect` and leaves it open.
        self._client = socketio.AsyncClient(reconnection=False)
        self._client.on("disconnect", self._left, namespace="/page")
        self._client.on("hello", self._greeted, namespace="/page")

    @classmethod
    @asynccontextmanager
    async def open(cls, visitor: BrowserClient, key: str) -> AsyncIterator[Listener]:
        made = cls()
        await made._client.connect(
            visitor.url,
            headers={**visitor.host, "Cookie": visitor.cookie, "Origin": visitor.page},
            auth={"key": key},
            namespaces=["/page"],
            transports=["websocket"],
        )
        try:
            yield made
        finally:
            await made._client.disconnect()

    async def _greeted(self, hello: Any) -> None:
        self.hello.set_result(hello)

    async def _left(self, _reason: object) -> None:
        self._lost.set()

    async def ask(self, event: str, **data: Any) -> Any:
        return await self._client.call(event, data, namespace="/page", timeout=60)

    async def emit(self, event: str, data: Any) -> None:
        await self._client.emit(event, data, namespace="/page")

    async def closed(self) -> None:
        """Wait until the hub has closed it."""
        await self._lost.wait()


async def test_the_watch_key_opens_only_the_socket_and_one_session(
    hub: SessionHub, admin: SessionsClient, visitor: BrowserClient
) -> None:
    mine, other = await admin.ready({"name": "mine"}), await admin.ready({"name": "other"})
    key = await key_at(visitor, f"/watch/{mine}")
    for where in ("/api/sessions", f"/api/sessions/{mine}", "/api/demo"):
        assert (await visitor.get(where, {"X-Bascule-Page": key})).status == 403
    async with Listener.open(visitor, key) as page:
        hello = await page.hello
        assert [each["id"] for each in hello["sessions"]] == [mine]
        assert (hello["windows"], hello["approvals"], hello["demo"]) == ([], [], None)
        assert await page.ask("watch", kind="session", id=mine) == {"value": None}
        refused = await page.ask("watch", kind="session", id=other)
        assert refused["error"]["code"] == "session.not_found"
        for event in ("terminal.open", "usage", "approval.answer", "terminal.close"):
            refused = await page.ask(event, session_id=mine, name="a", columns=80, rows=24)
            assert refused["error"]["code"] == "access.denied"
        refused = await page.ask("demo.play")
        assert refused["error"]["code"] == "session.not_found"
    whole = await key_at(visitor, "/")
    for wrong in (f"{other}.{key.partition('.')[2]}", f"{mine}.{whole}", key.partition(".")[2]):
        with pytest.raises(socketio.exceptions.ConnectionError):
            async with Listener.open(visitor, wrong):
                pass


async def test_the_watch_page_is_only_for_the_owner_and_cannot_be_framed(
    hub: SessionHub, admin: SessionsClient, visitor: BrowserClient
) -> None:
    mine = await admin.ready({"name": "mine"})
    headers = (await visitor.get(f"/watch/{mine}", VISIT)).headers
    policy = headers["content-security-policy"]
    assert f"frame-src 'self' {hub.session_url(mine)};" in policy
    assert "frame-ancestors 'none'" in policy
    assert "frame-src" not in (await visitor.get("/", VISIT)).headers["content-security-policy"]
    for where in ("/watch/", "/watch/nosuchsession", f"/watch/{mine}/more"):
        assert (await visitor.get(where, VISIT)).status == 404
    fetched = await visitor.get(f"/watch/{mine}", {"Sec-Fetch-Mode": "cors"})
    assert b'name="bascule-key" content=""' in fetched.body
    other = await hub.token("other", "agent", owner="somebody else")
    await visitor.sign_in(other)
    assert (await visitor.get(f"/watch/{mine}", VISIT)).status == 404


async def test_the_framed_vscode_has_another_origin_and_cannot_navigate_the_tab(
    browser: Browser, hub: SessionHub, admin: SessionsClient
) -> None:
    """As a script of the workspace that VS Code runs."""
    session = await admin.ready({"name": "mine"})
    async with Screen.open(browser, hub.url) as screen:
        await screen.sign_in(f"/watch/{session}")
        page = screen.page
        await expect(page.locator("h1")).to_contain_text("mine ready")
        shown = await page.wait_for_selector("iframe")
        framed = None if shown is None else await shown.content_frame()
        assert framed is not None
        own = hub.session_url(session)
        await framed.wait_for_url(f"{own}/vscode/{session}/", wait_until="commit")
        assert await framed.evaluate("origin") == own
        assert await outcome(framed, "return top.document.title;") == "no"
        assert await outcome(framed, "return parent.frames.length + top.name;") == "no"
        await page.locator("iframe").click()  # what a person does there does not help it either
        led = "top.location.href = 'about:blank#led'; return 'led';"
        assert await outcome(framed, led) == "no"
        await outcome(framed, "location.href = top.origin;")
        assert page.url == f"{hub.page_url}/watch/{session}"
        async with screen.context.expect_page() as opening:
            await framed.evaluate(f"() => {{ window.shown = window.open('{hub.page_url}'); }}")
        opened = await opening.value
        await opened.get_by_role("link", name="mine", exact=True).wait_for()
        assert await outcome(framed, "return window.shown.document.title;") == "no"
