"""Requests that two servers could read differently never reach a second one."""

from __future__ import annotations

import json

import pytest

from tests.hub.serving import ADMIN

from .targets import SESSION, VSCODE, ProxyHub, request

BASE = VSCODE.path
HIDDEN = f"GET {BASE}/hidden HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"
START = f"POST {BASE}/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ADMIN}\r\n"


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: \r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "X: y\n",
        "X: y\nTransfer-Encoding: chunked\r\n",
        "X: y\rTransfer-Encoding: chunked\r\n",
        "X: a\0b\r\n",
        "Host: elsewhere\r\n",
        "Host: 127.0.0.1\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n",
    ],
)
async def test_an_ambiguous_request_head_is_rejected_and_the_connection_closed(
    hub: ProxyHub, head: str
) -> None:
    async with hub.echo() as target, hub.raw() as raw:
        status, _, _ = await raw.ask((f"{START}{head}\r\n0\r\n\r\n{HIDDEN}").encode("latin-1"))
        assert status == 400
        assert await raw.is_closed()
    assert target.requests == 0


@pytest.mark.parametrize(
    "chunk",
    ["zz\r\n", "0x5\r\nhello\r\n", "5\nhello\r\n", "5\r\nhello!\r\n", "-5\r\n", "1" * 17 + "\r\n"],
)
async def test_a_bad_chunk_aborts_the_request_before_it_looks_complete(
    hub: ProxyHub, chunk: str
) -> None:
    async with hub.echo() as target, hub.raw() as raw:
        head = f"{START}Transfer-Encoding: chunked\r\n\r\n"
        status, _, _ = await raw.ask(f"{head}3\r\nabc\r\n{chunk}0\r\n\r\n{HIDDEN}".encode())
        assert status == 400
        assert await raw.is_closed()
    assert target.taken in (0, 3)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1, evil.example", "127.0.0.1:80:80", "127.0.0.1/x", "a@127.0.0.1", "[::1]x", ""],
)
async def test_an_invalid_host_header_is_rejected(hub: ProxyHub, host: str) -> None:
    async with hub.echo() as echo, hub.raw() as raw:
        assert (await raw.ask(request(f"{BASE}/", host=host, token=ADMIN)))[0] == 400
    assert echo.requests == 0


async def test_a_trailer_is_not_treated_as_a_header(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        head = f"{START}Transfer-Encoding: chunked\r\nTrailer: x-late\r\n\r\n"
        _, _, body = await raw.ask(
            f"{head}3\r\nabc\r\n0\r\nX-Late: y\r\nCookie: a=b\r\n\r\n".encode()
        )

    seen = dict(json.loads(body)["headers"])
    assert {"x-late", "cookie", "trailer"}.isdisjoint(seen)


async def test_a_trailer_is_not_treated_as_a_header_in_hub_calls(hub: ProxyHub) -> None:
    head = "POST /api/vscode/pair HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with hub.raw() as raw:
        body = f"0\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"
        assert (await raw.ask((head + body).encode()))[0] == 401


@pytest.mark.parametrize(
    "target",
    [
        f"/vscode/{SESSION}/../{SESSION}/x",
        f"/vscode/{SESSION}/%2e%2e/x",
        f"/vscode/{SESSION}/..%2fx",
        f"/vscode/{SESSION}/a%5c..%5cx",
        f"http://127.0.0.1/vscode/{SESSION}/",
        f"http://127.0.0.1{BASE}/../x",
    ],
)
async def test_a_request_target_with_dot_segments_is_rejected(hub: ProxyHub, target: str) -> None:
    async with hub.echo() as echo, hub.raw() as raw:
        assert (await raw.ask(request(target, token=ADMIN)))[0] == 400
    assert echo.requests == 0


async def test_hop_by_hop_headers_and_lookalikes_are_not_forwarded(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        head = ("Connection: keep-alive, X-Secret", "X-Secret: 1", "X_Forwarded_For: 6.6.6.6")
        more = ("X-Real_IP: 6.6.6.6", "Forwarded: for=6.6.6.6", "TE: trailers", "X-Kept: 1")
        _, _, body = await raw.ask(request(f"{BASE}/", *head, *more, token=ADMIN))

    pairs = json.loads(body)["headers"]
    names = [name for name, _ in pairs]
    assert "6.6.6.6" not in [value for _, value in pairs]
    assert {"x-secret", "te", "forwarded", "x_forwarded_for"}.isdisjoint(names)
    assert names.count("x-real-ip") == names.count("host") == 1
    assert "x-kept" in names


async def test_an_upgrade_to_another_protocol_is_not_forwarded(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        head = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
        status, _, body = await raw.ask(request(f"{BASE}/x", *head, token=ADMIN))

    assert status == 200
    assert {"upgrade", "http2-settings"}.isdisjoint(dict(json.loads(body)["headers"]))
