"""The VS Code of a session: on its socket, below a path, connected to its hub, seen or not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect

from bascule.core.windows import WindowId
from bascule.hub import Identity
from bascule.runtime.vscode import VSCodeRuntime
from bascule.sandbox.session.launch import SandboxLaunch
from bascule.sandbox.session.tunnel import Forwarder, to_tcp
from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.shared import shared_extensions
from bascule.serving.sockets import unix_listener
from tests.e2e.code_server import CHROMIUM, build_extension, install_editor
from tests.hub.serving import RunningHub

from .running import SESSION, Session, launch_in, running, until

ADMIN = Identity(name="test", owner="admin", scope="admin")
TIMEOUT = 60
PICTURES = Path(__file__).parents[3] / ".e2e"


@pytest.mark.slow
async def test_a_session_without_vscode_says_so(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session:
        status, answer = await session.post("/session/vscode", {})
        standing = await session.get("/session/vscode")
        bodies: list[Any] = [[], {"token": 1}, {"window": "yes"}, {"idle_timeout": 5}]
        wrong = [(await session.post("/session/vscode", body))[0] for body in bodies]

    assert (status, answer["error"]["code"]) == (400, "capability.missing")
    assert (standing["running"], standing["pid"]) == (False, None)
    assert wrong == [400, 400, 400, 400]


# With a real one ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def vscode() -> tuple[Path, Path]:
    """The installation, and the extensions all share."""
    installation = Installation(install_editor())
    return installation.home, shared_extensions(installation, build_extension())


@asynccontextmanager
async def session_of(
    directory: Path, vscode: tuple[Path, Path], hub: RunningHub
) -> AsyncIterator[Session]:
    """A session whose hub is behind a socket of its own."""
    home, extensions = vscode
    listener = await asyncio.to_thread(unix_listener, directory / "hub.sock")
    async with Forwarder(listener, to_tcp(("127.0.0.1", hub.port))) as forwarder:
        await forwarder.start()
        launch = launch_in(
            directory,
            vscode=str(home),
            vscode_extensions=str(extensions),
            hub_socket=str(directory / "hub.sock"),
        )
        async with running(launch) as session:
            yield session


async def window_of(hub: RunningHub, launch: SandboxLaunch, *, after: int = -1) -> WindowId:
    """The session's window, once there is a host that registered after another and can act."""
    link = hub.hub.windows(ADMIN)
    async with asyncio.timeout(TIMEOUT):
        while True:
            change = hub.hub._sockets.next_change()
            for window in await link.windows():
                paths = [each.path for each in window.folders]
                if paths != [launch.working_dir] or window.status != "healthy":
                    continue
                if hub.hub._registry.active_host(window.id).number > after:
                    return window.id
            await change


NGINX = """
daemon off; user root; pid {place}/nginx.pid; error_log {place}/error.log; worker_processes 1;
events {{ }}
http {{
  access_log off; client_body_temp_path {place}; proxy_temp_path {place};
  fastcgi_temp_path {place}; uwsgi_temp_path {place}; scgi_temp_path {place};
  server {{
    listen 127.0.0.1:{port};
    location /vscode/{session}/ {{
      proxy_pass http://unix:{socket}:/;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection upgrade;
    }}
  }}
}}
"""


@asynccontextmanager
async def stripped(session: Session, port: int) -> AsyncIterator[str]:
    """The session's VS Code below a path that it does not know of."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed: VS Code below a path was not tried")
    place = session.run.parent / "nginx"
    place.mkdir()
    socket_path = session.run / "vscode.sock"
    text = NGINX.format(place=place, port=port, session=SESSION, socket=socket_path)
    (place / "nginx.conf").write_text(text)
    process = await asyncio.create_subprocess_exec(
        nginx, "-c", str(place / "nginx.conf"), "-p", str(place)
    )
    try:
        yield f"http://127.0.0.1:{port}/vscode/{SESSION}/"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def browsing(picture: str) -> AsyncIterator[Page]:
    """A person's browser; a picture is kept of what they saw last when something fails."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(viewport={"width": 1200, "height": 800})
        page.set_default_timeout(TIMEOUT * 1000)
        try:
            yield page
        except BaseException:
            PICTURES.mkdir(exist_ok=True)
            await page.screenshot(path=PICTURES / f"{picture}.png")
            raise
        finally:
            await browser.close()


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def open_file(page: Page, name: str) -> Any:
    await page.locator(".explorer-folders-view").get_by_text(name, exact=True).dblclick()
    text = page.locator(".editor-instance .view-lines").first
    await text.wait_for()
    return text


