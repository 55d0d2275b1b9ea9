"""`bascule doctor --cloud` before a real hub with real sessions, and real nginx that is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from bascule.cli.deployment.checks import Check
from bascule.cli.deployment.examine import NAMES, Examination

from .processes import BASCULE, TIMEOUT, bascule, environment

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
TOKEN = "a-token-of-the-test"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed (scripts/nginx)"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

UPGRADE = 'proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";'
PLAIN = "proxy_pass http://127.0.0.1:@HUB@; proxy_http_version 1.1; proxy_buffering off;"
PASSED_ON = f"{PLAIN} proxy_set_header Host $http_host;"
FRONTS: Mapping[str, str] = {
    "whole": f"location / {{ {PASSED_ON} {UPGRADE} }}",
    "no upgrade": f"location / {{ {PASSED_ON} }}",
    "loop": f"location / {{ {PASSED_ON} {UPGRADE} }}"
    " location /vscode/ { return 302 $request_uri; }",
    "no hub": "location / { proxy_pass http://127.0.0.1:1; }",
    "no authorization": f'location / {{ {PASSED_ON} proxy_set_header Authorization ""; }}',
    "another host": f"location / {{ {PLAIN} {UPGRADE} proxy_set_header Host 127.0.0.1:1; }}",
    "a foreign host": f"location / {{ {PLAIN} {UPGRADE} proxy_set_header Host inner.example; }}",
    "cookie path": f"location / {{ {PASSED_ON} {UPGRADE} proxy_cookie_path / /hub/; }}",
    "no cookie": f"location / {{ {PASSED_ON} {UPGRADE} proxy_hide_header Set-Cookie; }}",
    "something else": "location / { return 200 hello; }",
    "redirected": "location / { return 301 https://elsewhere.example$request_uri; }",
}
"""By what is wrong with each."""


@dataclass(frozen=True)
class Place:
    """A hub behind nginx: the front that is right, and those that are wrong by their names."""

    url: str
    fronts: Mapping[str, str]
    certificate: Path
    hub: str
    env: dict[str, str]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bsc-") as made, ExitStack() as stack:
        here = Path(made)
        names = ("tls", *FRONTS)
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        url = f"https://localhost:{ports['tls']}"
        env = environment(
            XDG_STATE_HOME=made,
            BASCULE_TOKEN=TOKEN,
            BASCULE_PUBLIC_URL=url,
            BASCULE_SESSIONS_ORIGIN=f"https://*.sessions.localhost:{ports['tls']}",
            BASCULE_PORT="0",
        )
        pipe = subprocess.PIPE
        hub = subprocess.Popen((*BASCULE, "serve"), env=env, stdout=pipe, stderr=subprocess.DEVNULL)
        stack.callback(end, hub)
        assert hub.stdout is not None
        assert hub.stdout.readline().strip().decode() == url
        address = (here / "bascule/hub-address").read_text().strip()
        certificate = make_certificate(here)
        config = here / "nginx.conf"
        config.write_text(nginx_config(here, address.rpartition(":")[2], ports))
        assert NGINX is not None
        front = subprocess.Popen((NGINX, "-e", str(here / "log"), "-c", str(config)))
        stack.callback(end, front)
        for port in ports.values():
            wait_for(port, front)
        fronts = {name: f"http://127.0.0.1:{ports[name]}" for name in FRONTS}
        yield Place(url, fronts, certificate, address, env)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(TIMEOUT)
    if process.stdout is not None:
        process.stdout.close()


def free_ports(count: int) -> list[int]:
    """Different ports: all are held until the last one is chosen."""
    with ExitStack() as held:
        servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in servers]


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
        except ConnectionRefusedError:
            continue
        return
    raise AssertionError(f"nginx ended with {process.returncode}")


def make_certificate(here: Path) -> Path:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "90", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,DNS:*.sessions.localhost"),
            *("-out", str(here / "cert.pem"), "-keyout", str(here / "key.pem")),
        ],
        check=True,
        capture_output=True,
    )
    return here / "cert.pem"


def nginx_config(here: Path, hub_port: str, ports: Mapping[str, int]) -> str:
    tls = f"ssl_certificate {here}/cert.pem; ssl_certificate_key {here}/key.pem;"
    servers = [f"server {{ listen 127.0.0.1:{ports['tls']} ssl; {tls} {FRONTS['whole']} }}"]
    servers += [f"server {{ listen 127.0.0.1:{ports[name]}; {FRONTS[name]} }}" for name in FRONTS]
    text = "\n".join(servers).replace("@HUB@", hub_port)
    user = "user root;" if os.geteuid() == 0 else ""
    return f"""{user} daemon off; pid {here}/nginx.pid; worker_processes 1;
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
{text}
}}"""


async def look(url: str) -> dict[str, Check]:
    stages: list[str] = []
    examination = Examination(url, TOKEN, on_stage=stages.append)
    return {check.name: check async for check in examination.checks()}


def failed(checks: Mapping[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if check.state == "failed"]


@pytest.mark.editor
@pytest.mark.usefixtures("vscode")
def test_doctor_reports_a_working_deployment(place: Place) -> None:
    """In a process of its own, with VS Code really drawn, and nothing is left."""
    env = {**place.env, "SSL_CERT_FILE": str(place.certificate)}
    done = subprocess.run(
        [*BASCULE, "doctor", "--cloud", place.url, "--json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        check=False,
    )
    report = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert states == dict.fromkeys(NAMES, "ok"), done.stdout
    assert "opens in Chromium" in done.stdout
    assert (done.returncode, report["ok"], report["url"]) == (0, True, place.url)
    assert "127.0.0.1" not in done.stdout
    left = bascule("session", "list", "--json", env={**place.env, "BASCULE_HUB": place.hub})
    assert json.loads(left.stdout) == []


@pytest.mark.parametrize(
    ("front", "name", "found", "advice"),
    [
        ("no hub", "hub", "the hub behind it does not", "start the hub"),
        ("something else", "hub", "another server answers", "which server"),
        (
            "redirected",
            "hub",
            "redirected to https://elsewhere.example/health",
            "with that address",
        ),
        ("a foreign host", "hub", "'inner.example'", "Host"),
        (
            "no authorization",
            "token",
            "does not pass on the header `Authorization`",
            "bascule nginx",
        ),
    ],
)
async def test_doctor_reports_a_proxy_that_does_not_reach_the_hub(
    front: str, name: str, found: str, advice: str, place: Place
) -> None:
    checks = await look(place.fronts[front])

    assert failed(checks) == [name]
    assert found in checks[name].found
    assert advice in checks[name].advice
    assert list(checks) == list(NAMES)
    assert checks["VS Code"].state == "skipped"


async def test_doctor_reports_an_untrusted_certificate(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    checks = await look(place.url)

    assert failed(checks) == ["TLS"]
    assert "self-signed certificate" in checks["TLS"].found
    assert "fullchain.pem" in checks["TLS"].advice


async def test_doctor_reports_a_closed_port_and_plain_http_to_another_machine() -> None:
    [port] = free_ports(1)
    nothing = await look(f"http://127.0.0.1:{port}")
    assert failed(nothing) == ["hub"]
    assert "does not answer" in nothing["hub"].found
    plain = await look("http://hub.example")
    assert failed(plain) == ["TLS"]
    assert "bascule nginx" in plain["TLS"].advice


@pytest.mark.parametrize(
    ("front", "wrong"),
    [
        ("no upgrade", {"WebSocket": "does not pass it on", "VS Code": "needs WebSockets"}),
        (
            "loop",
            {
                "origins": "does not redirect to the session's own origin",
                "VS Code": "redirect loop",
            },
        ),
        ("another host", {"sign-in": "Host header has another name"}),
        ("cookie path", {"sign-in": "path=/"}),
        ("no cookie", {"sign-in": "the answer has no cookie"}),
    ],
)
async def test_doctor_reports_a_proxy_that_alters_traffic(
    front: str, wrong: Mapping[str, str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is also at another address than `public_url` says, which is told as well."""
    monkeypatch.setattr("bascule.cli.deployment.examine.draw", not_drawn)
    checks = await look(place.fronts[front])

    assert failed(checks) == [name for name in NAMES if name in {*wrong, "addresses"}]
    assert f'public_url = "{place.fronts[front]}"' in checks["addresses"].advice
    for name, words in wrong.items():
        assert words in checks[name].found
        assert checks[name].advice or name == "VS Code"
    assert checks["isolation"].state == checks["app"].state == checks["clean-up"].state == "ok"


async def not_drawn(address: str, token: str) -> str:
    """A browser is for the test of what works; here it would only take its time."""
    return f"checked {address} with {len(token)} characters"


def test_doctor_accepts_a_url_only_with_cloud(tmp_path: Path) -> None:
    done = bascule("doctor", "https://hub.example", cwd=tmp_path)
    assert (done.returncode, "needs --cloud" in done.stderr) == (2, True)
