"""The connection to a language server that sends what it should not."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from bascule.sandbox.language.json_rpc import JsonRpc


async def send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()


async def receive(reader: asyncio.StreamReader) -> Any:
    head = await reader.readuntil(b"\r\n\r\n")
    return json.loads(await reader.readexactly(int(head.split(b":")[1])))


async def test_unexpected_parameters_end_neither_the_connection_nor_the_servers_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    noticed = []

    async def on_request(_method: str, params: Any) -> Any:
        return params["items"]

    rpc = await JsonRpc.open(
        ours,
        on_request=on_request,
        on_notification=lambda _, params: noticed.append(params["uri"]),
        lost=ConnectionError,
    )
    async with asyncio.timeout(60):
        wrong: tuple[Any, ...] = ({}, None, [1])
        for number, params in enumerate(wrong):
            await send(writer, {"method": "window/logMessage", "params": params})
            await send(writer, {"id": number, "method": "workspace/configuration"})
            answer = await receive(reader)
            assert (answer["id"], answer["error"]["code"]) == (number, -32603)
        await send(writer, {"method": "window/logMessage", "params": {"uri": "good"}})
        good = {"id": "x", "method": "workspace/configuration", "params": {"items": [7]}}
        await send(writer, good)
        assert (await receive(reader))["result"] == [7]
    assert noticed == ["good"]
    assert rpc.is_open
    assert "window/logMessage" in caplog.text
    assert "workspace/configuration" in caplog.text
    await rpc.aclose()
    writer.close()
