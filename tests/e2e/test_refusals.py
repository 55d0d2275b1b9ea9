"""Who and what a hub with a real window turns away, while the window goes on working."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import CmdRun, FileWrite
from bascule.core.errors import AccessDenied
from bascule.core.observations import Error
from bascule.link.socketio import SocketClient
from bascule.runtime.vscode import VSCodeRuntime
from tests.hub.serving import Client

from .rig import ADMIN, EditorWindow, Rig

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
async def the_window_goes_on(runtime: VSCodeRuntime) -> AsyncIterator[None]:
    yield
    assert (await runtime.run("echo alive")).content == "alive\n"


async def test_a_wrong_token_is_refused(rig: Rig, vscode_window: EditorWindow) -> None:
    with pytest.raises(AccessDenied):
        await VSCodeRuntime(rig.url, "wrong", window=vscode_window.id).connect()


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
async def test_a_foreign_host_or_origin_is_refused(
    rig: Rig, vscode_window: EditorWindow, headers: dict[str, str]
) -> None:
    sent = {"Authorization": f"Bearer {ADMIN}", **headers}
    action = {"action": "run", "id": str(uuid4()), "args": {"command": "touch evil"}}
    async with aiohttp.ClientSession(rig.url, headers=sent) as session:
        where = f"/api/vscode/instance/{vscode_window.id}/actions"
        async with session.post(where, json=action) as answer:
            assert answer.status == 403
            assert (await answer.json())["code"] == "access.denied"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect("/socket.io/?EIO=4&transport=websocket")
        assert refused.value.status == 403
    assert not (vscode_window.folder / "evil").exists()


async def test_an_action_of_100_megabytes_is_not_sent(runtime: VSCodeRuntime) -> None:
    seen = await runtime.act(FileWrite("huge", "x" * 100 * MEGABYTE))
    assert isinstance(seen, Error)
    assert seen.error_id == "message.too_large"


async def test_an_answer_of_100_megabytes_becomes_an_error(runtime: VSCodeRuntime) -> None:
    command = f"head -c {100 * MEGABYTE} /dev/zero | tr '\\0' x"
    seen = await runtime.act(CmdRun(command, output_limit=0))
    assert isinstance(seen, Error)
    assert seen.error_id == "message.too_large"


async def test_a_frame_of_100_megabytes_closes_its_socket(
    rig: Rig, vscode_window: EditorWindow
) -> None:
    lost = asyncio.Event()
    huge = SocketClient(
        rig.url,
        await rig.agent_token(),
        namespace="/runtime",
        client="huge",
        handlers={},
        on_lost=lost.set,
    )
    async with huge:
        await huge.connect()
        huge._open_socket.max_sent = 0  # as a client that ignores the hub's limit
        event = {"window_id": vscode_window.id, "event": "x" * 100 * MEGABYTE}
        await huge.emit("oh_event", event)
        await asyncio.wait_for(lost.wait(), 30)


async def test_another_client_cannot_claim_the_windows_id(
    rig: Rig, vscode_window: EditorWindow
) -> None:
    token = await rig.on(rig.hub.tokens.create(f"window-{uuid4()}", "window"))
    status, said = await _claim(rig.url, token, vscode_window.id)
    assert (status, said["code"]) == (409, "window.taken")


async def test_a_window_with_a_wrong_token_says_so_in_its_status_bar(
    rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("stranger")
    (home / "token").write_text("wrong")
    settings = {"bascule.tokenFile": str(home / "token")}
    server = await rig.on(rig.serve("stranger", settings))
    page = await rig.on(server.open(rig.browser, home))
    try:
        await rig.on(_shows(page, "The hub does not know this window's token"))
    finally:
        await rig.on(page.context.close())
        await rig.on(rig.stop_serving(server))


async def _shows(page: Page, text: str) -> None:
    item = page.locator(".statusbar-item[id*='bascule']")
    await expect(item).to_have_attribute("aria-label", re.compile(re.escape(text)))


async def _claim(url: str, token: str, window_id: str) -> tuple[int, Any]:
    """Register under the id with a key of our own."""
    answers: list[tuple[int, Any]] = []

    async def register(hello: Mapping[str, Any]) -> None:
        body = {
            "nonce": hello["nonce"],
            "window_id": window_id,
            "window_key": secrets.token_urlsafe(32),
            "host_id": str(uuid4()),
        }
        async with Client(url, token=token) as http:
            answers.append(await http.ask("POST", "/api/vscode/register", body))

    claimant = SocketClient(
        url, token, namespace="/window", client="x", handlers={}, on_connected=register
    )
    async with claimant:
        await claimant.connect()
    return answers[0]
