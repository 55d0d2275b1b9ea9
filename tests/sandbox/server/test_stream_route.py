"""`/stream` over a WebSocket and as server-sent events."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bascule.link.sse import EventReader
from bascule.sandbox.server.server import SandboxServer
from bascule.wire import from_json
from tests.sandbox.serving import KEY, Client, serving


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SandboxServer]:
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


@asynccontextmanager
async def websocket(
    server: SandboxServer, query: str = "", **headers: str
) -> AsyncIterator[ClientConnection]:
    url = server.url.replace("http", "ws") + "/stream" + query
    sent = {"X-Session-API-Key": KEY, **{k.replace("_", "-"): v for k, v in headers.items()}}
    async with connect(url, additional_headers=sent, proxy=None) as connection:
        yield connection


async def receive(connection: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = from_json(await connection.recv())
    return frame


@asynccontextmanager
async def events(client: Client, query: str = "") -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    async def read() -> AsyncIterator[tuple[str, Any]]:
        reader = EventReader()
        async for chunk in reply.chunks():
            for event in reader.feed(chunk):
                yield event.name, from_json(event.data)

    async with client.stream("GET", "/stream" + query, timeout=10) as reply:
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/event-stream"
        yield read()


async def test_a_websocket_gets_output_of_all_shells(server: SandboxServer, client: Client) -> None:
    async with websocket(server) as connection:
        await client.act("run", command="echo one")
        first = await receive(connection)
        assert (first["event"], first["shell"], first["offset"]) == ("output", "main", 0)
        assert b64decode(first["data"]) == b"one\n"
        await client.act("run", command="echo two", shell="other")
        assert (await receive(connection))["shell"] == "other"


async def test_output_comes_before_the_command_ends(server: SandboxServer, client: Client) -> None:
    async with websocket(server) as connection:
        running = asyncio.create_task(client.act("run", command="echo up; read word"))
        assert b64decode((await receive(connection))["data"]) == b"up\n"
        assert not running.done()
        await client.act("run", command="", is_input=True)
        await client.post("/shells/main/interrupt", {})
        await running


async def test_a_websocket_resumes_at_an_offset(server: SandboxServer, client: Client) -> None:
    await client.act("run", command="echo before")
    async with websocket(server, "?shell=main&start=3") as connection:
        frame = await receive(connection)
        assert (frame["offset"], b64decode(frame["data"])) == (3, b"ore\n")


@pytest.mark.parametrize(
    "headers", [{"X_Session_API_Key": "wrong"}, {"Origin": "https://evil.example"}]
)
async def test_a_websocket_is_refused_before_it_is_accepted(
    server: SandboxServer, headers: dict[str, str]
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with websocket(server, **headers):
            pass
    assert refused.value.response.status_code == 403
    assert from_json(refused.value.response.body or b"")["error"]["code"] == "access.denied"


async def test_a_websocket_on_another_path_is_rejected(server: SandboxServer) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with websocket(server, "/nowhere"):
            pass
    assert refused.value.response.status_code == 400


async def test_a_websocket_with_a_bad_query_is_refused(server: SandboxServer) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with websocket(server, "?start=soon"):
            pass
    assert refused.value.response.status_code == 400


async def test_messages_from_a_stream_websocket_are_ignored(
    server: SandboxServer, client: Client
) -> None:
    async with websocket(server) as connection:
        await connection.send("rm -rf /")
        await client.act("run", command="echo fine")
        assert b64decode((await receive(connection))["data"]) == b"fine\n"


async def test_stopping_sends_a_close_frame_to_websockets(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, websocket(server) as connection:
        async with asyncio.timeout(5):
            await server.aclose()
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code in (1001, 1012)


async def test_server_sent_events_carry_the_same_frames(client: Client) -> None:
    async with events(client) as stream:
        await client.act("run", command="echo one")
        assert await anext(stream) == ("output", {"shell": "main", "offset": 0, "data": "b25lCg=="})


async def test_server_sent_events_resume_at_an_offset(client: Client) -> None:
    await client.act("run", command="seq 1 10")
    async with events(client, "?start=15") as stream:
        _, frame = await anext(stream)
        assert (frame["offset"], b64decode(frame["data"])) == (15, b"\n9\n10\n")


@pytest.mark.slow
async def test_a_slow_event_reader_gets_a_gap(tmp_path: Path) -> None:
    async with serving(tmp_path, stream_lag=64 << 10) as server, Client(server.url) as client:
        async with events(client) as stream:
            await client.act("run", command="seq 1 2000000", timeout=60)
            position, skipped = 0, 0
            async for name, frame in stream:
                assert frame["offset"] == position
                if name == "skipped":
                    skipped += frame["end"] - frame["offset"]
                    position = frame["end"]
                else:
                    position += len(b64decode(frame["data"]))
                if position == 14_888_896:
                    break
        assert skipped > 0
        missed = await client.request("GET", "/shells/main/log?start=0&end=6")
        assert missed.body == b"1\n2\n3\n"


async def test_stopping_ends_event_streams(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as server,
        Client(server.url) as client,
        events(client) as stream,
    ):
        async with asyncio.timeout(5):
            await server.aclose()
        assert [frame async for frame in stream] == []


async def test_a_disconnected_stream_reader_is_removed(
    server: SandboxServer, client: Client
) -> None:
    async with Client(server.url) as other, events(other):
        pass
    await other.aclose()
    async with events(client) as stream:
        await client.act("run", command="echo fine")
        assert (await anext(stream))[0] == "output"


async def test_an_action_can_be_answered_as_an_event_stream(client: Client) -> None:
    body = b'{"action": {"action": "run", "args": {"command": "echo one; echo two"}}}'
    headers = {"Accept": "text/event-stream"}
    async with client.stream("POST", "/execute_action", body=body, headers=headers) as reply:
        reader = EventReader()
        seen = list(reader.feed(await reply.read()))
    *output, last = seen
    assert {event.name for event in output} == {"output"}
    data = b"".join(b64decode(from_json(event.data)["data"]) for event in output)
    assert data == b"one\ntwo\n"
    assert last.name == "observation"
    assert from_json(last.data)["content"] == "one\ntwo\n"
