"""`bascule nginx`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .processes import bascule

PROGRAM = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

pytestmark = pytest.mark.slow


@pytest.fixture
def tls(tmp_path: Path) -> tuple[str, ...]:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=hub.test", "-out", cert, "-keyout", key),
        ],
        check=True,
        capture_output=True,
    )
    return "--certificate", cert, "--key", key


def test_nginx_print_writes_the_configuration_for_another_machine(tmp_path: Path) -> None:
    files = ("--certificate", "/tls/cert.pem", "--key", "/tls/key.pem")
    (tmp_path / "bascule.toml").write_text(
        'public_url = "https://hub.example"\nrun_dir = "/run/bascule"\nport = 8301\n'
        'apps_origin = "https://*.apps.example"\nsessions_origin = "https://*.sessions.example"\n'
    )
    ran = bascule("nginx", *files, "--print", cwd=tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    for part in (
        *("server_name hub.example;", "server_name *.apps.example;", "server 127.0.0.1:8301;"),
        "http://unix:/run/bascule/$bascule_session/$bascule_socket.sock:$bascule_rest;",
        *("listen 443 ssl http2;", "return 308 https://hub.example$request_uri;"),
    ):
        assert part in ran.stdout


@pytest.mark.parametrize("url", [(), ("--public-url", "http://hub.example")])
def test_nginx_needs_an_https_address(tmp_path: Path, url: tuple[str, ...]) -> None:
    ran = bascule("nginx", "--certificate", "/c", "--key", "/k", "--print", *url, cwd=tmp_path)

    assert ran.returncode == 2
    assert "https address" in ran.stderr.lower()


def test_a_machine_without_nginx_is_told_how_to_get_it(
    tmp_path: Path, tls: tuple[str, ...]
) -> None:
    address = ("--public-url", "https://hub.test", "--nginx", "no-such-nginx")
    ran = bascule("nginx", *tls, *address, cwd=tmp_path)

    assert ran.returncode == 1
    assert "apt-get install nginx-light" in ran.stderr


@pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed (scripts/nginx)")
@pytest.mark.skipif(os.geteuid() != 0, reason="nginx makes the directories it was built with")
def test_the_nginx_configuration_is_installed_completely_or_not_at_all(
    tmp_path: Path, tls: tuple[str, ...]
) -> None:
    file, main = tmp_path / "bascule.conf", tmp_path / "nginx.conf"
    main.write_text(f"pid {tmp_path}/pid; events {{}} http {{ include {file}; }}")
    where = ("--file", str(file), "--main-config", str(main), "--plain-port", "0")
    address = (
        *("--public-url", "https://hub.test:28443"),
        *("--sessions-origin", "https://*.sessions.test:28443"),
    )
    ran = bascule("nginx", *tls, *where, *address, cwd=tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "was not reloaded" in ran.stdout
    before = file.read_text()
    tls = (*tls[:3], str(tmp_path / "none.pem"))
    ran = bascule("nginx", *tls, *where, *address, cwd=tmp_path)
    assert ran.returncode == 2
    assert "none.pem" in ran.stderr
    assert file.read_text() == before
