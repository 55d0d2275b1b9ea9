"""Requests and answers arrive whole, in order, and no faster than they are read."""

from __future__ import annotations

import asyncio
import io
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from bascule.core.actions import CmdRun
from bascule.core.observations import CmdOutput
from bascule.hub.proxy import SessionEndpoint, UpstreamServer
from bascule.runtime.remote import RemoteRuntime
from tests.hub.serving import ADMIN
from tests.sandbox.serving import KEY, address, serving

from .targets import (
    APP,
    OTHER,
    PIECE,
    SESSION,
    VSCODE,
    ProxyHub,
    Raw,
    answering,
    raw_target,
    request,
)

BASE = VSCODE.path
MEGABYTE = 1 << 20


@pytest.fixture
def bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {ADMIN}"}


async def test_a_target_gets_its_own_path_and_forwarding_headers(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        head = request(f"{BASE}/a%20b/c%2Fd?x=%0d", "X-Forwarded-For: 6.6.6.6", token=ADMIN)
        status, _, body = await raw.ask(head)

    told = json.loads(body)
    headers = dict(told["headers"])
    assert status == 200
    assert (told["path"], told["query"]) == ("/a%20b/c%2Fd", "x=%0d")
    assert headers["host"] == headers["x-forwarded-host"] == "127.0.0.1"
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["x-forwarded-proto"] == "http"
    assert headers["x-forwarded-prefix"] == BASE
    assert headers["x-forwarded-path"] == f"{BASE}/"
    assert headers["x-original-uri"] == f"{BASE}/a%20b/c%2Fd?x=%0d"
    assert "authorization" not in headers


async def test_a_target_with_a_base_path_gets_the_full_path(hub: ProxyHub) -> None:
    async with hub.echo(keeps_prefix=True), hub.raw() as raw:
        _, _, body = await raw.ask(request(f"{BASE}/x", token=ADMIN))

    assert json.loads(body)["path"] == f"{BASE}/x"


async def test_client_headers_are_replaced_by_those_of_the_target(hub: ProxyHub) -> None:
    place = SessionEndpoint("sandbox", SESSION)
    own = ((b"x-session-api-key", b"secret"),)
    async with hub.echo(place, headers=own), hub.raw() as raw:
        asked = request(f"{place.path}/alive", "X-Session-API-Key: mine", token=ADMIN)
        _, _, body = await raw.ask(asked)

    assert [v for k, v in json.loads(body)["headers"] if k == "x-session-api-key"] == ["secret"]


async def test_a_clients_action_server_key_is_replaced_and_never_forwarded(
    hub: ProxyHub,
) -> None:
    place, other = SessionEndpoint("sandbox", SESSION), SessionEndpoint("sandbox", OTHER)
    token = await hub.token("s", "session", session_id=SESSION)
    async with hub.echo(place), hub.echo(other), hub.echo(), hub.raw() as raw:
        key = f"X-Session-API-Key: {token}"
        status, _, body = await raw.ask(request(f"{place.path}/alive", key))
        assert (status, dict(json.loads(body)["headers"]).get("x-session-api-key")) == (200, None)
        assert (await raw.ask(request(f"{place.path}/alive", f"{key}x")))[0] == 401
        assert (await raw.ask(request(f"{other.path}/alive", key)))[0] == 404
        assert (await raw.ask(request(f"{BASE}/", key)))[0] == 401  # it is for action servers


async def test_a_runtime_works_through_the_hub_under_any_host_name(tmp_path: Path) -> None:
    place = SessionEndpoint("sandbox", SESSION)
    async with (
        serving(tmp_path) as server,
        ProxyHub(public_url="https://hub.example") as hub,
        hub.raw() as raw,
    ):
        own = ((b"x-session-api-key", KEY.encode()),)
        hub.open(place, UpstreamServer(port=address(server)[1], headers=own))
        token = await hub.token("s", "session", session_id=SESSION)
        async with RemoteRuntime(hub.url + place.path, token) as runtime:
            seen = await runtime.act(CmdRun(command="echo through"))
        assert isinstance(seen, CmdOutput)
        assert seen.content == "through\n"
        named = request(f"{place.path}/capabilities", host="hub.example", token=token)
        assert (await raw.ask(named))[0] == 200


async def test_one_connection_serves_hub_calls_and_proxied_requests(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        for _ in range(3):
            assert (await raw.ask(request("/api/vscode/instances", token=ADMIN)))[2] == b"[]"
            assert (await raw.ask(request(f"{BASE}/x", token=ADMIN)))[0] == 200
            assert (await raw.ask(request("/health")))[0] == 200


async def test_pipelined_requests_are_answered_in_their_order(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        paths = ["/health", f"{BASE}/one", f"{BASE}/two", "/health", f"{BASE}/three"]
        raw.writer.write(b"".join(request(path, token=ADMIN) for path in paths))
        answers = [json.loads((await raw.answer())[2]) for _ in paths]

    assert [a.get("path", a.get("status")) for a in answers] == [
        "ok",
        "/one",
        "/two",
        "ok",
        "/three",
    ]


async def test_plain_requests_reuse_a_keep_alive_connection(hub: ProxyHub) -> None:
    opened = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with raw_target(handle) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        for _ in range(5):
            assert (await raw.ask(request(f"{BASE}/", token=ADMIN)))[2] == b"ok"

    assert opened == 1


async def test_requests_that_cannot_reuse_a_connection_leave_at_most_one_idle(
    hub: ProxyHub, bearer: dict[str, str]
) -> None:
    async with hub.echo(), aiohttp.ClientSession(headers=bearer) as http:
        for _ in range(5):
            async with http.post(f"{hub.url}{BASE}/", data=b"some") as reply:
                assert reply.status == 200
                await reply.read()

    assert [len(each) for each in hub.hub.proxy.pool._idle.values()] == [1]


async def test_a_stale_keep_alive_connection_is_retried_transparently(hub: ProxyHub) -> None:
    """Each connection answers once and is closed by the time the next request is on its way."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")

    async with raw_target(handle) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        for _ in range(4):
            assert (await raw.ask(request(f"{BASE}/", token=ADMIN)))[0] == 200


@pytest.mark.parametrize("is_sized", [True, False])
async def test_a_large_response_arrives_complete(hub: ProxyHub, is_sized: bool) -> None:
    size = 5 * MEGABYTE + 7
    async with hub.echo(), hub.raw() as raw:
        query = f"n={size}" + ("&sized=1" if is_sized else "")
        _, headers, body = await raw.ask(request(f"{BASE}/bytes?{query}", token=ADMIN))

    assert body == (PIECE * (size // len(PIECE) + 1))[:size]
    assert ("content-length" in headers) is is_sized


@pytest.mark.parametrize("is_sized", [True, False])
async def test_a_large_request_arrives_complete(
    hub: ProxyHub, bearer: dict[str, str], is_sized: bool
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield PIECE

    body = io.BytesIO(PIECE * 80) if is_sized else pieces()
    async with (
        hub.echo(),
        aiohttp.ClientSession(headers=bearer) as client,
        client.post(f"{hub.url}{BASE}/up", data=body) as answer,
    ):
        assert (await answer.json())["size"] == 80 * len(PIECE)


async def test_a_response_that_ends_with_its_connection_gets_new_framing(hub: ProxyHub) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nhello")

    async with raw_target(handle) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        for _ in range(2):
            status, _, body = await raw.ask(request(f"{BASE}/", token=ADMIN))
            assert (status, body) == (200, b"hello")


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
    ],
)
async def test_answers_without_a_body_keep_the_connection(
    hub: ProxyHub, method: str, answer: bytes
) -> None:
    async with raw_target(answering(answer, answer)) as target, hub.raw() as raw:
        hub.open(VSCODE, target)
        for _ in range(2):
            asked = request(f"{BASE}/", method=method, token=ADMIN)
            status, _, body = await raw.ask(asked, is_head=True)
            assert (status, body) == (int(answer.split(b"HTTP/1.1 ")[-1][:3]), b"")


async def test_a_response_sent_before_the_request_body_is_forwarded(hub: ProxyHub) -> None:
    async with (
        raw_target(answering(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")) as target,
        hub.raw() as raw,
    ):
        hub.open(VSCODE, target)
        head = request(f"{BASE}/", "Content-Length: 1000000", method="POST", token=ADMIN)
        assert (await raw.ask(head))[::2] == (413, b"no")
        raw.writer.write(b"x" * 1_000_000)
        assert (await raw.ask(request("/health")))[0] == 200


async def test_a_client_that_expects_100_continue_gets_it(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        head = ("Content-Length: 5", "Expect: 100-continue")
        raw.writer.write(request(f"{BASE}/", *head, method="POST", token=ADMIN))
        assert (await raw.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        _, _, body = await raw.ask(b"hello")

    assert json.loads(body)["size"] == 5
    assert "expect" not in dict(json.loads(body)["headers"])


async def test_server_sent_events_are_forwarded_without_buffering(hub: ProxyHub) -> None:
    async with hub.echo() as target, hub.raw() as raw:
        raw.writer.write(request(f"{BASE}/events", token=ADMIN))
        async with asyncio.timeout(10):
            await raw.reader.readuntil(b"\r\n\r\n")
            for number in range(3):
                await raw.reader.readuntil(f"data: {number}\n\n\r\n".encode())
                target.is_open.set()
            raw.writer.transport.abort()
            await target.has_left.wait()


async def test_a_websocket_is_proxied_in_both_directions(
    hub: ProxyHub, bearer: dict[str, str]
) -> None:
    async with hub.echo() as target, aiohttp.ClientSession(headers=bearer) as client:
        headers = {"Origin": hub.url}
        async with client.ws_connect(f"{hub.url}{BASE}/ws", headers=headers) as socket:
            path, seen = await socket.receive_json()
            assert (path, seen["origin"]) == ("/ws", hub.url)
            assert "authorization" not in seen
            for size in (0, 1, 70_000, 3 * MEGABYTE):
                await socket.send_bytes(b"x" * size)
                assert len(await socket.receive_bytes()) == size
        await asyncio.wait_for(target.has_left.wait(), 10)


async def test_frames_sent_with_the_handshake_are_not_lost(hub: ProxyHub) -> None:
    frame = b"\x82\x85\0\0\0\0hello"
    head = request(
        f"{BASE}/ws",
        *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        token=ADMIN,
    )
    async with hub.echo(), hub.raw() as raw:
        raw.writer.write(head + frame)
        async with asyncio.timeout(10):
            assert (await raw.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
            await raw.reader.readuntil(b"\x82\x05hello")


async def test_a_rejected_websocket_gets_the_targets_response(
    hub: ProxyHub, bearer: dict[str, str]
) -> None:
    async with hub.echo(), aiohttp.ClientSession(headers=bearer) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{hub.url}{BASE}/refused")

    assert refused.value.status == 403


async def test_a_websocket_of_the_hub_works_after_a_request_for_a_target(hub: ProxyHub) -> None:
    head = request(
        "/socket.io/?EIO=4&transport=websocket",
        *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        token=ADMIN,
    )
    async with hub.echo(), hub.raw() as raw:
        assert (await raw.ask(request(f"{BASE}/", token=ADMIN)))[0] == 200
        raw.writer.write(head)
        async with asyncio.timeout(10):
            assert (await raw.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")


# Slow readers -------------------------------------------------------------------------------


async def _settled(read: Callable[[], int]) -> int:
    """The value once it stands still: what can be held on the way is full.

    There is no event for nothing happening, so this looks until it sees the same twice.
    """
    last = -1
    while (now := read()) != last or now == 0:
        last = now
        await asyncio.sleep(0.1)
    return last


@pytest.mark.slow
async def test_a_client_that_does_not_read_applies_backpressure_to_the_target(
    hub: ProxyHub,
) -> None:
    async with hub.echo() as target, hub.raw() as raw:
        raw.reader._transport.pause_reading()  # type: ignore[attr-defined]
        raw.writer.write(request(f"{BASE}/bytes?n={1 << 30}", token=ADMIN))
        tracemalloc.start()
        sent = await _settled(lambda: target.taken)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert sent < 32 * MEGABYTE
    assert held < 8 * MEGABYTE


@pytest.mark.slow
async def test_a_target_that_does_not_read_applies_backpressure_to_the_client(
    hub: ProxyHub,
) -> None:
    async with hub.echo() as target, hub.raw() as raw:
        target.is_open.clear()
        size = 1 << 30
        head = request(f"{BASE}/", f"Content-Length: {size}", method="POST", token=ADMIN)
        raw.writer.write(head)
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < size:
                raw.writer.write(PIECE)
                await raw.writer.drain()
                sent += len(PIECE)

        sending = asyncio.create_task(send())
        tracemalloc.start()
        stuck = await _settled(lambda: sent)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        target.is_open.set()

    assert stuck < 32 * MEGABYTE
    assert held < 8 * MEGABYTE


@pytest.mark.slow
async def test_a_client_that_leaves_a_response_unread_is_disconnected() -> None:
    async with ProxyHub(stall_timeout=0.2) as hub, hub.echo() as target, hub.raw() as raw:
        raw.reader._transport.pause_reading()  # type: ignore[attr-defined]
        raw.writer.write(request(f"{BASE}/bytes?n={1 << 30}", token=ADMIN))
        await _settled(lambda: target.taken)
        async with asyncio.timeout(10):
            while hub.hub.proxy.live:
                await asyncio.sleep(0.02)


# What is not there --------------------------------------------------------------------------


async def test_an_unreachable_target_is_reported(hub: ProxyHub, tmp_path: Path) -> None:
    hub.open(VSCODE, UpstreamServer(socket=tmp_path / "none.sock"))
    hub.open(APP, UpstreamServer(port=1))
    async with hub.raw() as raw:
        for place, said in ((VSCODE, "(none)"), (APP, "refused")):
            status, _, body = await raw.ask(request(f"{place.path}/", token=ADMIN))
            assert (status, json.loads(body)["code"]) == (502, "target.unreachable")
            assert said in json.loads(body)["message"]
            assert str(tmp_path) not in json.loads(body)["message"]
        status, headers, body = await raw.ask(request(f"{BASE}/", "Accept: text/html", token=ADMIN))
        assert (status, headers["content-type"]) == (502, "text/html; charset=utf-8")
        assert b"has not started, or has ended" in body


async def test_a_target_that_does_not_answer_times_out() -> None:
    async with (
        ProxyHub(answer_timeout=0.05) as hub,
        raw_target(answering()) as target,
        hub.raw() as raw,
    ):
        hub.open(VSCODE, target)
        status, _, body = await raw.ask(request(f"{BASE}/", token=ADMIN))
        assert (status, json.loads(body)["code"]) == (504, "target.timed_out")
        assert (await raw.ask(request("/health")))[0] == 200


async def test_a_client_disconnect_cancels_its_proxied_request(hub: ProxyHub) -> None:
    left = asyncio.Event()
    came = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        came.set()
        try:
            await reader.read()
        finally:
            left.set()

    async with raw_target(handle) as target:
        hub.open(VSCODE, target)
        async with hub.raw() as raw:
            raw.writer.write(request(f"{BASE}/", token=ADMIN))
            await asyncio.wait_for(came.wait(), 10)
        await asyncio.wait_for(left.wait(), 10)


@pytest.mark.slow
async def test_a_stalled_request_body_times_out() -> None:
    async with ProxyHub(request_timeout=0.2) as hub, hub.echo(), hub.raw() as raw:
        head = request(f"{BASE}/", "Content-Length: 10", method="POST", token=ADMIN)
        assert (await raw.ask(head + b"12345"))[0] == 408
        assert await raw.is_closed()


@pytest.mark.parametrize("size", [1 << 10, 100 << 10])
async def test_a_request_head_past_the_limit_is_rejected_even_in_one_piece(size: int) -> None:
    async with ProxyHub(max_head=1000) as hub, hub.echo() as echo, hub.raw() as raw:
        asked = request(f"{BASE}/", f"X-Long: {'x' * size}", token=ADMIN)
        assert (await raw.ask(asked))[0] == 431
        assert await raw.is_closed()
    assert echo.requests == 0


async def test_data_after_a_rejected_request_is_not_forwarded(hub: ProxyHub) -> None:
    async with hub.echo() as echo, hub.raw() as raw:
        bad = request(f"{BASE}/../x", token=ADMIN)
        good = request(f"{BASE}/", token=ADMIN)
        for rest in (good, good + b"GET / HTTP/1.1\r\n"):
            async with hub.raw() as raw:
                assert (await raw.ask(bad + rest))[0] == 400
                assert await raw.is_closed()
    assert echo.requests == 0


async def test_an_invalid_pipelined_request_does_not_disturb_the_response_before_it() -> None:
    async with ProxyHub(max_head=1000) as hub, hub.echo() as echo, hub.raw() as raw:
        echo.is_open.clear()
        asked = request(f"{BASE}/", "Content-Length: 1", method="POST", token=ADMIN) + b"x"
        raw.writer.write(asked + b"GET / HTTP/1.1\r\nX-Long: ")
        raw.writer.write(b"x" * 5000)
        await raw.writer.drain()
        echo.is_open.set()
        assert (await raw.answer())[0] == 200
        assert await raw.is_closed()


async def test_a_body_past_the_limit_is_refused_declared_or_not() -> None:
    async with ProxyHub(max_upload=1000) as hub, hub.echo():
        for head, body in (
            ("Content-Length: 1001", b"x" * 1001),
            ("Transfer-Encoding: chunked", b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n"),
        ):
            async with hub.raw() as raw:
                asked = request(f"{BASE}/", head, method="POST", token=ADMIN)
                assert (await raw.ask(asked + body))[0] == 413
                assert await raw.is_closed()


async def test_ending_a_session_closes_only_its_tunnels(
    hub: ProxyHub, bearer: dict[str, str]
) -> None:
    other = SessionEndpoint("vscode", "otherone12345678")
    async with (
        hub.echo(),
        hub.echo(other),
        aiohttp.ClientSession(headers=bearer) as client,
        client.ws_connect(f"{hub.url}{BASE}/ws") as one,
        client.ws_connect(f"{hub.url}{other.path}/ws") as two,
    ):
        await one.receive()
        await two.receive()
        hub.hub.proxy.end_session(SESSION)
        ended = await asyncio.wait_for(one.receive(), 10)
        assert ended.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        await two.send_bytes(b"still here")
        assert await two.receive_bytes() == b"still here"


async def test_the_hub_stops_at_once_with_tunnels_open(bearer: dict[str, str]) -> None:
    async with (
        ProxyHub(stop_grace=60) as hub,
        hub.echo(),
        aiohttp.ClientSession(headers=bearer) as client,
        client.ws_connect(f"{hub.url}{BASE}/ws") as socket,
    ):
        await socket.receive()
        await asyncio.wait_for(hub.stop(), 10)


async def test_http_1_0_clients_are_answered_and_disconnected(hub: ProxyHub) -> None:
    async with hub.echo(), Raw(hub.port) as raw:
        head = f"GET {BASE}/bytes?n=10 HTTP/1.0\r\nHost: localhost\r\n"
        raw.writer.write(f"{head}Authorization: Bearer {ADMIN}\r\n\r\n".encode())
        answer = await asyncio.wait_for(raw.reader.read(), 10)

    head_, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head_
    assert body == PIECE[:10]
