"""Real nginx with TLS before a hub: the same doors, and no reload for a new session."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from bascule.core.errors import InvalidSetting
from bascule.hub.proxy import SessionEndpoint, UpstreamServer
from bascule.hub.proxy.nginx import Site, render
from bascule.hub.proxy.nginx_install import Nginx
from bascule.hub.proxy.routes import socket_path
from tests.hub.serving import ADMIN

from .targets import APP, SESSION, VSCODE, ProxyHub, Raw, echo_target, request
from .test_session_sign_in import PAGE

PROGRAM = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed (scripts/nginx)"),
]

NAME = "hub.test"
SESSIONS = "sessions.test"
BASE = VSCODE.path
MAIN = """\
{user}
pid {here}/nginx.pid; error_log {here}/error.log; worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
    include {here}/conf.d/*.conf;
}}
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    here = tmp_path_factory.mktemp("tls")
    files = here / "cert.pem", here / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={NAME}"),
            *("-addext", f"subjectAltName=DNS:{NAME},DNS:*.{SESSIONS}"),
            *("-out", str(files[0]), "-keyout", str(files[1])),
        ],
        check=True,
        capture_output=True,
    )
    return files


class Front:
    """An nginx of the test's own, with its files below a directory."""

    def __init__(self, here: Path, certificate: tuple[Path, Path]) -> None:
        self.here = here
        self.port = _free_port()
        self.url = f"https://{NAME}:{self.port}"
        self.host = f"{NAME}:{self.port}"
        self.sessions_origin = f"https://*.{SESSIONS}:{self.port}"
        self.own = f"{SESSION}.{SESSIONS}:{self.port}"
        """The host of a session."""
        self.file = here / "conf.d" / "bascule.conf"
        self.run_dir = here / "run"
        self._certificate = certificate
        for directory in ("conf.d", "run"):
            (here / directory).mkdir()
        user = "user root;" if os.getuid() == 0 else ""
        self.main = here / "nginx.conf"
        self.main.write_text(MAIN.format(here=here, user=user))
        self.nginx = Nginx.find(PROGRAM, ("-c", str(self.main)))
        self._pid = 0

    def site(self, hub_port: int, **more: object) -> Site:
        values = {
            "public_url": self.url,
            "sessions_origin": self.sessions_origin,
            "hub": f"127.0.0.1:{hub_port}",
            "certificate": self._certificate[0],
            "certificate_key": self._certificate[1],
            "run_dir": self.run_dir,
            "has_ipv6": False,
            "plain_port": 0,
        }
        return Site(**{**values, **more})  # type: ignore[arg-type]

    def start(self) -> None:
        assert PROGRAM is not None
        subprocess.run([PROGRAM, "-e", "stderr", "-c", str(self.main)], check=True, timeout=20)
        self._pid = int((self.here / "nginx.pid").read_text())

    def workers(self) -> set[int]:
        master = self._pid
        children = Path(f"/proc/{master}/task/{master}/children").read_text()
        return {int(pid) for pid in children.split()}

    def stop(self) -> None:
        if not self._pid:
            return
        descriptor = os.pidfd_open(self._pid)
        os.kill(self._pid, signal.SIGTERM)
        select.select([descriptor], [], [], 20)
        os.close(descriptor)

    def client(self, name: str = NAME) -> TlsRaw:
        return TlsRaw(self.port, self._certificate[0], name)

    def session_client(self, session_id: str = SESSION) -> TlsRaw:
        return self.client(f"{session_id}.{SESSIONS}")


class TlsRaw(Raw):
    def __init__(self, port: int, certificate: Path, name: str) -> None:
        super().__init__(port)
        self._name = name
        self._context = ssl.create_default_context(cafile=str(certificate))

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context, server_hostname=self._name
        )
        return self


@pytest.fixture
def front(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[Front]:
    front = Front(tmp_path, certificate)
    yield front
    front.stop()


@pytest.fixture
async def hub(front: Front) -> AsyncIterator[ProxyHub]:
    async with ProxyHub(
        public_url=front.url, sessions_origin=front.sessions_origin, run_dir=front.run_dir
    ) as hub:
        await asyncio.to_thread(front.nginx.install, render(front.site(hub.port)), front.file)
        await asyncio.to_thread(front.start)
        yield hub


def _free_port() -> int:
    """One that no connection of somebody's takes in between: below those the system gives out."""
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port


async def test_nginx_reaches_a_session_socket_directly(front: Front, hub: ProxyHub) -> None:
    async with hub.echo(path=socket_path(front.run_dir, VSCODE)), front.client() as raw:
        asked = request(f"{BASE}/a%20b%2Fc%0d?x=%0a", "Cookie: a=1", host=front.host, token=ADMIN)
        status, headers, body = await raw.ask(asked)

    told = json.loads(body)
    seen = dict(told["headers"])
    assert status == 200
    assert headers["server"] == "nginx"
    assert (told["path"], told["query"]) == ("/a%20b%2Fc%0d", "x=%0a")
    assert (seen["host"], seen["x-forwarded-proto"]) == (front.host, "https")
    assert (seen["x-forwarded-prefix"], seen["x-forwarded-path"]) == (BASE, f"{BASE}/")
    assert seen["x-original-uri"] == f"{BASE}/a%20b%2Fc%0d?x=%0a"
    assert seen["cookie"] == "a=1"
    assert "authorization" not in seen
    assert headers["content-security-policy"] == f"frame-ancestors 'self' {front.url}"
    assert not hub.hub.proxy.pool._idle  # the hub has not been there


async def test_a_load_balancer_may_probe_by_ip_address(front: Front, hub: ProxyHub) -> None:
    async with front.client() as raw:
        for path in ("/livez", "/readyz"):
            status, headers, body = await raw.ask(request(path, host=f"127.0.0.1:{front.port}"))
            assert (status, headers["server"]) == (200, "nginx")
            assert json.loads(body) == {"status": "ok", "failed": []}


async def test_a_browser_is_redirected_to_the_sessions_host_name(
    front: Front, hub: ProxyHub
) -> None:
    async with (
        hub.echo(path=socket_path(front.run_dir, VSCODE)),
        front.client() as raw,
        front.session_client() as own_raw,
    ):
        status, headers, _ = await raw.ask(request(f"{BASE}/", *PAGE, host=front.host))
        assert (status, headers["location"].partition("?")[0]) == (303, "/sign-in")
        own = await _enter(raw, own_raw, front)
        asked = request(f"{BASE}/", f"Cookie: a=1; {own}; b=2", *PAGE, host=front.own)
        status, headers, body = await own_raw.ask(asked)
        assert (status, headers["server"]) == (200, "nginx")
        assert dict(json.loads(body)["headers"])["cookie"] == "a=1; b=2"
        assert headers["content-security-policy"] == f"frame-ancestors 'self' {front.url}"
        assert not hub.hub.proxy.pool._idle  # the hub has not been there


async def test_a_sessions_host_name_serves_neither_the_hub_nor_another_session(
    front: Front, hub: ProxyHub
) -> None:
    other = SessionEndpoint("vscode", "zzzzzzzz12345678")
    async with (
        hub.echo(path=socket_path(front.run_dir, VSCODE)) as echo,
        hub.echo(other, path=socket_path(front.run_dir, other)) as others,
        front.client() as raw,
        front.session_client() as own_raw,
    ):
        own = f"Cookie: {await _enter(raw, own_raw, front)}"
        reached = echo.requests
        for path in (
            "/",
            "/health",
            "/livez",
            "/readyz",
            "/sign-in",
            "/docs",
            "/api/sessions",
            f"{other.path}/",
        ):
            for token in ("", ADMIN):
                asked = request(path, own, host=front.own, token=token)
                assert (await own_raw.ask(asked))[0] == 404, path
        site = "Sec-Fetch-Site: same-site"
        for header in (site, "Origin: https://zzzzzzzz12345678.sessions.test", "Origin: null"):
            assert (await own_raw.ask(request(f"{BASE}/", own, header, host=front.own)))[0] == 403
        status, headers, _ = await own_raw.ask(
            request(f"{BASE}/", own, site, *PAGE, host=front.own)
        )
        assert (status, headers["location"]) == (303, f"{front.url}{BASE}/")
        assert (echo.requests, others.requests) == (reached, 0)


async def _enter(raw: Raw, own_raw: Raw, front: Front) -> str:
    """The cookie of the session's origin."""
    _, cookie = await _sign_in(raw, front)
    asked = request(f"{BASE}/", f"Cookie: {cookie}", *PAGE, host=front.host)
    _, headers, _ = await raw.ask(asked)
    start = f"https://{front.own}"
    assert headers["location"].startswith(f"{start}/_bascule/enter?code=")
    asked = request(headers["location"].removeprefix(start), *PAGE, host=front.own)
    _, headers, _ = await own_raw.ask(asked)
    return headers["set-cookie"].partition(";")[0]


async def _sign_in(raw: Raw, front: Front) -> tuple[int, str]:
    body = f"token={ADMIN}"
    kind = "Content-Type: application/x-www-form-urlencoded"
    head = ("Content-Length: " + str(len(body)), kind, f"Origin: {front.url}")
    asked = request("/sign-in", *head, method="POST", host=front.host)
    status, headers, _ = await raw.ask(asked + body.encode())
    return status, headers.get("set-cookie", "").partition(";")[0]


async def test_a_new_session_needs_no_nginx_reload_and_drops_no_connection(
    front: Front, hub: ProxyHub
) -> None:
    other = SessionEndpoint("vscode", "otherone12345678")
    shake = (
        *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Origin: {front.url}",
    )
    async with hub.echo(path=socket_path(front.run_dir, VSCODE)), front.client() as first:
        first.writer.write(request(f"{BASE}/ws", *shake, host=front.host, token=ADMIN))
        async with asyncio.timeout(10):
            assert (await first.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
            await first.reader.readuntil(b"}]")
        workers = front.workers()
        assert len(workers) == 1  # and answers, so it is all there are
        async with hub.echo(other, path=socket_path(front.run_dir, other)), front.client() as raw:
            asked = request(f"{other.path}/x", host=front.host, token=ADMIN)
            assert json.loads((await raw.ask(asked))[2])["path"] == "/x"
        first.writer.write(b"\x82\x85\0\0\0\0hello")
        async with asyncio.timeout(10):
            await first.reader.readuntil(b"\x82\x05hello")
    assert front.workers() == workers


@pytest.mark.parametrize(
    "target",
    [
        f"/vscode/{SESSION}/../{SESSION}/x",
        f"/vscode/otherone12345678/../{SESSION}/x",
        f"/vscode/{SESSION}/%2e%2e/x",
        f"/vscode/{SESSION}/..%2fx",
        f"/vscode/{SESSION}/../../api/vscode/instances",
        f"//vscode/{SESSION}/x",
    ],
)
async def test_paths_with_dot_segments_do_not_reach_a_session(
    front: Front, hub: ProxyHub, target: str
) -> None:
    async with hub.echo(path=socket_path(front.run_dir, VSCODE)) as echo, front.client() as raw:
        status, _, _ = await raw.ask(request(target, host=front.host, token=ADMIN))
    assert status in (400, 404)
    assert echo.requests == 0


async def test_nginx_rejects_requests_without_access(front: Front, hub: ProxyHub) -> None:
    bob = await hub.token("bob", "agent", owner="bob")
    async with hub.echo(path=socket_path(front.run_dir, VSCODE)) as echo, front.client() as raw:
        for token, expected in (("", 401), ("wrong", 401), (bob, 404), (hub.window, 404)):
            asked = request(f"{BASE}/x", host=front.host, token=token)
            assert (await raw.ask(asked))[0] == expected
        foreign = request(f"{BASE}/", "Origin: https://evil.example", host=front.host, token=ADMIN)
        assert (await raw.ask(foreign))[0] == 403
        probe = request("/_bascule/authorize", host=front.host, token=ADMIN)
        assert (await raw.ask(probe))[0] == 404
    assert echo.requests == 0


async def test_nginx_falls_back_to_the_hub(front: Front, hub: ProxyHub) -> None:
    """A server that is not at its place, one that is not there, and an app that opted out."""
    async with front.client() as raw:
        async with hub.echo():
            asked = request(f"{BASE}/x", host=front.host, token=ADMIN)
            assert json.loads((await raw.ask(asked))[2])["path"] == "/x"
        hub.open(VSCODE, UpstreamServer(socket=socket_path(front.run_dir, VSCODE)))
        status, _, body = await raw.ask(request(f"{BASE}/x", host=front.host, token=ADMIN))
        assert (status, json.loads(body)["code"]) == (502, "target.unreachable")
        async with hub.echo(APP, is_sandboxed=False):
            asked = request(f"{APP.path}/x", host=front.host, token=ADMIN)
            assert json.loads((await raw.ask(asked))[2])["path"] == "/x"


async def test_a_symlink_in_place_of_a_socket_is_not_followed(front: Front, hub: ProxyHub) -> None:
    mine = socket_path(front.run_dir, VSCODE)
    async with echo_target(front.run_dir / "victim" / "vscode.sock") as (victim, echo):
        mine.parent.mkdir()
        mine.symlink_to(victim.socket or "")
        hub.open(VSCODE, UpstreamServer(socket=mine))
        async with front.client() as raw:
            asked = request(f"{BASE}/", host=front.host, token=ADMIN)
            assert (await raw.ask(asked))[0] == 502
    assert echo.requests == 0


async def test_nginx_sandboxes_an_app_and_drops_its_cookies(front: Front, hub: ProxyHub) -> None:
    async with hub.echo(APP, path=socket_path(front.run_dir, APP)), front.client() as raw:
        keyed = hub.hub.addresses.keyed_path(APP)
        asked = request(f"{keyed}/", *PAGE, host=front.host)
        there = f"https://{front.own}{keyed}/"
        assert (await raw.ask(asked))[1]["location"] == there
        given = '[["Set-Cookie","__Host-bascule=x;Path=/;Secure"],["X-Accel-Redirect","/health"]]'
        query = given.replace('"', "%22").replace(" ", "%20")
        asked = request(f"{keyed}/headers?set={query}", "Origin: null", host=front.host)
        status, headers, body = await raw.ask(asked)
        assert (status, body) == (200, b"ok")
        assert "set-cookie" not in headers
        assert headers["content-security-policy"].startswith("sandbox allow-scripts")
        assert headers["access-control-allow-origin"] == "null"
        assert headers["referrer-policy"] == "no-referrer"
        _, _, body = await raw.ask(request(f"{keyed}/x", "Origin: null", host=front.host))
        assert dict(json.loads(body)["headers"])["origin"] == front.url


async def test_the_hub_replaces_the_cors_and_referrer_headers_of_an_app(
    front: Front, hub: ProxyHub
) -> None:
    """Servers for development allow every origin; said twice, it would count for nothing."""
    given = '[["Access-Control-Allow-Origin","*"],["Referrer-Policy","unsafe-url"]]'
    query = given.replace('"', "%22")
    editor, app = socket_path(front.run_dir, VSCODE), socket_path(front.run_dir, APP)
    async with hub.echo(path=editor), hub.echo(APP, path=app), front.client() as raw:
        keyed = hub.hub.addresses.keyed_path(APP)
        raw.writer.write(request(f"{keyed}/headers?set={query}", "Origin: null", host=front.host))
        lines = await _head(raw)
        assert [v for k, v in lines if k == "access-control-allow-origin"] == ["null"]
        assert [v for k, v in lines if k == "referrer-policy"] == ["no-referrer"]
        assert ("vary", "origin") in lines
        await raw.reader.readexactly(2)
        asked = request(f"{BASE}/headers?set={query}", host=front.host, token=ADMIN)
        raw.writer.write(asked)
        lines = await _head(raw)
        assert [v for k, v in lines if k == "access-control-allow-origin"] == ["*"]
        assert [v for k, v in lines if k == "referrer-policy"] == ["unsafe-url"]


async def _head(raw: Raw) -> list[tuple[str, str]]:
    async with asyncio.timeout(10):
        head = (await raw.reader.readuntil(b"\r\n\r\n")).decode()
    pairs = [line.partition(": ") for line in head.split("\r\n")]
    return [(name.lower(), value) for name, _, value in pairs]


async def test_server_sent_events_are_forwarded_without_buffering(
    front: Front, hub: ProxyHub
) -> None:
    async with hub.echo(path=socket_path(front.run_dir, VSCODE)) as echo, front.client() as raw:
        raw.writer.write(request(f"{BASE}/events", host=front.host, token=ADMIN))
        async with asyncio.timeout(10):
            for number in range(3):
                await raw.reader.readuntil(f"data: {number}\n\n".encode())
                echo.is_open.set()
            raw.writer.transport.abort()
            await echo.has_left.wait()


async def test_a_large_body_passes_nginx_in_both_directions(front: Front, hub: ProxyHub) -> None:
    size = 8 << 20
    async with hub.echo(path=socket_path(front.run_dir, VSCODE)), front.client() as raw:
        head = request(
            f"{BASE}/", f"Content-Length: {size}", method="POST", host=front.host, token=ADMIN
        )
        assert json.loads((await raw.ask(head + b"x" * size))[2])["size"] == size
        asked = request(f"{BASE}/bytes?n={size}", host=front.host, token=ADMIN)
        assert len((await raw.ask(asked))[2]) == size


# Installing ---------------------------------------------------------------------------------


def test_an_invalid_nginx_configuration_is_not_installed(front: Front) -> None:
    good = render(front.site(8300))
    front.nginx.install(good, front.file)
    missing = render(front.site(8300, certificate=front.here / "none.pem"))
    with pytest.raises(InvalidSetting, match=r"none\.pem"):
        front.nginx.install(missing, front.file)
    with pytest.raises(InvalidSetting, match="nothing was changed"):
        front.nginx.install("server { listen nowhere at all; }", front.file)

    assert front.file.read_text() == good


def test_a_configuration_that_conflicts_with_another_file_is_removed_again(front: Front) -> None:
    """By itself it is fine; with what is there already it is not."""
    other = front.here / "conf.d" / "another.conf"
    other.write_text("upstream bascule_hub { server 127.0.0.1:1; }\n")
    with pytest.raises(InvalidSetting, match="duplicate upstream"):
        front.nginx.install(render(front.site(8300)), front.file)

    assert not front.file.exists()
    assert sorted(path.name for path in front.file.parent.iterdir()) == ["another.conf"]


async def test_a_running_nginx_takes_a_new_configuration(front: Front, hub: ProxyHub) -> None:
    text = render(front.site(hub.port, max_upload=2048))
    assert await asyncio.to_thread(front.nginx.install, text, front.file, url=front.url)
    async with asyncio.timeout(20):
        while True:  # those who go may take a last connection yet
            async with front.client() as raw:
                head = request("/health", "Content-Length: 3000", method="POST", host=front.host)
                if (await raw.ask(head))[0] == 413:
                    break
            await asyncio.sleep(0.05)


async def test_a_configuration_that_a_running_nginx_rejects_is_removed_again(
    front: Front, hub: ProxyHub
) -> None:
    """A port that is somebody else's is no fault to nginx's test, only to the reload."""
    good = front.file.read_text()
    with socket.create_server(("", _free_port())) as somebody:
        url = f"https://{NAME}:{somebody.getsockname()[1]}"
        text = render(front.site(hub.port, public_url=url))
        nginx = replace(front.nginx, reload_timeout=1.0)
        with pytest.raises(InvalidSetting, match="another program"):
            await asyncio.to_thread(nginx.install, text, front.file, url=url)

    assert front.file.read_text() == good
    assert (front.here / "error.log").read_text().count("Address already in use")
    async with front.client() as raw:
        assert (await raw.ask(request("/health", host=front.host)))[0] == 200


@pytest.mark.parametrize(
    "values",
    [{"public_url": "http://hub.example"}, {"run_dir": Path("/a b")}, {"run_dir": Path("/a;x")}],
)
def test_invalid_nginx_configuration_values_are_rejected(
    front: Front, values: dict[str, object]
) -> None:
    with pytest.raises(InvalidSetting):
        render(front.site(8300, **values))
