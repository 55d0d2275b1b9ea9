"""Which host answers what: the hub's names, the sessions' names, and everybody else's."""

from __future__ import annotations

import asyncio
import socket

import pytest

from bascule.core.errors import InvalidSetting
from bascule.hub import Hub, HubSettings
from bascule.hub.origins import Origins
from bascule.hub.proxy import SessionEndpoint
from bascule.serving.sockets import bound_pair
from tests.hub.serving import ADMIN

from .targets import APP, OTHER, SESSION, VSCODE, ProxyHub, request
from .test_session_sign_in import OWN, PAGE, arrive, enter, refresh_of, sign_in

BASE = VSCODE.path
SANDBOX = SessionEndpoint("sandbox", SESSION)


def origins(**settings: str) -> Origins:
    return Origins(HubSettings(admin_token=ADMIN, **settings))  # type: ignore[arg-type]


# The rules ----------------------------------------------------------------------------------


def test_on_this_machine_every_session_has_a_name_below_localhost() -> None:
    here = origins()
    assert here.session_origin("127.0.0.1:8300", SESSION) == f"http://{SESSION}.localhost:8300"
    assert here.page_origin(f"{SESSION}.localhost:8300") == f"http://{here.local_name}:8300"
    found = here.session_host(f"{SESSION}.localhost:8300")
    assert found is not None
    assert (found.origin, found.session_id) == (f"http://{SESSION}.localhost:8300", SESSION)
    for host in ("localhost", "x.localhost", f"{SESSION}.example", f"{SESSION}-0.localhost"):
        assert here.session_host(host) is None
    assert not here.remaining_risk


def test_no_two_hubs_have_the_same_name_for_their_page() -> None:
    names = {
        origins().local_name,
        Origins(HubSettings(admin_token="another")).local_name,
        origins(state_dir="/elsewhere").local_name,
    }
    assert len(names) == 3
    assert all(len(name.partition(".")[0]) > 16 for name in names)  # nobody guesses it


def test_elsewhere_each_session_has_a_name_at_the_wildcard() -> None:
    there = origins(public_url="https://hub.example", sessions_origin="https://*.sessions.example")
    assert there.session_origin("hub.example", SESSION) == f"https://{SESSION}.sessions.example"
    found = there.session_host(f"{SESSION}.sessions.example")
    assert found is not None
    assert found.session_id == SESSION
    assert there.page_origin(f"{SESSION}.sessions.example") == "https://hub.example"
    assert there.session_host("sessions.example") is None
    assert there.session_host(f"a.{SESSION}.sessions.example") is None
    assert not there.remaining_risk
    # Whoever is on the hub's machine, or has forwarded its port, has names below localhost.
    assert there.session_origin("127.0.0.1:8300", SESSION) == f"http://{SESSION}.localhost:8300"


@pytest.mark.parametrize(
    ("sessions", "risk"),
    [
        ("https://hub.example:8443", "read and control the other sessions"),
        ("https://*.hub.example", "share a site"),
        ("hub", "act as the person who views it"),
    ],
)
def test_remaining_origin_risks_are_reported(sessions: str, risk: str) -> None:
    there = origins(public_url="https://hub.example", sessions_origin=sessions)
    assert risk in there.remaining_risk


@pytest.mark.parametrize(
    "wrong",
    [
        *("https://hub.example", "https://*.example", "*.sessions.example", "sessions"),
        *("https://sessions.example/path", "https://*.*.example", "ftp://*.sessions.example"),
    ],
)
def test_an_origin_that_cannot_keep_sessions_apart_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidSetting, match="sessions_origin is"):
        origins(public_url="https://hub.example", sessions_origin=wrong)


# Who answers --------------------------------------------------------------------------------


async def test_the_origin_of_a_session_serves_neither_the_hub_nor_another_session(
    hub: ProxyHub,
) -> None:
    other = SessionEndpoint("vscode", OTHER)
    async with hub.echo() as own, hub.echo(other) as others, hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        known = f"Cookie: {(await enter(hub, raw, cookie))[0].partition(';')[0]}; {cookie}"
        for path in (
            *("/", "/health", "/docs", "/sign-in", "/sign-out", "/api/sessions", "/metrics"),
            *("/socket.io/?EIO=4", "/openapi.json", "/watch/x", "/page/x.js"),
            *(f"{other.path}/", f"/apps/{OTHER}-0/", f"/sandbox/{SESSION}/alive"),
        ):
            for token in ("", ADMIN):
                status, _, _ = await raw.ask(request(path, known, host=OWN, token=token))
                assert status == 404, path
        assert (await raw.ask(request(f"{BASE}/", known, host=OWN)))[0] == 200
        # A token is for the hub's own address: here it would be the session's to see.
        assert (await raw.ask(request(f"{BASE}/", host=OWN, token=ADMIN)))[0] == 401
    assert (own.requests, others.requests) == (1, 0)


