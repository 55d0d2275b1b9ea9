"""What leaves a session: nothing, HTTP to the domains that are listed, or whatever it wants."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bascule.core.sessions import Egress, SandboxPlan, new_session_id
from bascule.runtime.spawn.egress.proxy import EgressProxy
from bascule.runtime.spawn.egress.rules import EgressRules
from bascule.runtime.spawn.local import LocalSpawner
from tests.contracts.spawner import client

from .wardens import settings_in

# Rules ----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["example.org", "EXAMPLE.org.", "a.sub.net", "a.b.sub.net"])
def test_listed_domains_are_allowed(host: str) -> None:
    assert EgressRules(["example.org", "*.sub.net"]).allows_name(host, 443)


@pytest.mark.parametrize(
    "host",
    [
        "www.example.org",
        "notexample.org",
        "example.org.evil",
        "sub.net",
        ".sub.net",
        "xsub.net",
        "",
    ],
)
def test_unlisted_domains_are_rejected(host: str) -> None:
    assert not EgressRules(["example.org", "*.sub.net"]).allows_name(host, 443)


def test_only_http_and_https_ports_are_allowed() -> None:
    assert not EgressRules(["example.org"]).allows_name("example.org", 22)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1"),
        *("fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
        *("2002:7f00:1::", "ff02::1", "8.8.4.4"),
    ],
)
def test_local_and_private_addresses_are_rejected(address: str) -> None:
    assert not EgressRules([], own_addresses={"8.8.4.4"}).allows_address(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert EgressRules([]).allows_address(address)


# The proxy ------------------------------------------------------------------------------


class Anywhere(EgressRules):
    """Takes loopback for the Internet."""

    def allows_address(self, address: str) -> bool:
        return address == "127.0.0.1"


async def at_loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@asynccontextmanager
async def website() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Tells its port and what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"content-length: 4" in head.lower():
            head += await reader.readexactly(4)
        asked.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def ask(path: Path, request: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.fixture
async def proxied(place: Path) -> AsyncIterator[tuple[Path, int, list[bytes]]]:
    async with website() as (port, asked):
        rules = Anywhere(["allowed.example"], ports={port})
        async with EgressProxy(place / "proxy.sock", rules, at_loopback) as proxy:
            await proxy.open()
            yield place / "proxy.sock", port, asked


async def test_a_plain_http_request_is_forwarded_in_origin_form(
    proxied: tuple[Path, int, list[bytes]],
) -> None:
    path, port, asked = proxied
    url = f"http://allowed.example:{port}/a?b=c".encode()
    answer = await ask(
        path,
        b"POST " + url + b" HTTP/1.1\r\nHost: elsewhere\r\nProxy-Authorization: x\r\nX-Own: 1\r\n"
        b"Content-Length: 4\r\n\r\nbodyGET http://elsewhere/ HTTP/1.1\r\n\r\n",
    )
    assert answer.endswith(b"hello")
    (request,) = asked
    assert request.splitlines() == [
        b"POST /a?b=c HTTP/1.1",
        f"Host: allowed.example:{port}".encode(),
        b"X-Own: 1",
        b"Content-Length: 4",
        b"Connection: close",
        b"",
        b"body",
    ]


async def test_a_tunnel_carries_bytes_both_ways(proxied: tuple[Path, int, list[bytes]]) -> None:
    path, port, asked = proxied
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(f"CONNECT allowed.example:{port} HTTP/1.1\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert (await reader.read()).endswith(b"hello")
    writer.close()
    assert asked == [b"GET / HTTP/1.1\r\n\r\n"]


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("CONNECT other.example:{port} HTTP/1.1", b"403"),
        ("CONNECT allowed.example:22 HTTP/1.1", b"403"),
        ("GET http://other.example:{port}/ HTTP/1.1", b"403"),
        ("GET http://allowed.example@other.example:{port}/ HTTP/1.1", b"400"),
        ("GET / HTTP/1.1", b"400"),
        ("CONNECT allowed.example HTTP/1.1", b"400"),
        ("GET https://allowed.example:{port}/ HTTP/1.1", b"400"),
        ("nonsense", b"400"),
        ("CONNECT allowed.example:0 HTTP/1.1", b"400"),
        ("CONNECT allowed.example:99999 HTTP/1.1", b"400"),
        ("CONNECT allowed.example:{port} HTTP/2.0", b"400"),
        ("CONNECT allowed.example:{port}", b"400"),
        ("CON\x00NECT allowed.example:{port} HTTP/1.1", b"400"),
        ("GE T http://allowed.example:{port}/ HTTP/1.1", b"400"),
        ("GET\n http://allowed.example:{port}/ HTTP/1.1", b"400"),
        ("GET http://allowed.example:{port}/ HTTP/1.1\nX-Injected: 1", b"400"),
        ("GET http://allowed.example:{port}/a\nX-Injected:1 HTTP/1.1", b"400"),
        ("GET http://allowed.example:{port}/\x00 HTTP/1.1", b"400"),
        ("GET http://allowed.example:{port}/\x85 HTTP/1.1", b"400"),
    ],
)
async def test_a_forbidden_request_is_rejected_and_not_forwarded(
    proxied: tuple[Path, int, list[bytes]], request_line: str, status: bytes
) -> None:
    path, port, asked = proxied
    answer = await ask(path, request_line.format(port=port).encode() + b"\r\n\r\n")
    assert answer.split()[1] == status
    assert asked == []


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Content-Length : 4",
        " folded: 1",
        "Content-Length: +4",
        "Content-Length: 1_0",
        "X-One: 1\nX-Injected: 1",
        "X-One: 1\rX-Injected: 1",
        "X-One: 1\n\nGET / HTTP/1.1\nHost: other.example",
        "X-One: \x00",
        "X\x0bOne: 1",
        ": no name",
    ],
)
async def test_a_request_with_a_malformed_header_is_refused(
    proxied: tuple[Path, int, list[bytes]], headers: str
) -> None:
    path, port, asked = proxied
    request = f"POST http://allowed.example:{port}/ HTTP/1.1\r\n{headers}\r\n\r\n"
    assert (await ask(path, request.encode())).startswith(b"HTTP/1.1 400")
    assert asked == []


@pytest.mark.parametrize(
    "host",
    [
        *("evil\0.allowed.example", "evil.example\0.allowed.example", "evil\n.allowed.example"),
        *("evil%00.allowed.example", "evil/.allowed.example", "evil?.allowed.example"),
        *("evil#.allowed.example", "evil\\.allowed.example", "evil@.allowed.example"),
        *("évil.allowed.example", "a b.allowed.example", ".allowed.example", "a..allowed.example"),
        *("-.allowed.example", "[::1].allowed.example", "a" * 64 + ".allowed.example"),
        *("a." * 130 + "allowed.example", "allowed.example..", "x.allowed.example\0"),
    ],
)
@pytest.mark.parametrize("form", ["CONNECT {}:{}", "GET http://{}:{}/"])
async def test_an_invalid_host_name_is_never_resolved(place: Path, host: str, form: str) -> None:
    """The resolver would stop at a NUL byte, and find another host than the one that was judged."""
    looked_up: list[str] = []

    async def resolve(name: str, port: int) -> Sequence[str]:
        looked_up.append(name)
        return ["127.0.0.1"]

    rules = Anywhere(["*.allowed.example", "allowed.example"])
    async with EgressProxy(place / "proxy.sock", rules, resolve) as proxy:
        await proxy.open()
        head = f"{form.format(host, 80)} HTTP/1.1\r\n\r\n".encode("latin-1")
        answer = await ask(place / "proxy.sock", head)
    assert answer.split()[1] in (b"400", b"403")
    assert looked_up == []
    assert not rules.allows_name(host, 80)


async def test_a_session_has_a_limited_number_of_connections(place: Path) -> None:
    path = place / "proxy.sock"
    async with EgressProxy(path, Anywhere([]), at_loopback, max_connections=3) as proxy:
        await proxy.open()
        held = [await asyncio.open_unix_connection(path) for _ in range(3)]
        answer = await ask(path, b"CONNECT allowed.example:80 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"the maximum" in answer
        for _, writer in held:
            writer.write(b"nonsense\r\n\r\n")
        for reader, writer in held:
            assert (await reader.read()).startswith(b"HTTP/1.1 400")
            writer.close()
        answer = await ask(path, b"CONNECT other.example:80 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403")


async def test_a_listed_domain_that_resolves_to_a_private_address_is_rejected(place: Path) -> None:
    """However it is resolved: loopback, a private network, or the machine's own address."""
    async with website() as (port, asked):
        rules = EgressRules(["allowed.example"], ports={port})
        async with EgressProxy(place / "proxy.sock", rules, at_loopback) as proxy:
            await proxy.open()
            answer = await ask(
                place / "proxy.sock", f"CONNECT allowed.example:{port} HTTP/1.1\r\n\r\n".encode()
            )
    assert answer.startswith(b"HTTP/1.1 403")
    assert asked == []


