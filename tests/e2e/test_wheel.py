"""What people install: the wheel in an environment of its own, and no source tree to be seen."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import shlex
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bascule.runtime import CloudRuntime
from tests.cli.processes import environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide the source tree"),
]
TOKEN = "the-wheel-s-own-token-of-32-characters"


@pytest.fixture(scope="module")
def installed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean environment with the wheel in it."""
    subprocess.run([project / "scripts/wheel"], check=True, stdout=subprocess.DEVNULL)
    wheel = next((project / "dist").glob("bascule-*.whl"))
    place = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    install = [project / "scripts/packages", place / "bin/python"]
    pins = f"--constraint={project / 'constraints.txt'}"
    subprocess.run([*install, pins, f"{wheel}[hub]"], check=True)
    return place / "bin"


@pytest.fixture
def hub(installed: Path, project: Path) -> Iterator[str]:
    """The address of one that `bascule serve` runs."""
    with tempfile.TemporaryDirectory(prefix="bsc-") as short:
        Path(short).chmod(0o755)
        hide = f"mount -t tmpfs none {shlex.quote(str(project))}"
        serve = f"exec {installed / 'bascule'} serve --port 0"
        serving = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"{hide} && {serve}"],
            cwd=short,
            env=environment(
                BASCULE_TOKEN=TOKEN, BASCULE_STATE_DIR=f"{short}/state", BASCULE_ALLOW_ROOT="true"
            ),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert serving.stdout is not None
            yield serving.stdout.readline().strip()
        finally:
            serving.terminate()
            serving.communicate()


async def test_the_wheel_alone_serves_the_page_sessions_and_vs_code(hub: str) -> None:
    page = await asyncio.to_thread(signed_in, hub)
    scripts = re.findall(r'(?:src|href)="(/[^"]+\.(?:js|css))"', page)
    assert scripts
    for each in scripts:
        assert await asyncio.to_thread(fetched, hub + each)

    session = {"name": "from a wheel", "runtime": "vscode"}
    async with CloudRuntime(hub, TOKEN, session=session, remove=True) as runtime:
        # It is ready when our extension in its VS Code has come to the hub.
        assert (await runtime.run("echo in $PWD")).content == "in /workspace\n"


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return bytes(reply.read())


def signed_in(hub: str) -> str:
    """The page that somebody with the token sees, at the name where the hub has it."""
    line = http.client.HTTPConnection(urllib.parse.urlsplit(hub).netloc, timeout=60)
    line.request("GET", "/sign-in")
    reply = line.getresponse()
    reply.read()
    host = urllib.parse.urlsplit(reply.headers["Location"]).netloc
    form = urllib.parse.urlencode({"token": TOKEN, "next": "/"})
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    line.request("POST", "/sign-in", form, {"Host": host, "Origin": f"http://{host}", **kind})
    reply = line.getresponse()
    reply.read()
    cookie = reply.headers["Set-Cookie"].partition(";")[0]
    visit = {"Cookie": cookie, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    line.request("GET", "/", headers={"Host": host, **visit})
    shown = line.getresponse().read().decode()
    line.close()
    return shown