@pytest.mark.slow
@pytest.mark.editor
@pytest.mark.timeout(240)
async def test_vscode_works_below_a_path_and_keeps_changes_when_it_ends(
    tmp_path: Path, vscode: tuple[Path, Path]
) -> None:
    expect.set_options(timeout=TIMEOUT * 1000)
    async with RunningHub() as hub, session_of(tmp_path, vscode, hub) as session:
        token = await hub.token("window of a session", "session", session_id=SESSION)
        own = tmp_path / "state/vscode/User/settings.json"  # as a person may have chosen
        own.parent.mkdir(parents=True)
        own.write_text('{"files.autoSave": "off"}')
        async with session.events() as events:
            status, started = await session.post("/session/vscode", {"token": token})
            assert (status, started["running"], started["socket"]) == (200, True, "vscode.sock")
            assert (await until(events, "vscode.started"))["pid"] == started["pid"]
        secret = json.loads((tmp_path / "state/vscode/Machine/settings.json").read_text())
        file = Path(secret["bascule.tokenFile"])
        assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (token, 0o600)
        assert stat.S_IMODE((session.run / "vscode.sock").stat().st_mode) == 0o660

        (session.workspace / "mine.txt").write_text("as it was\n")
        async with stripped(session, free_port()) as url, browsing("session-vscode") as page:
            await page.goto(url)
            await window_of(hub, session.launch)
            await session.act("echo by an action > seen.txt")
            await expect(page.locator(".explorer-folders-view")).to_contain_text("seen.txt")
            silent = (await session.get("/session/activity"))["last_keystroke"]

            text = await open_file(page, "mine.txt")
            await text.click()
            await page.keyboard.press("Control+End")
            await page.keyboard.type("and not saved")
            await expect(text).to_contain_text("and")
            typed = await typed_at(session)
            clients = (await session.get("/session/vscode"))["clients"]
            await page.locator(".tab.dirty").first.wait_for()
            await kept(session, b"not saved")
            stopped, answer = await session.delete("/session/vscode")

            assert silent is None
            assert time.time() - typed < 30
            assert clients > 0
            assert (stopped, answer["running"]) == (200, False)
            assert not (session.run / "vscode.sock").exists()
            assert not file.exists()
            assert (session.workspace / "mine.txt").read_text() == "as it was\n"

            await session.post("/session/vscode", {"token": token})
            assert page.context.browser is not None
            elsewhere = await page.context.browser.new_page()  # of somebody it does not know
            await elsewhere.goto(url)
            shown = elsewhere.locator(".editor-instance .view-lines").first
            await expect(shown).to_contain_text("not")
            assert (await session.get("/session/ports"))["ports"] == []


async def typed_at(session: Session) -> float:
    """When somebody typed last, once it is known; the window tells at once."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            told = (await session.get("/session/activity"))["last_keystroke"]
            if told is not None:
                return float(told)


async def kept(session: Session, text: bytes) -> None:
    """Returns once VS Code has put unsaved text aside, a moment after it was typed."""
    aside = Path(session.launch.state_dir, "vscode/User/Backups")
    async with asyncio.timeout(TIMEOUT):
        while not any(text in file.read_bytes() for file in aside.rglob("*") if file.is_file()):
            await session.get("/alive")


@pytest.mark.slow
@pytest.mark.editor
@pytest.mark.timeout(240)
async def test_a_headless_window_acts_and_returns_after_its_browser_is_killed(
    tmp_path: Path, vscode: tuple[Path, Path]
) -> None:
    async with RunningHub() as hub, session_of(tmp_path, vscode, hub) as session:
        token = await hub.token("window of a session", "session", session_id=SESSION)
        status, started = await session.post("/session/vscode", {"token": token, "window": True})
        assert (status, started["window"]) == (200, True)
        window = await window_of(hub, session.launch)
        async with VSCodeRuntime(hub.url, hub.agent, window=window) as runtime:
            await runtime.write("made.txt", "by the window\n")
            seen = await runtime.run("cat made.txt")
        number = hub.hub._registry.active_host(window).number
        quiet = await session.get("/session/activity")
        ports = await session.get("/session/ports")
        os.kill(browser_of(session), signal.SIGKILL)
        again = await window_of(hub, session.launch, after=number)

        assert seen.content == "by the window\n"
        assert (session.workspace / "made.txt").read_text() == "by the window\n"
        assert quiet["last_keystroke"] is None  # an agent's edit is none
        assert ports["ports"] == []
        assert again == window
        assert (await session.delete("/session/vscode"))[1]["window"] is False
        assert browsers_of(session) == []


def browser_of(session: Session) -> int:
    return min(browsers_of(session))


def browsers_of(session: Session) -> list[int]:
    """Processes of the headless browser, which have its directory among their words."""
    own = f"--user-data-dir={session.launch.state_dir}/window".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if own in words:
                found.append(int(process.name))
    return found