# In a session ---------------------------------------------------------------------------

in_a_session = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bwrap") is None, reason="needs root and bubblewrap"
)


@asynccontextmanager
async def session(place: Path, egress: Egress) -> AsyncIterator[SandboxPlan]:
    session_id = new_session_id()
    plan = SandboxPlan(
        session_id=session_id,
        directory=place / "sessions" / session_id,
        run_dir=place / "run" / session_id,
        key="a-key",
        egress=egress,
    )
    plan.directory.mkdir(parents=True)
    async with LocalSpawner(settings_in(place), resolve=at_loopback) as spawner:
        await spawner.open()
        await spawner.start(plan)
        try:
            yield plan
        finally:
            await spawner.stop(session_id)


@in_a_session
@pytest.mark.slow
async def test_programs_of_a_session_use_the_egress_proxy_by_default(place: Path) -> None:
    egress = Egress(mode="proxy", domains=("allowed.example",))
    async with session(place, egress) as plan, client(plan) as runtime:
        refused = await runtime.run(
            "curl -sS http://other.example/; curl -sS https://other.example/"
        )
        inside = await runtime.run("curl -sS http://allowed.example/")
    assert "may not reach other.example:80: see egress.domains" in refused.content
    assert "403" in refused.content
    assert "has no address that sessions may reach" in inside.content


@in_a_session
@pytest.mark.slow
async def test_a_session_without_egress_has_no_proxy_either(place: Path) -> None:
    async with session(place, Egress()) as plan, client(plan) as runtime:
        seen = await runtime.run("env | grep -ci proxy; curl -sS http://example.org/")
    assert seen.content.startswith("0\n")
    assert seen.exit_code != 0
    assert not plan.run_dir.exists()
