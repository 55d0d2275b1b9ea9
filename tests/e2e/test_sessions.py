"""Two sessions side by side in a real browser at one origin, by the hub alone and behind nginx."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, WebSocket, expect
from playwright.async_api import TimeoutError as PlaywrightTimeout

from tests.hub.proxy.test_nginx import PROGRAM, certificate
from tests.hub.serving import ADMIN

from .session_ground import CAN_ISOLATE, TIMEOUT, SessionGround, session_ground

__all__ = ["certificate"]  # a fixture

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not CAN_ISOLATE, reason="needs root and bubblewrap"),
    pytest.mark.timeout(300),
]

ROOT = Path(__file__).parents[2]
WAIT = TIMEOUT * 1000

RELATIVE = """
mkdir app && cd app && cat > index.html <<'END'
<!doctype html><title>plain</title><script src="assets/app.js"></script>
END
mkdir assets && echo 'document.title = "drawn by a relative script"' > assets/app.js
python3 -m http.server --bind 127.0.0.1 8000 > /dev/null 2>&1 &
"""
"""An app that knows nothing of where it is shown."""
ABSOLUTE = """
cat > served.py <<'END'
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

BASE = os.environ["APP_BASE_PATH_1"]
PAGES = {
    BASE: ("text/html", f'<!doctype html><title>plain</title><script src="{BASE}app.js"></script>'),
    BASE + "app.js": ("text/javascript", 'document.title = "drawn by an absolute script"'),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        kind, body = PAGES.get(self.path, ("text/plain", None))
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write((body or "not mine").encode())


HTTPServer(("127.0.0.1", int(os.environ["APP_PORT_1"])), Handler).serve_forever()
END
python3 served.py > /dev/null 2>&1 &
"""
"""One that was told its base path, and answers nowhere else."""


@dataclass
class Tab:
    """A session's VS Code as a person has it open."""

    session_id: str
    page: Page
    open_sockets: set[WebSocket] = field(default_factory=set)
    closed_sockets: int = 0
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self) -> None:
        self.page.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        self.open_sockets.add(socket)
        self.all_closed.clear()
        socket.on("close", lambda _: self._closed(socket))

    def _closed(self, socket: WebSocket) -> None:
        self.open_sockets.discard(socket)
        self.closed_sockets += 1
        if not self.open_sockets:
            self.all_closed.set()


@dataclass
class Pair:
    ground: SessionGround
    one: Tab
    two: Tab


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["hub", "nginx"])
async def pair(
    request: pytest.FixtureRequest, certificate: tuple[Path, Path]
) -> AsyncIterator[Pair]:
    is_behind = request.param == "nginx"
    if is_behind and PROGRAM is None:
        pytest.skip("nginx is not installed (scripts/nginx)")
    async with session_ground(certificate=certificate if is_behind else None) as ground:
        asker = ground.asker
        wanted: list[dict[str, Any]] = [
            {"name": "one"},
            {"name": "two", "apps": [{"keeps_prefix": True}]},
        ]
        made = await asyncio.gather(*map(asker.ready, wanted))
        for name, session_id in zip(("one", "two"), made, strict=True):
            await asker.run(session_id, f"echo text of {name} > only-in-{name}.txt")
        yield Pair(ground, *[await tab(ground, session_id) for session_id in made])


async def tab(ground: SessionGround, session_id: str) -> Tab:
    made = Tab(session_id, await ground.context.new_page())
    made.watch()
    await made.page.goto(f"{ground.url}/vscode/{session_id}/", wait_until="commit", timeout=WAIT)
    return made


async def shows(page: Page, name: str) -> None:
    await page.bring_to_front()  # a tab that nobody sees draws nothing
    await expect(in_explorer(page, name)).to_be_visible(timeout=WAIT)


def in_explorer(page: Page, name: str) -> Locator:
    return page.locator(".explorer-folders-view").get_by_text(name, exact=True)


async def test_two_session_windows_show_their_own_files(
    pair: Pair,
) -> None:
    ground = pair.ground
    for name, each in (("one", pair.one), ("two", pair.two)):
        await shows(each.page, f"only-in-{name}.txt")
        await expect(each.page.get_by_text("only-in-", exact=False)).to_have_count(1)
        origin = ground.origin(each.session_id)
        assert each.page.url.startswith(f"{origin}/vscode/{each.session_id}/")
        cookies = await ground.context.cookies(origin)
        ours = {cookie["name"]: cookie for cookie in cookies if "bascule" in cookie["name"]}
        assert set(ours) == {f"__Host-Http-bascule-{each.session_id}"}
        assert all(cookie["httpOnly"] and cookie["secure"] for cookie in ours.values())
    assert ground.origin(pair.one.session_id) != ground.origin(pair.two.session_id)
    for each in (pair.one, pair.two):
        await ground.host(each.session_id)
    listed = await ground.asker.must("GET", "/api/vscode/instances")
    sessions = {window["session_id"]: window["workspace_path"] for window in listed}
    assert sessions == {pair.one.session_id: "/workspace", pair.two.session_id: "/workspace"}


