"""Who gets through, without a browser: plain sockets stand in for it."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bascule.sandbox.browser.socks_proxy import VIEWER_HOST, BrowserProxy, is_of_this_machine


async def blocked_handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"the handler")


async def listener(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"the server")
    writer.close()


@pytest.fixture
async def server() -> AsyncIterator[int]:
    """A port of this machine, on all its addresses."""
    async with await asyncio.start_server(listener, "0.0.0.0", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def proxy(server: int) -> AsyncIterator[BrowserProxy]:
    proxy = BrowserProxy([("127.0.0.1", server)], blocked_handler)
    await proxy.start()
    yield proxy
    await proxy.aclose()


async def through(proxy: BrowserProxy, host: str, port: int) -> bytes:
    """What comes from the other side; empty when the proxy says no."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(b"\x05\x01\x00")
        assert await reader.readexactly(2) == b"\x05\x00"
        try:
            address = ipaddress.ip_address(host)
            kind = b"\x01" if address.version == 4 else b"\x04"
            target = kind + address.packed
        except ValueError:
            target = b"\x03" + bytes([len(host)]) + host.encode()
        writer.write(b"\x05\x01\x00" + target + struct.pack("!H", port))
        answer = await reader.readexactly(10)
        return await reader.read() if answer[1] == 0 else b""
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1.2.3", "0.0.0.0", "localhost", "LOCALHOST.", "a.b.localhost"),
        *("::ffff:127.0.0.1", "127.1", "2130706433", "0x7f.1"),
    ],
)
async def test_a_blocked_port_is_blocked_for_every_local_host_name(
    proxy: BrowserProxy, server: int, host: str
) -> None:
    assert await through(proxy, host, server) == b"the handler"


async def test_a_blocked_port_is_blocked_for_addresses_of_local_interfaces(
    proxy: BrowserProxy, server: int
) -> None:
    own = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), server)}
    for address in own:
        assert await through(proxy, address, server) == b"the handler"


async def test_other_ports_of_this_machine_are_reached(proxy: BrowserProxy) -> None:
    async with await asyncio.start_server(listener, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        assert await through(proxy, "127.0.0.1", port) == b"the server"
        assert await through(proxy, "localhost", port) == b"the server"


async def test_an_idle_proxy_connection_stays_open(proxy: BrowserProxy) -> None:
    said = asyncio.Event()
    held = []

    async def patient(*line: Any) -> None:
        held.append((asyncio.current_task(), line))
        writer = line[1]
        await said.wait()
        writer.write(b"late")
        writer.close()

    async with await asyncio.start_server(patient, "127.0.0.1", 0) as slow:
        port = slow.sockets[0].getsockname()[1]
        waiting = asyncio.ensure_future(through(proxy, "127.0.0.1", port))
        while not proxy._serving:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        gc.collect()
        said.set()
        assert await waiting == b"late"


async def test_a_name_that_resolves_to_this_machine_is_blocked_like_its_address(
    proxy: BrowserProxy, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()

    async def rebound(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, 1, 6, "", ("127.0.0.1", server))]

    monkeypatch.setattr(loop, "getaddrinfo", rebound)
    assert await through(proxy, "rebind.example", server) == b"the handler"
    assert proxy.was_blocked("rebind.example", server)


async def test_the_proxy_is_not_reached_through_itself(proxy: BrowserProxy) -> None:
    assert await through(proxy, "127.0.0.1", proxy.port) == b"the handler"


async def test_the_viewer_host_is_served_by_the_blocked_handler(proxy: BrowserProxy) -> None:
    assert await through(proxy, VIEWER_HOST, 80) == b"the handler"


async def test_the_proxy_remembers_why_a_connection_failed(proxy: BrowserProxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert await through(proxy, "127.0.0.1", port) == b""
    assert "connection refused" in proxy.last_error("127.0.0.1", port)


async def test_invalid_socks_requests_are_rejected(proxy: BrowserProxy) -> None:
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x05\x01\x00\x05\x02\x00\x01" + b"\0" * 6):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(nonsense)
        said = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert said in (b"", b"\x05\x00\x05\x07\x00\x01" + b"\0" * 6)


def test_local_addresses_are_distinguished_from_others() -> None:
    own = ("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::")
    other = ("192.0.2.1", "2001:db8::1", "224.0.0.1")
    assert all(is_of_this_machine(ipaddress.ip_address(each)) for each in own)
    assert not any(is_of_this_machine(ipaddress.ip_address(each)) for each in other)