@pytest.mark.parametrize(
    "header",
    [
        *("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: null"),
        *("Origin: https://evil.example", f"Origin: http://{OTHER}.localhost"),
        *("Origin: http://127.0.0.1", f"Origin: https://{OWN}", f"Origin: http://{OWN}:1"),
    ],
)
async def test_the_session_cookie_is_accepted_only_from_pages_of_its_session(
    hub: ProxyHub, header: str
) -> None:
    async with hub.echo() as echo, hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        known = f"Cookie: {(await enter(hub, raw, cookie))[0].partition(';')[0]}"
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            asked = request(f"{BASE}/x", known, header, method=method, host=OWN)
            assert (await raw.ask(asked))[0] == 403
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        async with hub.raw() as other:
            asked = request(f"{BASE}/x", known, header, *upgrade, host=OWN)
            assert (await other.ask(asked))[0] == 403
        # Somebody follows a link: the hub sees to it, as if there were no cookie.
        status, headers, _ = await raw.ask(request(f"{BASE}/x", known, header, *PAGE, host=OWN))
        if header.startswith("Sec"):
            assert (status, headers["location"]) == (303, f"http://{hub.page}{BASE}/x")
        else:
            assert status == 403
        own = f"Origin: http://{OWN}"
        assert (await raw.ask(request(f"{BASE}/x", known, own, host=OWN)))[0] == 200
    assert echo.requests == 1


async def test_no_cookie_opens_an_action_server(hub: ProxyHub) -> None:
    """It has no pages: what a browser sends there, somebody else's page has it send."""
    async with hub.echo(SANDBOX) as echo, hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        own = (await enter(hub, raw, cookie))[0].partition(";")[0]
        for given in (cookie, own, f"{cookie}; {own}"):
            for headers in ((), PAGE):
                for host in (hub.page, "127.0.0.1"):
                    asked = request(
                        f"{SANDBOX.path}/alive", f"Cookie: {given}", *headers, host=host
                    )
                    assert (await raw.ask(asked))[0] == 401
        assert echo.requests == 0
        assert (await raw.ask(request(f"{SANDBOX.path}/alive", token=ADMIN)))[0] == 200


