"""Targets that lie: what they send harms nobody but themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path

import pytest

from bascule.hub.proxy import SessionEndpoint, UpstreamServer
from tests.hub.serving import ADMIN

from .targets import VSCODE, ProxyHub, answering, echo_target, raw_target, request

BASE = VSCODE.path
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FORGED = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"x" * 100_000,
    ],
)
async def test_a_response_that_is_not_http_becomes_an_error_page(
    hub: ProxyHub, answer: bytes
) -> None:
    async with raw_target(answering(answer)) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        status, _, body = await raw.ask(request(f"{BASE}/", token=ADMIN))
        assert (status, json.loads(body)["code"]) == (502, "target.broken")
        assert (await raw.ask(request("/health")))[0] == 200


@pytest.mark.parametrize(
    "answer",
    [
        OK + FORGED,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + FORGED,
        b"HTTP/1.1 204 No Content\r\n\r\n" + FORGED,
        b"HTTP/1.1 304 Not Modified\r\n\r\n" + FORGED,
    ],
)
async def test_a_forged_second_response_never_reaches_another_request(
    hub: ProxyHub, answer: bytes
) -> None:
    async with raw_target(answering(answer, answer)) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        for _ in range(3):
            assert b"forged" not in (await raw.ask(request(f"{BASE}/", token=ADMIN)))[2]
            assert b"version" in (await raw.ask(request("/health")))[2]


async def test_an_unsolicited_response_closes_the_connection(hub: ProxyHub) -> None:
    closed = asyncio.Event()
    may_forge = asyncio.Event()
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await may_forge.wait()
        writer.write(FORGED)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()

    async with raw_target(handle) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        assert (await raw.ask(request(f"{BASE}/", token=ADMIN)))[2] == b"ok"
        may_forge.set()
        await asyncio.wait_for(closed.wait(), 10)
        assert (await raw.ask(request(f"{BASE}/", token=ADMIN)))[2] == b"ok"
    assert connections == 2


@pytest.mark.parametrize(
    "begun",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nshort",
    ],
)
async def test_a_truncated_response_does_not_look_complete(hub: ProxyHub, begun: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(begun)

    async with raw_target(handle) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await raw.ask(request(f"{BASE}/", token=ADMIN))


async def test_a_bad_chunk_after_good_ones_cuts_the_connection(hub: ProxyHub) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        await writer.drain()
        await read.wait()
        writer.write(b"0\n\n" + FORGED)
        await reader.read()

    read = asyncio.Event()
    async with raw_target(handle) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        raw.writer.write(request(f"{BASE}/", token=ADMIN))
        await asyncio.wait_for(raw.reader.readuntil(b"ok\r\n"), 10)
        read.set()
        assert await raw.is_closed()


async def test_a_target_that_disconnects_at_once_is_reported(hub: ProxyHub) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with raw_target(handle) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        status, _, body = await raw.ask(request(f"{BASE}/", token=ADMIN))
        assert (status, json.loads(body)["code"]) == (502, "target.unreachable")
        assert "without an answer" in json.loads(body)["message"]


async def test_a_targets_cookies_and_policies_do_not_affect_the_hub(hub: ProxyHub) -> None:
    given = [
        ["Set-Cookie", "a=1; Path=/; Domain=localhost"],
        ["Set-Cookie", "__Host-bascule=stolen; Path=/; Secure"],
        ["Clear-Site-Data", "*"],
        ["Service-Worker-Allowed", "/"],
        ["Location", "/elsewhere"],
    ]
    async with hub.echo(), hub.raw() as raw:
        query = json.dumps(given, separators=(",", ":")).replace(" ", "%20")
        query = query.replace('"', "%22")
        status, headers, _ = await raw.ask(
            request(f"{BASE}/headers?status=302&set={query}", token=ADMIN)
        )

    assert status == 302
    assert headers["set-cookie"] == f"a=1; Path={BASE}/"
    assert headers["location"] == f"{BASE}/elsewhere"
    assert {"clear-site-data", "service-worker-allowed"}.isdisjoint(headers)


# Sockets ------------------------------------------------------------------------------------


async def test_a_target_on_a_unix_socket_is_reached(hub: ProxyHub, tmp_path: Path) -> None:
    async with hub.echo(path=tmp_path / "s" / "vscode.sock", uid=os.getuid()), hub.raw() as raw:
        assert (await raw.ask(request(f"{BASE}/x", token=ADMIN)))[0] == 200


async def test_a_symlink_in_place_of_a_socket_is_not_followed(
    hub: ProxyHub, tmp_path: Path
) -> None:
    async with echo_target(tmp_path / "victim" / "vscode.sock") as (victim, echo):
        planted = tmp_path / "planted.sock"
        planted.symlink_to(victim.socket or "")
        hub.open(VSCODE, UpstreamServer(socket=planted))
        async with hub.raw() as raw:
            status, _, body = await raw.ask(request(f"{BASE}/", token=ADMIN))
            assert (status, json.loads(body)["code"]) == (502, "target.unreachable")
    assert echo.requests == 0


async def test_the_proxy_does_not_connect_to_a_server_of_another_user(
    hub: ProxyHub, tmp_path: Path
) -> None:
    async with hub.echo(path=tmp_path / "s" / "v.sock", uid=54321) as echo, hub.raw() as raw:
        status, _, body = await raw.ask(request(f"{BASE}/", token=ADMIN))
        assert status == 502
        assert "another user" in json.loads(body)["message"]
        assert str(tmp_path).encode() not in body
    assert echo.requests == 0


async def test_a_file_in_place_of_a_socket_is_reported(hub: ProxyHub, tmp_path: Path) -> None:
    file = tmp_path / "file.sock"
    file.write_text("")
    hub.open(VSCODE, UpstreamServer(socket=file))
    async with hub.raw() as raw:
        _, _, body = await raw.ask(request(f"{BASE}/", token=ADMIN))
    assert "is not a socket" in json.loads(body)["message"]
    assert str(tmp_path).encode() not in body


async def test_a_socket_without_a_listener_is_reported(hub: ProxyHub, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    hub.open(
        SessionEndpoint("apps", VSCODE.session_id, 1), UpstreamServer(socket=tmp_path / "dead.sock")
    )
    async with hub.raw() as raw:
        _, _, body = await raw.ask(request(f"/apps/{VSCODE.session_id}-1/", token=ADMIN))
    assert "Connections are refused" in json.loads(body)["message"]
