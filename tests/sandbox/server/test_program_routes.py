"""`/programs`: the WebSocket of a program, and clients that send nonsense or vanish."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bascule.sandbox.server.server import SandboxServer
from bascule.wire import from_json, to_json
from bascule.wire.programs import FrameKind, decode_exit, decode_frame
from tests.contracts.programs import ended
from tests.sandbox.serving import KEY, Client, address, decoded, serving


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SandboxServer]:
    async with serving(tmp_path, max_message=1 << 20) as server:
        yield server


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


async def start(client: Client, *argv: str, **fields: Any) -> Any:
    status, answer = await client.post("/programs", {"argv": argv, **fields})
    assert status == 200, answer
    return answer


def socket(server: SandboxServer, program_id: str, query: str = "", key: str = KEY) -> connect:
    url = f"{server.url.replace('http', 'ws')}/programs/{program_id}/socket{query}"
    headers = {"X-Session-API-Key": key}
    return connect(url, additional_headers=headers, proxy=None, max_size=None)


async def test_a_websocket_has_stdin_and_both_streams(
    server: SandboxServer, client: Client
) -> None:
    program = await start(client, "sh", "-c", "echo up; cat; echo end >&2; exit 4")
    async with socket(server, program["id"]) as connection:
        assert (await _frame(connection)).data == b"up\n"
        await connection.send(b"typed")
        assert (await _frame(connection)).data == b"typed"
        await connection.send('{"close_stdin": true}')
        frame = await _frame(connection)
        assert (frame.kind, frame.position, frame.data) == (FrameKind.STDERR, 0, b"end\n")
        last = await _frame(connection)
        assert last.kind is FrameKind.EXITED
        assert decode_exit(last).exit_code == 4
        with pytest.raises(ConnectionClosed):
            await connection.recv()
        assert connection.close_code == 1000
    async with socket(server, program["id"], "?stdout=4") as connection:
        assert (await _frame(connection)).data == b"yped"


async def test_unknown_messages_are_answered_with_an_error(
    server: SandboxServer, client: Client
) -> None:
    program = await start(client, "sh", "-c", "exec <&-; echo up; exec sleep 1000")
    async with socket(server, program["id"]) as connection:
        await _frame(connection)
        for message, code in (
            ("not JSON", "action.invalid"),
            ("[]", "request.invalid"),
            ('{"signal": 9}', "request.invalid"),
            ('{"signal": "SIGNOTHING"}', "request.invalid"),
            ('{"terminal": {"columns": 1, "rows": 1}}', "request.invalid"),
            ('{"terminal": {"columns": 1, "other": 1}}', "request.invalid"),
            (b"to a closed stdin", "program.input_closed"),
        ):
            await connection.send(message)
            answer = from_json(await connection.recv())
            assert answer["error"]["code"] == code, message
        await connection.send('{"signal": "SIGKILL"}')
        assert decode_exit(await _frame(connection)).exit_code == -9


async def _frame(connection: ClientConnection) -> Any:
    message = await connection.recv()
    assert isinstance(message, bytes), message
    return decode_frame(message)


async def test_a_giant_message_ends_only_its_connection(
    server: SandboxServer, client: Client
) -> None:
    program = await start(client, "cat")
    async with socket(server, program["id"]) as connection:
        with contextlib.suppress(ConnectionClosed):  # perhaps before all of it is sent
            await connection.send(bytes(64 << 20))
        with pytest.raises(ConnectionClosed):
            await connection.recv()
    reply = await client.request("POST", f"/programs/{program['id']}/stdin", body=bytes(2 << 20))
    assert reply.status == 413
    assert (await client.get(f"/programs/{program['id']}"))[1]["exit_code"] is None
    assert decoded(await client.request("DELETE", f"/programs/{program['id']}"))[0] == 200


async def test_a_disconnected_client_leaves_the_program_running_for_others(
    server: SandboxServer, client: Client
) -> None:
    program = await start(client, "cat")
    where = f"/programs/{program['id']}"
    half_open, half_sent = [], []
    for _ in range(5):  # connections that read nothing, or stop in the middle of a body
        reader, writer = await asyncio.open_connection(*address(server))
        head = f"HTTP/1.1\r\nHost: localhost\r\nX-Session-API-Key: {KEY}\r\n"
        writer.write(f"GET {where}/output {head}\r\n".encode())
        assert b"200" in await reader.readline()
        half_open.append(writer)
        _, writer = await asyncio.open_connection(*address(server))
        writer.write(f"POST {where}/stdin {head}Content-Length: 100\r\n\r\nhalf".encode())
        half_sent.append(writer)
    async with socket(server, program["id"]) as connection:
        await connection.send(b"x" * 100)
        connection.transport.abort()
    for writer in (*half_open, *half_sent):
        writer.transport.abort()
    reply = await client.request("POST", f"{where}/stdin", body=b"whole", timeout=30)
    assert from_json(reply.body)["written"] == 5
    await client.request("DELETE", f"{where}/stdin")
    reply = await client.request("GET", f"{where}/output", timeout=30)
    assert reply.body.count(b"half") == 0
    assert b"whole" in reply.body


async def test_writes_can_be_repeated_by_their_position(client: Client) -> None:
    program = await start(client, "cat")
    where = f"/programs/{program['id']}/stdin"
    for start_at, body in ((0, b"first"), (0, b"first"), (3, b"st sec"), (9, b"ond")):
        reply = await client.request("POST", f"{where}?start={start_at}", body=body)
        assert (reply.status, from_json(reply.body)["written"]) == (200, len(body))
    status, answer = decoded(await client.request("POST", f"{where}?start=99", body=b"x"))
    assert (status, answer["error"]["code"]) == (400, "request.invalid")
    await client.request("DELETE", where)
    reply = await client.request("GET", f"/programs/{program['id']}/output")
    assert b"first second" in reply.body


async def test_a_program_that_reads_nothing_does_not_hold_a_write(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bascule.sandbox.server.program_routes._WRITE_TIMEOUT", 0.1)
    program = await start(client, "sleep", "1000")
    reply = await client.request(
        "POST", f"/programs/{program['id']}/stdin", body=bytes(1 << 20), timeout=30
    )
    assert 0 < from_json(reply.body)["written"] < 1 << 20


async def test_every_endpoint_needs_the_key(server: SandboxServer, client: Client) -> None:
    program = await start(client, "cat")
    one = f"/programs/{program['id']}"
    async with Client(server.url, key="wrong") as stranger:
        for method, where in (
            ("POST", "/programs"),
            ("GET", "/programs"),
            ("DELETE", "/programs?started_by=x"),
            ("GET", one),
            ("DELETE", one),
            ("GET", f"{one}/wait"),
            ("POST", f"{one}/stdin"),
            ("DELETE", f"{one}/stdin"),
            ("POST", f"{one}/signal"),
            ("POST", f"{one}/terminal"),
            ("GET", f"{one}/output"),
        ):
            assert (await stranger.request(method, where)).status == 403, where
    with pytest.raises(InvalidStatus, match="403"):
        async with socket(server, program["id"], key="wrong"):
            pass
    assert (await client.get(one))[1]["exit_code"] is None


async def test_bad_requests_are_refused_and_named(server: SandboxServer, client: Client) -> None:
    program = await start(client, "cat")
    one = f"/programs/{program['id']}"
    for method, where, body, text in (
        ("POST", "/programs", b"{", "JSON"),
        ("POST", "/programs", b"[]", "object"),
        ("POST", "/programs", b"{}", "argv"),
        ("POST", "/programs", b'{"argv": "ls"}', "argv"),
        ("POST", "/programs", b'{"argv": ["ls"], "shell": true}', "shell"),
        ("POST", "/programs", b'{"argv": ["ls"], "env": [["A", "b"]]}', "env"),
        ("POST", "/programs", b'{"argv": ["ls"], "terminal": 7}', "terminal"),
        ("POST", "/programs", b'{"argv": ["ls"], "terminal": {"rows": "x"}}', "rows"),
        ("POST", "/programs", b'{"argv": ["ls"], "terminal": {"rows": true}}', "rows"),
        ("POST", f"{one}/signal", b"{}", "signal"),
        ("POST", f"{one}/signal", b"[]", "object"),
        ("POST", f"{one}/terminal", b'{"rows": 3, "columns": 3}', "no terminal"),
        ("POST", f"{one}/stdin?start=-1", b"x", "start"),
        ("GET", f"{one}/output?stdout=x", b"", "stdout"),
        ("DELETE", "/programs?started_by=", b"", "started_by"),
        ("DELETE", "/programs", b"", "started_by"),
        ("GET", "/programs/nobody", b"", "nobody"),
        ("GET", "/programs/nobody/output", b"", "nobody"),
        ("PATCH", one, b"", "PATCH"),
    ):
        reply = await client.request(method, where, body=body)
        assert 400 <= reply.status < 500, (where, reply)
        assert reply.status not in (404, 403), (where, reply)
        assert text in from_json(reply.body)["error"]["message"], (where, reply.body)
    with pytest.raises(InvalidStatus, match="400"):
        async with socket(server, "nobody"):
            pass


async def test_a_proxied_request_may_not_end_the_programs_of_a_token(client: Client) -> None:
    body, headers = to_json({"argv": ["cat"]}), {"X-Bascule-Started-By": "somebody"}
    reply = await client.request("POST", "/programs", body=body, headers=headers)
    program = from_json(reply.body)
    assert program["started_by"] == "somebody"
    where = "/programs?started_by=somebody"
    proxied = await client.request("DELETE", where, headers={"X-Forwarded-For": "1.2.3.4"})
    assert proxied.status == 403
    assert from_json((await client.request("DELETE", where)).body) == {"ended": 1}
    await ended(program["pid"])
    reply = await client.request("POST", "/programs", body=body, headers=headers)
    assert reply.status == 403


async def test_stopping_the_server_ends_programs_and_pending_requests(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server.url) as client:
        program = await start(client, "cat")
        waiting = asyncio.create_task(client.get(f"/programs/{program['id']}/wait"))
        async with socket(server, program["id"]) as connection:
            await server.aclose()
            async for message in connection:
                raise AssertionError(f"an idle program sent {message!r}")
        await asyncio.gather(waiting, return_exceptions=True)
    await ended(program["pid"])
