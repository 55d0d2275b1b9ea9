"""Bytes pass both ways, in order and at the pace of the slower end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bascule.sandbox.session.tunnel import Connect, Forwarder, LoopbackPort, to_tcp, to_unix
from bascule.serving.sockets import unix_listener


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[str, int]]:
    """A server that says all back, then that it has said all."""

    serving: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with suppress(ConnectionError):  # a client that has had enough
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write(b"-end")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[:2]
        await asyncio.gather(*filter(None, serving))


@asynccontextmanager
async def forwarding(path: Path, connect: Connect) -> AsyncIterator[Forwarder]:
    listener = await asyncio.to_thread(unix_listener, path)
    async with Forwarder(listener, connect) as forwarder:
        await forwarder.start()
        yield forwarder


async def test_a_tunnel_carries_data_and_end_of_file(tmp_path: Path) -> None:
    async with echoing() as address, forwarding(tmp_path / "s", to_tcp(address)):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"hello-end"
        writer.close()


async def test_a_tunnel_uses_the_first_address_that_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
    async with echoing() as address, forwarding(tmp_path / "s", to_tcp(nobody, address)):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.close()


async def test_a_tunnel_connects_tcp_to_a_unix_socket(tmp_path: Path) -> None:
    async with echoing() as address, forwarding(tmp_path / "s", to_tcp(address)):
        listening = socket.create_server(("127.0.0.1", 0))
        async with Forwarder(listening, to_unix(tmp_path / "s")) as forwarder:
            await forwarder.start()
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"far")
            writer.write_eof()
            assert await reader.read() == b"far-end"
            writer.close()


async def test_a_tunnel_carries_data_of_a_server_that_speaks_first(tmp_path: Path) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server, forwarding(tmp_path / "s", to_tcp(server.sockets[0].getsockname())):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        assert await reader.read() == b"welcome"
        writer.close()


async def test_a_slow_tunnel_reader_applies_backpressure_to_the_writer(tmp_path: Path) -> None:
    """More than any buffer holds is not taken before somebody reads it."""
    taken = 0
    stuck = asyncio.Event()

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        for _number in range(1024):
            writer.write(b"x" * 65536)
            taken += 65536
            try:
                await asyncio.wait_for(asyncio.shield(writer.drain()), 0.2)
            except TimeoutError:
                stuck.set()
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    async with server, forwarding(tmp_path / "s", to_tcp(server.sockets[0].getsockname())):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s", limit=65536)
        await stuck.wait()
        held = taken
        total = 0
        while data := await reader.read(1 << 20):
            total += len(data)
        writer.close()

    assert held < 24 << 20
    assert total == 64 << 20


async def test_a_tunnel_connection_without_a_target_is_closed_and_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
    refused = asyncio.Event()
    listener = await asyncio.to_thread(unix_listener, tmp_path / "s")
    async with Forwarder(listener, to_tcp(nobody), on_refused=refused.set) as forwarder:
        await forwarder.start()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        with pytest.raises((ConnectionError, EOFError)):
            await reader.readexactly(1)
        await refused.wait()
        writer.close()


async def test_closing_a_tunnel_ends_its_connections(tmp_path: Path) -> None:
    async with echoing() as address:
        async with forwarding(tmp_path / "s", to_tcp(address)) as forwarder:
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            writer.write(b"x")
            await reader.readexactly(1)
            assert forwarder.connections == 1
        with pytest.raises((ConnectionError, EOFError)):
            await reader.readexactly(1)
        writer.close()


def test_a_loopback_port_is_reused_unless_it_is_taken(tmp_path: Path) -> None:
    first = LoopbackPort(tmp_path / "port")
    with first.listen() as listening, socket.create_connection(("127.0.0.1", first.port)):
        assert listening.getsockname()[1] == first.port
    first.close()
    again = LoopbackPort(tmp_path / "port")
    again.close()
    with socket.create_server(("127.0.0.1", first.port)):
        other = LoopbackPort(tmp_path / "port")
        other.close()

    assert again.port == first.port
    assert other.port != first.port