async def test_a_session_page_is_never_served_on_the_hubs_origin(
    hub: ProxyHub,
) -> None:
    async with hub.echo() as vscode, hub.echo(APP, is_sandboxed=False) as app, hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        for path in (BASE, APP.path):
            for navigation in (PAGE, ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: embed")):
                for token in ("", ADMIN):
                    asked = request(
                        f"{path}/", f"Cookie: {cookie}", *navigation, host=hub.page, token=token
                    )
                    status, headers, _ = await raw.ask(asked)
                    assert status in (303, 401)
                    if status == 303:
                        assert headers["location"].startswith(f"http://{OWN}/_bascule/enter?")
            asked = request(f"{path}/x.js", f"Cookie: {cookie}", host=hub.page)
            assert (await raw.ask(asked))[0] == 401
        assert (vscode.requests, app.requests) == (0, 0)
        # Programs have their token, and no name below localhost.
        assert (await raw.ask(request(f"{BASE}/", "Accept: text/html", token=ADMIN)))[0] == 200


@pytest.mark.parametrize(
    "hosts",
    [
        ("127.0.0.1", "evil.example"),
        ("evil.example", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("localhost:1@evil.example",),
        ("localhost:evil.example",),
        ("127.0.0.1:1:2",),
        ("[::1]evil.example",),
        ("localhost/evil.example",),
        (),
    ],
)
async def test_an_ambiguous_host_header_is_rejected(hub: ProxyHub, hosts: tuple[str, ...]) -> None:
    for path in ("/health", "/", "/sign-in", "/docs", "/api/sessions", f"{BASE}/"):
        lines = [f"GET {path} HTTP/1.1", *(f"Host: {host}" for host in hosts)]
        lines += [f"Authorization: Bearer {ADMIN}", "", ""]
        async with hub.echo(), hub.raw() as raw:
            status, _, _ = await raw.ask("\r\n".join(lines).encode())
            assert status == 400, path


async def test_a_host_longer_than_dns_allows_is_rejected_and_not_cached(hub: ProxyHub) -> None:
    """The caches have hosts as keys, and anybody can fill them without signing in."""
    origins = hub.hub.proxy.access_control.origins
    for path in ("/health", f"{BASE}/"):
        async with hub.echo(), hub.raw() as raw:
            status, _, _ = await raw.ask(request(path, *PAGE, host="a" * 254))
            assert status == 400, path
    assert origins.session_host.cache_info().currsize == 0
    assert origins.page_origin.cache_info().currsize == 0


# Other ways to have origins -----------------------------------------------------------------


async def test_without_a_sessions_origin_remote_users_are_told_what_to_set() -> None:
    async with ProxyHub(public_url="https://hub.example") as hub, hub.echo() as echo:
        async with hub.raw() as raw:
            body = f"token={ADMIN}".encode()
            kind = "Content-Type: application/x-www-form-urlencoded"
            head = request(
                *("/sign-in", kind, f"Content-Length: {len(body)}"),
                method="POST",
                host="hub.example",
            )
            _, headers, _ = await raw.ask(head + body)
            known = f"Cookie: {headers['set-cookie'].partition(';')[0]}"
            asked = request(f"{BASE}/", known, *PAGE, host="hub.example")
            status, _, page = await raw.ask(asked)
            assert (status, b"sessions_origin" in page) == (503, True)
        assert echo.requests == 0


async def test_on_a_shared_port_a_cookie_opens_only_its_own_session() -> None:
    """What a second port keeps apart, and what it does not, is in docs/security.md."""
    settings = {"public_url": "https://hub.example", "sessions_origin": "https://hub.example:8443"}
    other = SessionEndpoint("vscode", OTHER)
    async with ProxyHub(**settings) as hub, hub.echo(), hub.echo(other) as others:
        async with hub.raw() as raw:
            own, shared = "hub.example", "hub.example:8443"
            body = f"token={ADMIN}".encode()
            kind = "Content-Type: application/x-www-form-urlencoded"
            size = f"Content-Length: {len(body)}"
            for host in (shared, own):
                asked = request("/sign-in", kind, size, method="POST", host=host)
                status, headers, _ = await raw.ask(asked + body)
                assert status == (200 if host == own else 404)
            cookie = headers["set-cookie"].partition(";")[0]
            known = f"Cookie: {cookie}"
            _, headers, _ = await raw.ask(request(f"{BASE}/", known, *PAGE, host=own))
            start = f"https://{shared}"
            assert headers["location"].startswith(f"{start}/_bascule/enter?code=")
            path = headers["location"].removeprefix(start)
            _, headers, page = await raw.ask(request(path, *PAGE, host=shared))
            given = f"{known}; {headers['set-cookie'].partition(';')[0]}"
            assert (await raw.ask(request(refresh_of(page), given, *PAGE, host=shared)))[0] == 303
            assert (await raw.ask(request(f"{BASE}/", given, host=shared)))[0] == 200
            assert (await raw.ask(request(f"{other.path}/", given, host=shared)))[0] == 401
        assert others.requests == 0


async def test_on_the_hubs_own_origin_a_session_cannot_choose_its_opener_policy() -> None:
    async with ProxyHub(sessions_origin="hub") as hub, hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        given = '[["Cross-Origin-Opener-Policy","same-origin"]]'.replace('"', "%22")
        target = f"{BASE}/headers?set={given}"
        asked = request(target, f"Cookie: {cookie}", *PAGE, host=hub.page)
        status, headers, _ = await raw.ask(asked)
        assert status == 200
        assert "cross-origin-opener-policy" not in headers


# Who listens --------------------------------------------------------------------------------


def test_a_free_port_is_bound_on_both_loopback_addresses() -> None:
    socks = bound_pair("127.0.0.1", 0, who="The test")
    try:
        names = {sock.getsockname()[:2] for sock in socks}
        port = socks[0].getsockname()[1]
        assert names == {("127.0.0.1", port), ("::1", port)}
    finally:
        for sock in socks:
            sock.close()


async def test_a_hub_does_not_start_if_another_program_listens_on_its_ipv6_loopback() -> None:
    """Browsers may try ::1 first for names below localhost."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidSetting, match=r"127\.0\.0\.1 and \[::1\]"):
            async with Hub(HubSettings(admin_token=ADMIN, port=port)):
                pass


async def test_the_hub_answers_on_both_loopback_addresses(hub: ProxyHub) -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as sock:
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, (address, hub.port))
            await loop.sock_sendall(sock, request("/health", host=f"localhost:{hub.port}"))
            assert b" 200 OK" in await loop.sock_recv(sock, 1000)


async def test_a_code_for_a_url_with_a_token_redirects_to_the_session(hub: ProxyHub) -> None:
    token = await hub.token("s", "session", session_id=SESSION)
    async with hub.echo(), hub.raw() as raw:
        framed = ("Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: cross-site", "Accept: text/html")
        target = f"{BASE}/?tkn={token}&folder=/w"
        _, headers, _ = await raw.ask(request(target, *framed))
        given, there = await arrive(raw, headers["location"])
        assert there == f"{BASE}/?folder=%2Fw"
        assert given.startswith(f"__Host-Http-bascule-{SESSION}=")