async def test_a_file_created_by_an_action_appears_only_in_its_sessions_window(pair: Pair) -> None:
    for each, name in ((pair.two, "made-in-two"), (pair.one, "made-in-one")):
        await each.page.bring_to_front()
        file = in_explorer(each.page, name)
        # VS Code shows a folder before it watches it, and says nothing when it does. So the file is
        # made again until it appears.
        while not await file.is_visible():
            await pair.ground.asker.run(each.session_id, f"rm -f {name}; touch {name}")
            with suppress(PlaywrightTimeout):
                await file.wait_for(timeout=10_000)
    await expect(pair.one.page.get_by_text("made-in-two")).to_have_count(0)


async def test_terminals_work_and_start_quietly(pair: Pair) -> None:
    for each in (pair.one, pair.two):
        page = each.page
        await page.bring_to_front()
        await expect(page.locator(".notification-toast, .monaco-dialog-box")).to_have_count(0)
        await expect(page.locator(".tabs-container .tab")).to_have_count(0)
        await pair.ground.asker.run(each.session_id, "mkfifo pipe")
        heard = asyncio.create_task(pair.ground.asker.run(each.session_id, "cat pipe"))
        await page.keyboard.press("Control+Backquote")
        await page.locator(".terminal.xterm").wait_for(timeout=WAIT)
        await expect(page.locator(".terminal-initial-hint")).to_have_count(0)
        await page.locator(".terminal.xterm").click()
        await page.keyboard.type("echo $BASCULE_SESSION_ID $((40+2)) > pipe\n")
        assert await heard == f"{each.session_id} 42\n"


async def test_apps_and_their_assets_are_served_at_their_urls(pair: Pair) -> None:
    ground = pair.ground
    for each, script, title in (
        (pair.one, RELATIVE, "drawn by a relative script"),
        (pair.two, ABSOLUTE, "drawn by an absolute script"),
    ):
        await ground.asker.run(each.session_id, script)
        address = await opened(ground, each.session_id)
        assert address.startswith(f"{ground.url}/apps/{each.session_id}-")
        page = await ground.context.new_page()
        await page.goto(address)
        await expect(page).to_have_title(title)
        await page.close()


async def opened(ground: SessionGround, session_id: str) -> str:
    """The address of the session's app, as it was told when it was found."""
    async with asyncio.timeout(TIMEOUT):
        async for name, data in ground.asker.events(session_id):
            if name == "port.opened":
                return str(data["url"])
    raise AssertionError("the events ended")


async def test_with_a_public_url_no_response_or_command_output_names_localhost(pair: Pair) -> None:
    ground = pair.ground
    if ground.front is None:
        pytest.skip("this hub has no public address")
    one = pair.one.session_id
    paths = (f"/api/sessions/{one}", f"/api/sessions/{one}/ports", "/api/vscode/instances")
    answers = [await ground.asker.must("GET", path) for path in paths]
    words = ("list",), ("show", "one", "--json"), ("url", "one")
    said = "\n".join(await asyncio.gather(*(printed(ground, *each) for each in words)))
    said += json.dumps(answers)
    assert said.count(ground.url) >= 5
    said = said.replace("--bind 127.0.0.1", "")  # the person's own words
    assert "localhost" not in said
    assert "127.0.0.1" not in said


async def printed(ground: SessionGround, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bascule", "session", *words, "--hub", ground.hub.url),
        env={**os.environ, "BASCULE_TOKEN": ADMIN},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def test_starting_and_removing_a_session_keeps_connections_of_others(
    pair: Pair,
) -> None:
    ground = pair.ground
    before = [(each.closed_sockets, len(each.open_sockets)) for each in (pair.one, pair.two)]
    workers = ground.front.workers() if ground.front else set()
    third = await ground.asker.ready({"name": "three"})
    await ground.asker.run(third, "touch only-in-three")
    new = await tab(ground, third)
    await shows(new.page, "only-in-three")
    assert new.open_sockets

    await ground.asker.must("DELETE", f"/api/sessions/{third}")

    await asyncio.wait_for(new.all_closed.wait(), TIMEOUT)
    answer = await new.page.goto(f"{ground.url}/vscode/{third}/")
    assert answer is not None
    assert answer.status == 404
    assert not [each for each in ground.hub.hub.proxy.live if each.session_id == third]
    assert [(each.closed_sockets, len(each.open_sockets)) for each in (pair.one, pair.two)] == (
        before
    )
    assert all(sockets > 0 for _, sockets in before)
    assert (ground.front.workers() if ground.front else set()) == workers
    await new.page.close()
