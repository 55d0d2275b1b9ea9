"""The attacks of `attacks.py` on a hub of root's, one with its own user, and one behind nginx."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bascule.hub.proxy.nginx import render
from tests.hub.proxy.test_nginx import PROGRAM, Front
from tests.runtime.spawn.local.wardens import packages, python_for

from .attacks import ATTACKS, Attack, Site

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

NOBODY = 65534


@contextmanager
def serving(place: Path, **settings: str) -> Iterator[Site]:
    """`bascule serve` with sessions of kind local, which are gone afterwards."""
    token = secrets.token_urlsafe(24)
    state = place / "var/state"
    values = {"state_dir": str(state), "warden_dir": str(place / "warden"), **settings}
    (place / "hub.toml").write_text(
        "".join(f'{name} = "{each}"\n' for name, each in values.items())
    )
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": packages(),
        "BASCULE_CONFIG": str(place / "hub.toml"),
        "BASCULE_PORT": "0",
        "BASCULE_TOKEN": token,
        "BASCULE_SPAWNERS": "local",
    }
    command = [python_for(NOBODY), "-m", "bascule"]
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "serve"], env=env, cwd="/", stdout=subprocess.PIPE, stderr=log, text=True
        ) as hub,
    ):
        assert hub.stdout is not None
        try:
            url = hub.stdout.readline().strip()
            assert url.startswith("http"), (place / "log").read_text()
            yield Site(url, token, hub.pid, state)
            remove = [*command, "session", "rm", "--all"]
            subprocess.run(remove, env={**env, "BASCULE_HUB": url}, check=True, timeout=120)
        finally:
            hub.terminate()


@contextmanager
def behind_nginx(place: Path) -> Iterator[Site]:
    certificate = place / "cert.pem", place / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-out", str(certificate[0]), "-keyout", str(certificate[1])),
        ],
        check=True,
        capture_output=True,
    )
    (place / "nginx").mkdir()
    front = Front(place / "nginx", certificate)
    url = f"https://localhost:{front.port}"
    with serving(place) as site, ExitStack() as stack:
        port = int(site.url.rpartition(":")[2])
        conf = front.site(port, public_url=url, run_dir=site.state / "run")
        front.nginx.install(render(conf), front.file)
        stack.callback(front.stop)
        front.start()
        context = ssl.create_default_context(cafile=str(certificate[0]))
        yield Site(url, site.token, site.pid, site.state, context)


@pytest.fixture(
    scope="module",
    params=[
        "root",
        "its own user",
        pytest.param(
            "nginx", marks=pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed")
        ),
    ],
)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    place = Path(tempfile.mkdtemp(prefix="bsc-"))
    place.chmod(0o755)
    try:
        if request.param == "nginx":
            with behind_nginx(place) as site:
                yield site
        else:
            more = {"user": "nobody"} if request.param == "its own user" else {}
            with serving(place, **more) as site:
                yield site
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_attacks_from_sessions_do_not_compromise_the_hub(site: Site, attack: Attack) -> None:
    asyncio.run(attack(site))
