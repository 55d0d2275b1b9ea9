"""Who gets in, as whom, and what a page of a session can do with it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from html import unescape
from urllib.parse import quote, urlencode

import aiohttp
import pytest

from bascule.hub.proxy import SessionEndpoint
from bascule.link.hub_calls import HubCalls
from tests.hub.serving import ADMIN

from .targets import APP, SESSION, VSCODE, ProxyHub, Raw, request

BASE = VSCODE.path
PAGE = ("Accept: text/html", "Sec-Fetch-Dest: document")
FORM = "Content-Type: application/x-www-form-urlencoded"


OWN = f"{SESSION}.localhost"
"""The host of the session."""


async def sign_in(
    hub: ProxyHub, raw: Raw, token: str, *headers: str, onward: str = f"{BASE}/"
) -> tuple[int, str]:
    """Fill in the form; the status, and the cookie as a browser would send it."""
    body = urlencode({"token": token, "next": onward})
    size = f"Content-Length: {len(body)}"
    head = request("/sign-in", FORM, size, *headers, method="POST", host=hub.page)
    status, said, _ = await raw.ask(head + body.encode())
    return status, said.get("set-cookie", "").partition(";")[0]


async def enter(
    hub: ProxyHub, raw: Raw, cookie: str, target: str = f"{BASE}/", *headers: str
) -> tuple[str, str]:
    """Go from the hub to a session's origin as a browser does; the cookie there as it is set, and
    where it leads."""
    status, said, _ = await raw.ask(request(target, f"Cookie: {cookie}", *PAGE, host=hub.page))
    assert status == 303, target
    return await arrive(raw, said["location"], *headers)


async def arrive(raw: Raw, address: str, *headers: str) -> tuple[str, str]:
    """The rest of the way, from the redirect with a code on."""
    host, _, path = address.removeprefix("http://").partition("/")
    assert path.startswith("_bascule/enter?code=")
    status, said, body = await raw.ask(request(f"/{path}", *PAGE, *headers, host=host))
    assert status == 200
    given, there = said["set-cookie"], refresh_of(body)
    own = f"Cookie: {given.partition(';')[0]}"
    status, said, _ = await raw.ask(request(there, own, *PAGE, host=host))
    assert status == 303, there
    return given, said["location"]


def refresh_of(page: bytes) -> str:
    """Where a page leads by itself."""
    found = re.search(rb'http-equiv="refresh" content="0;url=([^"]+)"', page)
    assert found is not None, page
    return unescape(found[1].decode())


# Signing in ---------------------------------------------------------------------------------


async def test_a_browser_is_redirected_through_sign_in_to_the_sessions_origin(
    hub: ProxyHub,
) -> None:
    async with hub.echo(), hub.raw() as raw:
        status, headers, _ = await raw.ask(request(f"{BASE}/?a=b", *PAGE))
        assert (status, headers["location"]) == (303, f"http://{hub.page}{BASE}/?a=b")
        status, headers, _ = await raw.ask(request(f"{BASE}/?a=b", *PAGE, host=hub.page))
        assert (status, headers["location"]) == (
            303,
            f"/sign-in?next={quote(f'{BASE}/?a=b', safe='')}",
        )
        status, headers, page = await raw.ask(request(headers["location"], *PAGE, host=hub.page))
        assert status == 200
        assert b'action="/sign-in"' in page
        assert headers["content-security-policy"] == "frame-ancestors 'none'"  # besides another
        assert f'value="{BASE}/?a=b"'.encode() in page

        status, cookie = await sign_in(hub, raw, ADMIN)
        assert (status, cookie.partition("=")[0]) == (200, "__Host-Http-bascule")
        given, there = await enter(hub, raw, cookie, f"{BASE}/?a=b")
        assert there == f"{BASE}/?a=b"
        assert given.startswith(f"__Host-Http-bascule-{SESSION}=")
        assert given.endswith("; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict")
        own = given.partition(";")[0]
        asked = request(there, f"Cookie: a=1; {own}; {cookie}", *PAGE, host=OWN)
        status, headers, body = await raw.ask(asked)
        assert status == 200
        assert dict(json.loads(body)["headers"])["cookie"] == "a=1"
        policy = headers["content-security-policy"]
        assert policy == f"frame-ancestors 'self' http://{hub.page}"


async def test_the_cookie_set_in_a_frame_is_accepted_by_browsers_in_frames(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        _, headers, _ = await raw.ask(
            request(f"{BASE}/", f"Cookie: {cookie}", *PAGE, host=hub.page)
        )
        host, _, path = headers["location"].removeprefix("http://").partition("/")
        asked = request(f"/{path}", "Sec-Fetch-Dest: iframe", "Accept: text/html", host=host)
        _, headers, _ = await raw.ask(asked)
        assert headers["set-cookie"].endswith(
            "; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=None; Partitioned"
        )


async def test_every_address_has_the_port_that_the_browser_used(hub: ProxyHub) -> None:
    """A forwarded port may have another number here than there."""
    async with hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        _, headers, _ = await raw.ask(request(f"{BASE}/", *PAGE, host="127.0.0.1:28300"))
        assert headers["location"] == f"http://{hub.page}:28300{BASE}/"
        asked = request(f"{BASE}/", f"Cookie: {cookie}", *PAGE, host=f"{hub.page}:28300")
        _, headers, _ = await raw.ask(asked)
        assert headers["location"].startswith(f"http://{OWN}:28300/_bascule/enter?code=")
        _, headers, _ = await raw.ask(request(f"{BASE}/", *PAGE, host=f"{OWN}:28300"))
        assert headers["location"] == f"http://{hub.page}:28300{BASE}/"


async def test_a_sign_in_code_works_once_and_only_for_its_session(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        known = f"Cookie: {cookie}"
        for host in (OWN, "zzzzzzzz12345678.localhost"):
            _, headers, _ = await raw.ask(request(f"{BASE}/", known, *PAGE, host=hub.page))
            path = "/" + headers["location"].removeprefix("http://").partition("/")[2]
            answers = [await raw.ask(request(path, *PAGE, host=each)) for each in (host, OWN)]
            given = ["set-cookie" in headers for _, headers, _ in answers]
            assert given == [host == OWN, False]
            status, _, page = await raw.ask(request(refresh_of(answers[1][2]), *PAGE, host=OWN))
            assert (status, b"No cookie came back" in page) == (403, True)  # and no endless circle


async def test_the_sign_in_cookie_is_limited_to_its_host_and_hidden_from_scripts(
    hub: ProxyHub,
) -> None:
    async with hub.raw() as raw:
        body = f"token={ADMIN}"
        size = f"Content-Length: {len(body)}"
        head = request("/sign-in", FORM, size, method="POST", host=hub.page)
        _, headers, _ = await raw.ask(head + body.encode())

    cookie = headers["set-cookie"]
    assert cookie.endswith("; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict")


async def test_sign_in_is_rejected_on_hosts_whose_cookies_reach_every_port(hub: ProxyHub) -> None:
    """Cookies of 127.0.0.1 are sent to every server of the machine."""
    async with hub.raw() as raw:
        for host in ("127.0.0.1", "localhost", "[::1]", "127.0.0.1:8300"):
            body = f"token={ADMIN}"
            size = f"Content-Length: {len(body)}"
            asked = request("/sign-in", FORM, size, method="POST", host=host)
            status, headers, _ = await raw.ask(asked + body.encode())
            assert (status, "set-cookie" in headers) == (403, False), host
            for path in ("/", "/sign-in", f"/watch/{SESSION}"):
                status, headers, _ = await raw.ask(request(path, *PAGE, host=host))
                assert status == 303
                assert headers["location"].startswith(f"http://{hub.page}"), host


@pytest.mark.parametrize("onward", ["//evil.example", "https://evil.example", "/\\evil", "x", "/ä"])
async def test_the_sign_in_redirects_only_to_the_hub(hub: ProxyHub, onward: str) -> None:
    async with hub.raw() as raw:
        there = f"/sign-in?next={quote(onward, safe='')}"
        _, _, page = await raw.ask(request(there, *PAGE, host=hub.page))

    assert b'value="/"' in page


async def test_a_wrong_token_and_a_windows_token_do_not_sign_in(hub: ProxyHub) -> None:
    async with hub.raw() as raw:
        assert await sign_in(hub, raw, "wrong") == (401, "")
        assert await sign_in(hub, raw, hub.window) == (403, "")


async def test_a_page_of_another_origin_cannot_sign_a_user_in_or_out(hub: ProxyHub) -> None:
    async with hub.raw() as raw:
        for origin in ("https://evil.example", "null"):
            assert await sign_in(hub, raw, ADMIN, f"Origin: {origin}") == (403, "")
            out = request(
                *("/sign-out", f"Origin: {origin}", "Content-Length: 0"),
                method="POST",
                host=hub.page,
            )
            assert (await raw.ask(out))[0] == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_a_link_from_another_site_is_reloaded_from_the_hubs_origin(
    hub: ProxyHub, site: str
) -> None:
    """Browsers withhold a strict cookie then, and Firefox says `none` after some redirects."""
    async with hub.echo(), hub.raw() as raw:
        known = f"Cookie: {(await sign_in(hub, raw, ADMIN))[1]}"
        asked = request(f"{BASE}/x", *PAGE, f"Sec-Fetch-Site: {site}", host=hub.page)
        status, _, page = await raw.ask(asked)
        assert status == 200
        there = refresh_of(page)
        again = ("Sec-Fetch-Site: same-origin", *PAGE)
        if site != "none":
            assert there == f"{BASE}/x"
            _, headers, _ = await raw.ask(request(there, *again, host=hub.page))
            there = headers["location"]
        # A form: it does not go round.
        assert (await raw.ask(request(there, *again, host=hub.page)))[0] == 200
        status, headers, _ = await raw.ask(request(there, *again, known, host=hub.page))
        assert (status, headers["location"]) == (303, f"{BASE}/x")


async def test_a_link_from_another_site_that_could_run_code_in_vscode_asks_first(
    hub: ProxyHub,
) -> None:
    async with hub.echo(), hub.raw() as raw:
        known = f"Cookie: {(await sign_in(hub, raw, ADMIN))[1]}"
        for query, is_led in (
            ("folder=/w&ew=true", True),
            ('payload=[["extensionDevelopmentPath","https://evil.example"]]', False),
            ("folder=/w&tkn=x", False),
        ):
            target = f"{BASE}/?{quote(query, safe='=&')}"
            for site in ("cross-site", "same-site"):
                asked = request(target, known, *PAGE, f"Sec-Fetch-Site: {site}", host=hub.page)
                status, _, page = await raw.ask(asked)
                assert (status, b"http-equiv" in page) == (200, is_led), query


async def test_remote_sign_in_over_plain_http_is_rejected() -> None:
    async with ProxyHub(allowed_hosts=("hub.example",)) as hub, hub.echo(), hub.raw() as raw:
        for path in (f"{BASE}/", "/sign-in"):
            status, _, page = await raw.ask(request(path, *PAGE, host="hub.example"))
            assert status == 403
            assert b"TLS" in page
            assert b"public_url" in page
    settings = {"public_url": "https://hub.example"}
    async with ProxyHub(**settings) as hub, hub.echo(), hub.raw() as raw:
        status, _, _ = await raw.ask(request("/sign-in", *PAGE, host="hub.example"))
        assert status == 200


async def test_signing_out_revokes_cookies_and_closes_tunnels(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw, aiohttp.ClientSession() as client:
        _, cookie = await sign_in(hub, raw, ADMIN)
        own = (await enter(hub, raw, cookie))[0].partition(";")[0]
        socket = await client.ws_connect(
            f"{hub.hub.url}{BASE}/ws", headers={"Cookie": own, "Host": OWN}
        )
        await socket.receive()

        out = request(
            *("/sign-out", f"Cookie: {cookie}", "Content-Length: 0"), method="POST", host=hub.page
        )
        status, headers, _ = await raw.ask(out)
        assert (status, "Max-Age=0" in headers["set-cookie"]) == (200, True)
        ended = await asyncio.wait_for(socket.receive(), 10)
        assert ended.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        for old in (cookie, own):
            assert (await raw.ask(request(f"{BASE}/", f"Cookie: {old}", host=OWN)))[0] == 401


async def test_cookies_survive_a_hub_restart_and_end_with_their_token(
    hub: ProxyHub,
) -> None:
    async with hub.echo():
        async with hub.raw() as raw:
            _, cookie = await sign_in(hub, raw, ADMIN)
            own = (await enter(hub, raw, cookie))[0].partition(";")[0]
        await hub.stop()
        await hub.start()
        async with hub.raw() as raw:
            assert (await raw.ask(request(f"{BASE}/", f"Cookie: {own}", host=OWN)))[0] == 200
            await enter(hub, raw, cookie)
            token = await hub.token("short", "agent")
            _, cookie = await sign_in(hub, raw, token)
            own = (await enter(hub, raw, cookie))[0].partition(";")[0]
            await hub.hub.tokens.revoke("short")
            assert (await raw.ask(request(f"{BASE}/", f"Cookie: {own}", host=OWN)))[0] == 401


async def test_a_sign_in_url_works_once(hub: ProxyHub) -> None:
    token = await hub.token("ada's laptop", "agent")
    async with hub.echo(), hub.raw() as raw, HubCalls(hub.hub.url, token) as calls:
        address = await calls.sign_in_address(f"{BASE}/")
        target = address.removeprefix(hub.hub.url)
        early = await raw.ask(request(target, "Sec-Purpose: prefetch", *PAGE, host=hub.page))
        assert "set-cookie" not in early[1]
        status, headers, body = await raw.ask(request(target, *PAGE))
        assert (status, refresh_of(body)) == (200, f"http://{hub.page}{target}")
        status, headers, body = await raw.ask(request(target, *PAGE, host=hub.page))
        cookie = headers["set-cookie"]
        assert (status, f"url={BASE}/".encode() in body) == (200, True)
        assert cookie.startswith("__Host-Http-bascule=")
        assert "HttpOnly; Secure; SameSite=Strict" in cookie
        await enter(hub, raw, cookie.partition(";")[0])
        status, headers, body = await raw.ask(request(target, *PAGE, host=hub.page))
        assert (status, "set-cookie" in headers) == (200, False)
        assert b"has been used" in body
        await hub.hub.tokens.revoke("ada's laptop")
        given = f"Cookie: {cookie.partition(';')[0]}"
        _, headers, _ = await raw.ask(request(f"{BASE}/", given, *PAGE, host=hub.page))
        assert headers["location"].startswith("/sign-in?")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none", ""])
async def test_a_sign_in_url_replaces_the_signed_in_user_only_after_confirmation(
    hub: ProxyHub, site: str
) -> None:
    eve = await hub.token("eve's laptop", "agent", owner="eve")
    async with hub.raw() as raw, HubCalls(hub.hub.url, eve) as calls:
        known = f"Cookie: {(await sign_in(hub, raw, ADMIN))[1]}"
        target = (await calls.sign_in_address("/")).removeprefix(hub.hub.url)
        headers = (*PAGE, *((f"Sec-Fetch-Site: {site}",) if site else ()))
        shown = [] if site in ("cross-site", "same-site") else [known]  # as browsers do
        status, said, page = await raw.ask(request(target, *headers, *shown, host=hub.page))
        if site in ("cross-site", "same-site"):
            assert "set-cookie" not in said
            own = ("Sec-Fetch-Site: same-origin", *PAGE, known)
            status, said, page = await raw.ask(request(refresh_of(page), *own, host=hub.page))
        assert (status, "set-cookie" in said) == (200, False)
        assert b"You are signed in as admin" in page
        assert b"Sign in as eve" in page
        found = re.search(rb'name="code" value="([^"]+)"', page)
        assert found is not None
        body = urlencode({"code": found[1].decode()})
        size = f"Content-Length: {len(body)}"
        for origin, is_agreed in (("https://evil.example", False), (f"http://{hub.page}", True)):
            asked = request(
                *("/sign-in", FORM, size, known, f"Origin: {origin}"), method="POST", host=hub.page
            )
            status, said, _ = await raw.ask(asked + body.encode())
            assert ("set-cookie" in said) is is_agreed


async def test_a_link_from_another_site_does_not_sign_in_without_confirmation(
    hub: ProxyHub,
) -> None:
    eve = await hub.token("eve's laptop", "agent", owner="eve")
    async with hub.raw() as raw, HubCalls(hub.hub.url, eve) as calls:
        target = (await calls.sign_in_address("/")).removeprefix(hub.hub.url) + "&typed=1"
        site = "Sec-Fetch-Site: cross-site"
        _, _, page = await raw.ask(request(target, site, *PAGE, host=hub.page))
        own = ("Sec-Fetch-Site: same-origin", *PAGE)
        status, said, page = await raw.ask(request(refresh_of(page), *own, host=hub.page))
        assert (status, "set-cookie" in said) == (200, False)
        assert b"This URL signs you in as eve" in page


async def test_a_typed_sign_in_url_signs_in_at_once(hub: ProxyHub) -> None:
    eve = await hub.token("eve's laptop", "agent", owner="eve")
    async with hub.raw() as raw, HubCalls(hub.hub.url, eve) as calls:
        target = (await calls.sign_in_address("/")).removeprefix(hub.hub.url)
        typed = ("Sec-Fetch-Site: none", *PAGE)
        _, _, page = await raw.ask(request(target, *typed, host=hub.page))
        own = ("Sec-Fetch-Site: same-origin", *PAGE)
        _, said, _ = await raw.ask(request(refresh_of(page), *own, host=hub.page))
        assert "set-cookie" in said


async def test_a_sign_in_url_redirects_only_to_the_hub(hub: ProxyHub) -> None:
    async with hub.raw() as raw, HubCalls(hub.hub.url, ADMIN) as calls:
        for onward in ("//elsewhere.example/", "https://elsewhere.example/", "/a/../b"):
            address = await calls.sign_in_address(onward)
            target = address.removeprefix(hub.hub.url)
            _, _, body = await raw.ask(request(target, *PAGE, host=hub.page))
            assert b'url=/"' in body


@pytest.mark.skipif(os.geteuid() != 0, reason="asks as another user")
async def test_a_sign_in_url_on_a_browser_command_line_fails_for_other_users(
    hub: ProxyHub,
) -> None:
    async with hub.raw() as raw, HubCalls(hub.hub.url, ADMIN) as calls:
        address = await calls.sign_in_address("/", same_user=True)
        target = address.removeprefix(hub.hub.url)
        asked = request(target, *PAGE, host=hub.page)
        answer = await asyncio.to_thread(_asked_by, 12345, hub.port, asked)
        assert b"has been used or is too old" in answer
        assert b"set-cookie" not in answer
        _, headers, _ = await raw.ask(asked)  # and it was not used up by them
        assert headers["set-cookie"].startswith("__Host-Http-bascule=")


def _asked_by(uid: int, port: int, data: bytes) -> bytes:
    """What another user of this machine is answered."""
    script = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
        "s.sendall(sys.stdin.buffer.read());"
        "sys.stdout.buffer.write(s.makefile('rb').read())"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", script, str(port)],
        input=data.replace(b"Host:", b"Connection: close\r\nHost:", 1),
        capture_output=True,
        check=True,
        timeout=30,
        user=uid,
        cwd="/",
    )
    return done.stdout


# Strangers ----------------------------------------------------------------------------------


@pytest.fixture
async def strangers(hub: ProxyHub) -> AsyncIterator[list[str]]:
    """Headers of people who are known to the hub, but are not the owner."""
    async with hub.raw() as raw:
        bob = await hub.token("bob", "agent", owner="bob")
        root = await hub.token("root", "admin", owner="root")
        session = await hub.token("s", "session", session_id="otherone12345678")
        _, cookie = await sign_in(hub, raw, bob)
        other = SessionEndpoint("vscode", "bobsone112345678")
        async with hub.echo(other, owner="bob"):
            given, _ = await enter(hub, raw, cookie, f"{other.path}/")
        own = given.partition(";")[0]
        renamed = f"__Host-Http-bascule-{SESSION}=" + own.partition("=")[2]
        bearers = [f"Authorization: Bearer {token}" for token in (bob, root, session, hub.window)]
        yield [*bearers, f"Cookie: {cookie}", f"Cookie: {own}", f"Cookie: {renamed}"]


async def test_only_the_owner_can_open_a_session(hub: ProxyHub, strangers: list[str]) -> None:
    """Not even an admin: a session's pages run its owner's code."""
    async with hub.echo() as target, hub.echo(APP) as app, hub.raw() as raw:
        for header in strangers:
            for path in (BASE, APP.path):
                for host in ("127.0.0.1", hub.page, OWN):
                    status, _, _ = await raw.ask(request(f"{path}/", header, host=host))
                    assert status in (401, 404), header
                    status, said, _ = await raw.ask(request(f"{path}/", header, *PAGE, host=host))
                    assert status in (303, 404), header
                    assert "/_bascule/" not in said.get("location", ""), header
    assert target.requests == app.requests == 0


async def test_a_websocket_without_access_is_rejected_in_its_handshake(
    hub: ProxyHub, strangers: list[str]
) -> None:
    async with hub.echo() as target, aiohttp.ClientSession() as client:
        for header in strangers:
            name, _, value = header.partition(": ")
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(f"{hub.hub.url}{BASE}/ws", headers={name: value})
            assert refused.value.status in (401, 404)
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(
                    f"{hub.hub.url}{BASE}/ws", headers={name: value, "Host": OWN}
                )
            assert refused.value.status in (401, 404)
    assert target.requests == 0


async def test_a_session_of_another_owner_looks_like_a_missing_session(hub: ProxyHub) -> None:
    bob = await hub.token("bob", "agent", owner="bob")
    async with hub.echo(), hub.raw() as raw:
        _, _, theirs = await raw.ask(request(f"{BASE}/", token=bob))
        _, _, none = await raw.ask(request("/vscode/nosuchone1234567/", token=bob))

    assert theirs.replace(SESSION.encode(), b"X") == none.replace(b"nosuchone1234567", b"X")


async def test_a_session_token_opens_only_its_session(hub: ProxyHub) -> None:
    token = await hub.token("s", "session", session_id=SESSION)
    other = SessionEndpoint("vscode", "otherone12345678")
    async with hub.echo(), hub.echo(other), hub.raw() as raw:
        assert (await raw.ask(request(f"{BASE}/", token=token)))[0] == 200
        assert (await raw.ask(request(f"{other.path}/", token=token)))[0] == 404


async def test_a_token_in_the_url_becomes_a_cookie_and_is_removed_from_the_url(
    hub: ProxyHub,
) -> None:
    token = await hub.token("s", "session", session_id=SESSION)
    async with hub.echo(), hub.raw() as raw:
        target = f"{BASE}/?folder=%2Fw&tkn={token}&b=1"
        status, headers, _ = await raw.ask(request(target, *PAGE))
        assert status == 303
        given, there = await arrive(raw, headers["location"])
        assert there == f"{BASE}/?folder=%2Fw&b=1"
        own = given.partition(";")[0]
        assert (await raw.ask(request(there, f"Cookie: {own}", host=OWN)))[0] == 200
        # Nor does the session learn it at its own address.
        asked = request(target, f"Cookie: {own}", *PAGE, host=OWN)
        status, headers, _ = await raw.ask(asked)
        assert (status, headers["location"]) == (303, f"http://{hub.page}{target}")
        other = SessionEndpoint("vscode", "otherone12345678")
        async with hub.echo(other) as echo:
            asked = request(f"{other.path}/?tkn={token}", *PAGE, token=ADMIN)
            status, headers, _ = await raw.ask(asked)
            assert (status, "set-cookie" in headers) == (404, False)
        assert echo.requests == 0  # a program of another session does not learn it


@pytest.mark.parametrize("headers", [("Origin: https://evil.example",), ("Origin: null",)])
async def test_a_page_of_another_origin_cannot_reach_a_target(
    hub: ProxyHub, headers: tuple[str, ...]
) -> None:
    async with hub.echo() as target, hub.raw() as raw:
        assert (await raw.ask(request(f"{BASE}/", *headers, token=ADMIN)))[0] == 403
        foreign = request(f"{BASE}/", host="evil.example", token=ADMIN)
        assert (await raw.ask(foreign))[0] == 403
    assert target.requests == 0


# VS Code's pages ----------------------------------------------------------------------------


async def test_only_named_pages_may_frame_a_session() -> None:
    framing = ("https://openhands.example",)
    async with ProxyHub(frame_origins=framing) as hub, hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        own = (await enter(hub, raw, cookie))[0].partition(";")[0]
        _, headers, _ = await raw.ask(request(f"{BASE}/", f"Cookie: {own}", *PAGE, host=OWN))
        page = hub.page

    policy = headers["content-security-policy"]
    assert policy == f"frame-ancestors 'self' https://openhands.example http://{page}"


async def test_workspace_files_served_by_vscode_are_sandboxed(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        path = f"{BASE}/stable-x/vscode-remote-resource?path=%2Fw%2Fevil.html"
        _, headers, _ = await raw.ask(request(path, token=ADMIN))
        assert headers["content-security-policy"].startswith("sandbox;")
        _, headers, _ = await raw.ask(request(f"{BASE}/", token=ADMIN))
        assert "sandbox" not in headers["content-security-policy"]


async def test_a_path_without_its_slash_gets_it(hub: ProxyHub) -> None:
    async with hub.raw() as raw:
        status, headers, _ = await raw.ask(request(f"{BASE}?a=b"))
        assert (status, headers["location"]) == (308, f"{BASE}/?a=b")


# Apps ---------------------------------------------------------------------------------------


async def test_an_app_is_served_under_a_key_with_an_opaque_origin(hub: ProxyHub) -> None:
    async with hub.echo(APP), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        given, there = await enter(hub, raw, cookie, f"{APP.path}/x?y")
        own = f"Cookie: {given.partition(';')[0]}"
        status, headers, _ = await raw.ask(request(there, own, *PAGE, host=OWN))
        keyed = hub.hub.addresses.keyed_path(APP)
        assert (status, headers["location"]) == (303, f"{keyed}/x?y")

        # On the hub's origin no page of an app is ever shown, with a key neither.
        status, headers, _ = await raw.ask(request(f"{keyed}/x?y", *PAGE, host=hub.page))
        assert (status, headers["location"]) == (303, f"http://{OWN}{keyed}/x?y")
        status, headers, body = await raw.ask(request(f"{keyed}/x?y", *PAGE, host=OWN))
        assert status == 200
        policy = headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in policy
        assert headers["referrer-policy"] == "no-referrer"
        told = json.loads(body)
        assert told["path"] == "/x"
        assert dict(told["headers"])["x-forwarded-prefix"] == keyed


async def test_a_keyed_page_can_call_its_app_with_a_null_origin(hub: ProxyHub) -> None:
    async with hub.echo(APP), hub.raw() as raw, aiohttp.ClientSession() as client:
        keyed = hub.hub.addresses.keyed_path(APP)
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


async def test_a_token_of_the_hub_never_reaches_an_app(hub: ProxyHub) -> None:
    async with hub.echo(APP), hub.raw() as raw:
        for path in (hub.hub.addresses.keyed_path(APP), APP.path):
            for token in (ADMIN, hub.agent):
                _, _, body = await raw.ask(request(f"{path}/", token=token))
                assert "authorization" not in dict(json.loads(body)["headers"])


async def test_an_app_key_opens_only_its_app(hub: ProxyHub) -> None:
    key = hub.hub.addresses.key(APP)
    second = SessionEndpoint("apps", SESSION, 1)
    async with hub.echo(APP), hub.echo(second) as other, hub.echo() as vscode, hub.raw() as raw:
        assert (await raw.ask(request(f"{APP.path}/~{key}/")))[0] == 200
        for path in (f"{second.path}/~{key}/", f"{BASE}/~{key}/", f"{APP.path}/~{'x' * 32}/"):
            assert (await raw.ask(request(path)))[0] == 401
        status, headers, _ = await raw.ask(request(f"{second.path}/~{key}/x", *PAGE))
        assert (status, headers["location"]) == (303, f"{second.path}/x")
        assert (await raw.ask(request("/api/vscode/instances", "Origin: null")))[0] == 403
    assert other.requests == vscode.requests == 0


async def test_an_app_may_opt_out_of_the_sandbox(hub: ProxyHub) -> None:
    async with hub.echo(APP, is_sandboxed=False), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        own = (await enter(hub, raw, cookie, f"{APP.path}/"))[0].partition(";")[0]
        asked = request(f"{APP.path}/", f"Cookie: {own}", *PAGE, host=OWN)
        status, headers, _ = await raw.ask(asked)

    assert status == 200
    assert headers["content-security-policy"].startswith("frame-ancestors 'self' ")


async def test_an_app_that_knows_its_base_path_gets_it_with_the_key(hub: ProxyHub) -> None:
    async with hub.echo(APP, keeps_prefix=True), hub.raw() as raw:
        base = hub.hub.addresses.base_path(APP)
        _, _, body = await raw.ask(request(f"{base}/assets/x.js"))

    assert json.loads(body)["path"] == f"{base}/assets/x.js"


@pytest.mark.parametrize("origin", ["http://apps.localhost:1", "http://*.apps.localhost:1"])
async def test_with_a_separate_apps_origin_apps_and_hub_share_no_origin(origin: str) -> None:
    async with ProxyHub(apps_origin=origin) as hub, hub.echo(APP), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        asked = request(f"{APP.path}/x?y", f"Cookie: {cookie}", *PAGE, host=hub.page)
        _, headers, _ = await raw.ask(asked)
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
        assert (back, headers["location"]) == (303, f"http://{hub.page}:{hub.port}{APP.path}/x?y")
        for path in ("/health", "/sign-in", f"{BASE}/", "/api/vscode/instances"):
            asked = request(path, f"Cookie: {cookie}", host=host, token=ADMIN)
            assert (await raw.ask(asked))[0] in (401, 404)
        foreign = request(location, f"Cookie: {own}", f"Origin: {hub.hub.url}", host=host)
        assert (await raw.ask(foreign))[0] == 403
