"""Who gets in, as whom, and what a page of a session can do with it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote, urlencode

import aiohttp
import pytest

from bascule.hub.proxy import Place
from bascule.link.hub_calls import HubCalls
from tests.hub.serving import ADMIN

from .targets import APP, SESSION, VSCODE, ProxyPlace, Raw, request

BASE = VSCODE.path
PAGE = ("Accept: text/html", "Sec-Fetch-Dest: document")
FORM = "Content-Type: application/x-www-form-urlencoded"


async def sign_in(raw: Raw, token: str, *headers: str, onward: str = f"{BASE}/") -> tuple[int, str]:
    """Fill in the form; the status, and the cookie as a browser would send it."""
    body = urlencode({"token": token, "next": onward})
    head = request("/sign-in", FORM, f"Content-Length: {len(body)}", *headers, method="POST")
    status, said, _ = await raw.ask(head + body.encode())
    return status, said.get("set-cookie", "").partition(";")[0]


# Signing in ---------------------------------------------------------------------------------


async def test_a_browser_is_led_through_the_sign_in_and_back(hub: ProxyPlace) -> None:
    async with hub.echo(), hub.raw() as raw:
        status, headers, _ = await raw.ask(request(f"{BASE}/?a=b", *PAGE))
        assert (status, headers["location"]) == (
            303,
            f"/sign-in?next={quote(f'{BASE}/?a=b', safe='')}",
        )
        status, headers, page = await raw.ask(request(headers["location"], *PAGE))
        assert status == 200
        assert b'action="/sign-in"' in page
        assert headers["content-security-policy"] == "frame-ancestors 'none'"  # besides another
        assert f'value="{BASE}/?a=b"'.encode() in page

        status, cookie = await sign_in(raw, ADMIN)
        assert (status, cookie.partition("=")[0]) == (200, "__Host-bascule")
        status, headers, body = await raw.ask(request(f"{BASE}/", f"Cookie: a=1; {cookie}", *PAGE))
        assert status == 200
        assert dict(json.loads(body)["headers"])["cookie"] == "a=1"

        given = headers["set-cookie"]
        assert given.startswith(f"__Secure-bascule-{SESSION}=")
        assert f"Path={BASE}/; " in given
        assert given.endswith("HttpOnly; Secure; SameSite=Lax")
        own = given.partition(";")[0]
        assert (await raw.ask(request(f"{BASE}/", f"Cookie: {own}")))[0] == 200


async def test_the_cookie_of_the_sign_in_is_for_this_host_and_no_script(hub: ProxyPlace) -> None:
    async with hub.raw() as raw:
        body = f"token={ADMIN}"
        head = request("/sign-in", FORM, f"Content-Length: {len(body)}", method="POST")
        _, headers, _ = await raw.ask(head + body.encode())

    cookie = headers["set-cookie"]
    assert cookie.endswith("; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict")


@pytest.mark.parametrize("onward", ["//evil.example", "https://evil.example", "/\\evil", "x", "/ä"])
async def test_the_sign_in_leads_nowhere_else(hub: ProxyPlace, onward: str) -> None:
    async with hub.raw() as raw:
        _, _, page = await raw.ask(request(f"/sign-in?next={quote(onward, safe='')}", *PAGE))

    assert b'value="/"' in page


async def test_a_wrong_token_and_a_windows_token_do_not_sign_in(hub: ProxyPlace) -> None:
    async with hub.raw() as raw:
        assert await sign_in(raw, "wrong") == (401, "")
        assert await sign_in(raw, hub.window) == (403, "")


async def test_a_foreign_page_cannot_sign_anybody_in_or_out(hub: ProxyPlace) -> None:
    async with hub.raw() as raw:
        for origin in ("https://evil.example", "null"):
            assert await sign_in(raw, ADMIN, f"Origin: {origin}") == (403, "")
            out = request("/sign-out", f"Origin: {origin}", "Content-Length: 0", method="POST")
            assert (await raw.ask(out))[0] == 403


async def test_a_link_on_another_site_is_followed_once_more_from_here(hub: ProxyPlace) -> None:
    async with hub.echo(), hub.raw() as raw:
        status, _, page = await raw.ask(request(f"{BASE}/x", *PAGE, "Sec-Fetch-Site: cross-site"))
        assert status == 200
        found = re.search(rb'http-equiv="refresh" content="0;url=([^"]+)"', page)
        assert found is not None
        there = found[1].decode()
        assert (await raw.ask(request(there, *PAGE)))[0] == 200  # a form: it does not go round
        known = f"Cookie: {(await sign_in(raw, ADMIN))[1]}"
        status, headers, _ = await raw.ask(request(there, *PAGE, known))
        assert (status, headers["location"]) == (303, f"{BASE}/x")


async def test_over_plain_http_nobody_signs_in_from_elsewhere() -> None:
    async with ProxyPlace(allowed_hosts=("hub.example",)) as hub, hub.echo(), hub.raw() as raw:
        for path in (f"{BASE}/", "/sign-in"):
            status, _, page = await raw.ask(request(path, *PAGE, host="hub.example"))
            assert status == 403
            assert b"TLS" in page
            assert b"public_url" in page
    settings = {"public_url": "https://hub.example"}
    async with ProxyPlace(**settings) as hub, hub.echo(), hub.raw() as raw:
        status, _, _ = await raw.ask(request("/sign-in", *PAGE, host="hub.example"))
        assert status == 200


async def test_signing_out_ends_the_cookies_and_the_tunnels(hub: ProxyPlace) -> None:
    async with hub.echo(), hub.raw() as raw, aiohttp.ClientSession() as client:
        _, cookie = await sign_in(raw, ADMIN)
        _, headers, _ = await raw.ask(request(f"{BASE}/", f"Cookie: {cookie}", *PAGE))
        own = headers["set-cookie"].partition(";")[0]
        socket = await client.ws_connect(f"{hub.hub.url}{BASE}/ws", headers={"Cookie": own})
        await socket.receive()

        out = request("/sign-out", f"Cookie: {cookie}", "Content-Length: 0", method="POST")
        status, headers, _ = await raw.ask(out)
        assert (status, "Max-Age=0" in headers["set-cookie"]) == (200, True)
        ended = await asyncio.wait_for(socket.receive(), 10)
        assert ended.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        for old in (cookie, own):
            assert (await raw.ask(request(f"{BASE}/", f"Cookie: {old}")))[0] == 401


async def test_cookies_outlive_a_restart_of_the_hub_and_end_with_the_token(
    hub: ProxyPlace,
) -> None:
    async with hub.echo():
        async with hub.raw() as raw:
            _, cookie = await sign_in(raw, ADMIN)
        await hub.stop()
        await hub.start()
        async with hub.raw() as raw:
            assert (await raw.ask(request(f"{BASE}/", f"Cookie: {cookie}")))[0] == 200
            token = await hub.token("short", "agent")
            _, cookie = await sign_in(raw, token)
            await hub.hub.tokens.revoke("short")
            assert (await raw.ask(request(f"{BASE}/", f"Cookie: {cookie}")))[0] == 401


async def test_an_address_signs_a_browser_in_once(hub: ProxyPlace) -> None:
    token = await hub.token("ada's laptop", "agent")
    async with hub.echo(), hub.raw() as raw, HubCalls(hub.hub.url, token) as calls:
        address = await calls.sign_in_address(f"{BASE}/")
        target = address.removeprefix(hub.hub.url)
        early = await raw.ask(request(target, "Sec-Purpose: prefetch", *PAGE))
        assert "set-cookie" not in early[1]
        status, headers, body = await raw.ask(request(target, *PAGE))
        cookie = headers["set-cookie"]
        assert (status, f"url={BASE}/".encode() in body) == (200, True)
        assert cookie.startswith("__Host-bascule=")
        assert "HttpOnly; Secure; SameSite=Strict" in cookie
        given = f"Cookie: {cookie.partition(';')[0]}"
        assert (await raw.ask(request(f"{BASE}/", given)))[0] == 200
        status, headers, body = await raw.ask(request(target, *PAGE))
        assert (status, "set-cookie" in headers) == (200, False)
        assert b"has been used" in body
        await hub.hub.tokens.revoke("ada's laptop")
        assert (await raw.ask(request(f"{BASE}/", given)))[0] == 401


async def test_an_address_that_signs_in_leads_nowhere_else(hub: ProxyPlace) -> None:
    async with hub.raw() as raw, HubCalls(hub.hub.url, ADMIN) as calls:
        for onward in ("//elsewhere.example/", "https://elsewhere.example/", "/a/../b"):
            address = await calls.sign_in_address(onward)
            _, _, body = await raw.ask(request(address.removeprefix(hub.hub.url), *PAGE))
            assert b'url=/"' in body


# Strangers ----------------------------------------------------------------------------------


@pytest.fixture
async def strangers(hub: ProxyPlace) -> AsyncIterator[list[str]]:
    """Headers of people who are known to the hub, but are not the owner."""
    async with hub.raw() as raw:
        bob = await hub.token("bob", "agent", owner="bob")
        root = await hub.token("root", "admin", owner="root")
        session = await hub.token("s", "session", session_id="otherone12345678")
        _, cookie = await sign_in(raw, bob)
        other = Place("vscode", "bobsone112345678")
        async with hub.echo(other, owner="bob"):
            _, headers, _ = await raw.ask(request(f"{other.path}/", f"Cookie: {cookie}", *PAGE))
        own = headers["set-cookie"].partition(";")[0]
        renamed = f"__Secure-bascule-{SESSION}=" + own.partition("=")[2]
        bearers = [f"Authorization: Bearer {token}" for token in (bob, root, session, hub.window)]
        yield [*bearers, f"Cookie: {cookie}", f"Cookie: {own}", f"Cookie: {renamed}"]


async def test_nobody_but_the_owner_gets_in(hub: ProxyPlace, strangers: list[str]) -> None:
    """Not even an admin: a session's pages run its owner's code."""
    async with hub.echo() as target, hub.echo(APP) as app, hub.raw() as raw:
        for header in strangers:
            for path in (BASE, APP.path):
                status, _, _ = await raw.ask(request(f"{path}/", header))
                assert status in (401, 404), header
                status, _, _ = await raw.ask(request(f"{path}/", header, *PAGE))
                assert status in (303, 404), header
    assert target.requests == app.requests == 0


async def test_a_strangers_websocket_is_refused_in_its_handshake(
    hub: ProxyPlace, strangers: list[str]
) -> None:
    async with hub.echo() as target, aiohttp.ClientSession() as client:
        for header in strangers:
            name, _, value = header.partition(": ")
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(f"{hub.hub.url}{BASE}/ws", headers={name: value})
            assert refused.value.status in (401, 404)
    assert target.requests == 0


async def test_to_a_stranger_a_session_of_others_is_like_none(hub: ProxyPlace) -> None:
    bob = await hub.token("bob", "agent", owner="bob")
    async with hub.echo(), hub.raw() as raw:
        _, _, theirs = await raw.ask(request(f"{BASE}/", token=bob))
        _, _, none = await raw.ask(request("/vscode/nosuchone1234567/", token=bob))

    assert theirs.replace(SESSION.encode(), b"X") == none.replace(b"nosuchone1234567", b"X")


async def test_a_session_token_opens_its_session_alone(hub: ProxyPlace) -> None:
    token = await hub.token("s", "session", session_id=SESSION)
    other = Place("vscode", "otherone12345678")
    async with hub.echo(), hub.echo(other), hub.raw() as raw:
        assert (await raw.ask(request(f"{BASE}/", token=token)))[0] == 200
        assert (await raw.ask(request(f"{other.path}/", token=token)))[0] == 404


async def test_a_token_in_the_address_becomes_a_cookie_and_leaves_it(hub: ProxyPlace) -> None:
    token = await hub.token("s", "session", session_id=SESSION)
    async with hub.echo(), hub.raw() as raw:
        target = f"{BASE}/?folder=%2Fw&tkn={token}&b=1"
        status, headers, _ = await raw.ask(request(target, *PAGE))
        assert (status, headers["location"]) == (303, f"{BASE}/?folder=%2Fw&b=1")
        own = headers["set-cookie"].partition(";")[0]
        assert (await raw.ask(request(headers["location"], f"Cookie: {own}")))[0] == 200
        other = Place("vscode", "otherone12345678")
        async with hub.echo(other) as echo:
            asked = request(f"{other.path}/?tkn={token}", *PAGE, token=ADMIN)
            status, headers, _ = await raw.ask(asked)
            assert (status, "set-cookie" in headers) == (404, False)
        assert echo.requests == 0  # a program of another session does not learn it


@pytest.mark.parametrize("headers", [("Origin: https://evil.example",), ("Origin: null",)])
async def test_a_foreign_page_does_not_reach_a_target(
    hub: ProxyPlace, headers: tuple[str, ...]
) -> None:
    async with hub.echo() as target, hub.raw() as raw:
        assert (await raw.ask(request(f"{BASE}/", *headers, token=ADMIN)))[0] == 403
        foreign = request(f"{BASE}/", host="evil.example", token=ADMIN)
        assert (await raw.ask(foreign))[0] == 403
    assert target.requests == 0


# VS Code's pages ----------------------------------------------------------------------------


async def test_only_named_pages_may_frame_a_session() -> None:
    framing = ("https://openhands.example",)
    async with ProxyPlace(frame_origins=framing) as hub, hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(raw, ADMIN)
        _, headers, _ = await raw.ask(request(f"{BASE}/", f"Cookie: {cookie}", *PAGE))

    policy = headers["content-security-policy"]
    assert policy == "frame-ancestors 'self' https://openhands.example"
    assert headers["set-cookie"].endswith("Secure; SameSite=None; Partitioned")


async def test_files_of_the_workspace_run_nothing_here(hub: ProxyPlace) -> None:
    async with hub.echo(), hub.raw() as raw:
        path = f"{BASE}/stable-x/vscode-remote-resource?path=%2Fw%2Fevil.html"
        _, headers, _ = await raw.ask(request(path, token=ADMIN))
        assert headers["content-security-policy"].startswith("sandbox;")
        _, headers, _ = await raw.ask(request(f"{BASE}/", token=ADMIN))
        assert "sandbox" not in headers["content-security-policy"]


async def test_a_path_without_its_slash_gets_it(hub: ProxyPlace) -> None:
    async with hub.raw() as raw:
        status, headers, _ = await raw.ask(request(f"{BASE}?a=b"))
        assert (status, headers["location"]) == (308, f"{BASE}/?a=b")


# Apps ---------------------------------------------------------------------------------------


async def test_an_app_is_shown_under_a_key_with_an_origin_of_nobody(hub: ProxyPlace) -> None:
    async with hub.echo(APP), hub.raw() as raw:
        _, cookie = await sign_in(raw, ADMIN)
        status, headers, _ = await raw.ask(request(f"{APP.path}/x?y", f"Cookie: {cookie}", *PAGE))
        keyed = hub.hub.addresses.keyed(APP)
        assert (status, headers["location"]) == (303, f"{keyed}/x?y")

        status, headers, body = await raw.ask(request(f"{keyed}/x?y", *PAGE))
        assert status == 200
        policy = headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in policy
        assert headers["referrer-policy"] == "no-referrer"
        told = json.loads(body)
        assert told["path"] == "/x"
        assert dict(told["headers"])["x-forwarded-prefix"] == keyed


async def test_a_keyed_page_may_call_its_app_though_its_origin_is_null(hub: ProxyPlace) -> None:
    async with hub.echo(APP), hub.raw() as raw, aiohttp.ClientSession() as client:
        keyed = hub.hub.addresses.keyed(APP)
        asked = ("Origin: null", "Access-Control-Request-Method: PUT")
        more = "Access-Control-Request-Headers: x-mine"
        status, headers, _ = await raw.ask(request(f"{keyed}/", *asked, more, method="OPTIONS"))
        assert (status, headers["access-control-allow-origin"]) == (204, "null")
        assert headers["access-control-allow-headers"] == "x-mine"
        mine = "Authorization: Bearer of-the-app"
        _, headers, body = await raw.ask(request(f"{keyed}/", "Origin: null", mine))
        assert headers["access-control-allow-origin"] == "null"
        seen = dict(json.loads(body)["headers"])
        assert seen["origin"] == "http://127.0.0.1"
        assert seen["authorization"] == "Bearer of-the-app"
        async with client.ws_connect(
            f"{hub.hub.url}{keyed}/ws", headers={"Origin": "null"}
        ) as socket:
            assert (await socket.receive_json())[0] == "/ws"


async def test_a_token_of_the_hub_never_reaches_an_app(hub: ProxyPlace) -> None:
    async with hub.echo(APP), hub.raw() as raw:
        for path in (hub.hub.addresses.keyed(APP), APP.path):
            for token in (ADMIN, hub.agent):
                _, _, body = await raw.ask(request(f"{path}/", token=token))
                assert "authorization" not in dict(json.loads(body)["headers"])


async def test_a_key_opens_its_own_app_and_nothing_else(hub: ProxyPlace) -> None:
    key = hub.hub.addresses.key(APP)
    second = Place("apps", SESSION, 1)
    async with hub.echo(APP), hub.echo(second) as other, hub.echo() as vscode, hub.raw() as raw:
        assert (await raw.ask(request(f"{APP.path}/~{key}/")))[0] == 200
        for path in (f"{second.path}/~{key}/", f"{BASE}/~{key}/", f"{APP.path}/~{'x' * 32}/"):
            assert (await raw.ask(request(path)))[0] == 401
        status, headers, _ = await raw.ask(request(f"{second.path}/~{key}/x", *PAGE))
        assert (status, headers["location"]) == (303, f"{second.path}/x")
        assert (await raw.ask(request("/api/vscode/instances", "Origin: null")))[0] == 403
    assert other.requests == vscode.requests == 0


async def test_an_app_may_opt_out_of_the_sandbox(hub: ProxyPlace) -> None:
    async with hub.echo(APP, is_sandboxed=False), hub.raw() as raw:
        _, cookie = await sign_in(raw, ADMIN)
        status, headers, _ = await raw.ask(request(f"{APP.path}/", f"Cookie: {cookie}", *PAGE))

    assert status == 200
    assert headers["content-security-policy"] == "frame-ancestors 'self'"


async def test_an_app_that_knows_its_base_path_gets_it_with_the_key(hub: ProxyPlace) -> None:
    async with hub.echo(APP, keeps_prefix=True), hub.raw() as raw:
        base = hub.hub.addresses.base_path(APP)
        _, _, body = await raw.ask(request(f"{base}/assets/x.js"))

    assert json.loads(body)["path"] == f"{base}/assets/x.js"


@pytest.mark.parametrize("origin", ["http://apps.localhost:1", "http://*.apps.localhost:1"])
async def test_with_an_origin_of_their_own_apps_and_hub_never_meet(origin: str) -> None:
    async with ProxyPlace(apps_origin=origin) as hub, hub.echo(APP), hub.raw() as raw:
        _, cookie = await sign_in(raw, ADMIN)
        _, headers, _ = await raw.ask(request(f"{APP.path}/x?y", f"Cookie: {cookie}", *PAGE))
        granted = headers["location"]
        assert granted.startswith(origin.replace("*", f"{SESSION}-0"))
        host, _, path = granted.partition("://")[2].partition("/")

        status, headers, _ = await raw.ask(request(f"/{path}", *PAGE, host=host))
        own, location = headers["set-cookie"].partition(";")[0], headers["location"]
        assert (status, "~" in location) == (303, False)
        status, headers, body = await raw.ask(request(location, f"Cookie: {own}", host=host))
        assert (status, "sandbox" in headers["content-security-policy"]) == (200, False)
        seen = json.loads(body)
        assert (seen["path"], "cookie" in dict(seen["headers"])) == ("/x", False)

        other = f"Cookie: {own.partition('=')[0]}=\xff{'x' * 31}"
        for header in (f"Cookie: {cookie}", "X-None: 1", other):
            assert (await raw.ask(request(location, header, host=host)))[0] == 401
        path = f"/{path.partition('?')[0].removesuffix('/x')}//evil.example/"
        _, headers, _ = await raw.ask(request(path, *PAGE, host=host))
        assert "//" not in headers["location"]
        back, headers, _ = await raw.ask(request(location, *PAGE, host=host))
        assert (back, headers["location"]) == (303, f"{hub.hub.url}{APP.path}/x?y")
        for path in ("/health", "/sign-in", f"{BASE}/", "/api/vscode/instances"):
            asked = request(path, f"Cookie: {cookie}", host=host, token=ADMIN)
            assert (await raw.ask(asked))[0] in (401, 404)
        foreign = request(location, f"Cookie: {own}", f"Origin: {hub.hub.url}", host=host)
        assert (await raw.ask(foreign))[0] == 403
