"""Who the page's calls are answered to: a page that was visited, and no other."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping

import pytest

from bascule.hub.web.page import FILES
from bascule.link.http import HttpClient, HttpReply
from tests.hub.serving import ADMIN, RunningHub

VISIT = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}


class BrowserClient(HttpClient):
    """A browser as far as headers go, at the host where the hub's page is."""

    cookie = ""

    def __init__(self, hub: RunningHub, host: str = "") -> None:
        self.page = hub.page_url
        self.host = {"Host": host or self.page.removeprefix("http://")}
        super().__init__(hub.url, headers=self.host)

    async def get(self, where: str, headers: Mapping[str, str] | None = None) -> HttpReply:
        known = {"Cookie": self.cookie} if self.cookie else {}
        return await self.request("GET", where, headers={**known, **(headers or {})}, timeout=30)

    async def sign_in(self, token: str) -> HttpReply:
        reply = await self.request(
            "POST",
            "/sign-in",
            body=f"token={token}".encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            timeout=30,
        )
        self.cookie = reply.headers.get("set-cookie", "").partition(";")[0]
        return reply

    async def key(self) -> str:
        page = (await self.get("/", VISIT)).body.decode()
        found = re.search(r'name="bascule-key" content="([^"]*)"', page)
        assert found is not None
        return found[1]


@pytest.fixture
async def hub() -> AsyncIterator[RunningHub]:
    if not (FILES / "index.html").is_file():
        pytest.skip("the page is not built; scripts/web builds it")
    async with RunningHub() as made:
        yield made


@pytest.fixture
async def visitor(hub: RunningHub) -> AsyncIterator[BrowserClient]:
    async with BrowserClient(hub) as made:
        yield made


async def test_a_user_without_a_cookie_is_redirected_to_sign_in_and_back(
    visitor: BrowserClient,
) -> None:
    reply = await visitor.get("/sessions/abc", VISIT)
    assert (reply.status, reply.headers["location"]) == (303, "/sign-in?next=%2Fsessions%2Fabc")
    assert (await visitor.sign_in("wrong")).status == 401
    assert (await visitor.get("/", VISIT)).status == 303


async def test_the_cookie_alone_authorizes_no_api_call(visitor: BrowserClient) -> None:
    await visitor.sign_in(ADMIN)
    refused = await visitor.get("/api/sessions")
    assert (refused.status, b"reload the page" in refused.body) == (403, True)
    good = {"X-Bascule-Page": await visitor.key()}
    assert (await visitor.get("/api/sessions", good)).status == 200
    for wrong in ("", "x", good["X-Bascule-Page"][:-1] + "ä"):
        headers = {"X-Bascule-Page": wrong.encode().decode("latin-1")}
        assert (await visitor.get("/api/sessions", headers)).status == 403


async def test_the_page_key_is_valid_only_for_its_own_sign_in(
    hub: RunningHub, visitor: BrowserClient
) -> None:
    await visitor.sign_in(ADMIN)
    first = await visitor.key()
    await visitor.sign_in(hub.agent)
    assert await visitor.key() != first
    assert (await visitor.get("/api/sessions", {"X-Bascule-Page": first})).status == 403


@pytest.mark.parametrize(
    "asked",
    [
        {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {},
    ],
)
async def test_no_foreign_script_or_frame_gets_the_page_key(
    visitor: BrowserClient, asked: Mapping[str, str]
) -> None:
    await visitor.sign_in(ADMIN)
    reply = await visitor.get("/", asked)
    assert b'name="bascule-key" content=""' in reply.body


async def test_the_page_cannot_be_framed_and_runs_only_its_own_scripts(
    visitor: BrowserClient,
) -> None:
    await visitor.sign_in(ADMIN)
    headers = (await visitor.get("/", VISIT)).headers
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


async def test_requests_with_another_host_or_origin_are_rejected(
    hub: RunningHub, visitor: BrowserClient
) -> None:
    await visitor.sign_in(ADMIN)
    key = {"X-Bascule-Page": await visitor.key()}
    for host in ("evil.example", "evil.localhost", "localhost.", "hub-x.localhost"):
        async with BrowserClient(hub, host) as other:
            assert (await other.get("/", VISIT)).status == 403
    foreign = {**key, "Origin": "http://127.0.0.1:1"}
    assert (await visitor.get("/api/sessions", foreign)).status == 403


async def test_the_cookie_is_valid_only_for_calls_of_the_page(
    visitor: BrowserClient,
) -> None:
    await visitor.sign_in(ADMIN)
    key = {"X-Bascule-Page": await visitor.key()}
    assert (await visitor.get("/mcp", key)).status == 401
    assert (await visitor.get("/metrics", key)).status == 401


async def test_signing_out_revokes_the_page_key(visitor: BrowserClient) -> None:
    await visitor.sign_in(ADMIN)
    key = {"X-Bascule-Page": await visitor.key()}
    out = {"Cookie": visitor.cookie, "Origin": visitor.page}
    assert (await visitor.request("POST", "/sign-out", headers=out, timeout=30)).status == 200
    assert (await visitor.get("/api/sessions", key)).status == 401


async def test_page_scripts_are_cached_as_immutable_and_need_no_sign_in(
    visitor: BrowserClient,
) -> None:
    names = [each.name for each in (FILES / "page").iterdir() if each.suffix == ".js"]
    reply = await visitor.get(f"/page/{names[0]}")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/javascript")
    assert "immutable" in reply.headers["cache-control"]
    assert (await visitor.get("/page/../index.html")).status in (400, 404)
    assert (await visitor.get("/page/nothing.js")).status == 404
