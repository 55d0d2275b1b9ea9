"""Who may come in, and who may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bascule.core.errors import AccessDenied, HubUnreachable, VersionMismatch
from bascule.link.hub import HubLink
from bascule.link.socketio import SocketClient
from bascule.wire import from_json

from .serving import ADMIN, Client, RunningHub

MEGABYTE = 1 << 20


@pytest.fixture
async def hub() -> AsyncIterator[RunningHub]:
    async with RunningHub(message_bytes=MEGABYTE, max_body=MEGABYTE) as hub:
        yield hub


@pytest.mark.parametrize("path", ["/api/vscode/instances", "/metrics", "/api/tokens", "/nowhere"])
async def test_every_call_needs_a_token(hub: RunningHub, path: str) -> None:
    async with Client(hub.url, token="") as nobody, Client(hub.url, token="x") as stranger:
        for client in (nobody, stranger):
            status, said = await client.ask("GET", path)
            assert (status, said["code"]) == (401, "access.denied")


async def test_health_and_docs_need_no_token(hub: RunningHub) -> None:
    async with Client(hub.url, token="") as nobody:
        assert (await nobody.ask("GET", "/health"))[1]["status"] == "ok"
        status, schema = await nobody.ask("GET", "/openapi.json")
        assert status == 200
        assert "/api/vscode/instances" in schema["paths"]
        status, page = await nobody.ask("GET", "/docs")
        assert b"/api/vscode/instances" in page
        assert b"<script" not in page


async def test_each_scope_permits_only_its_calls(hub: RunningHub) -> None:
    async with (
        Client(hub.url, token=hub.window) as window,
        Client(hub.url, token=hub.agent) as agent,
    ):
        assert (await agent.ask("GET", "/api/vscode/instances"))[0] == 200
        assert (await agent.ask("GET", "/metrics"))[0] == 200
        for client, method, path in (
            (window, "GET", "/api/vscode/instances"),
            (window, "POST", "/api/vscode/pair"),
            (agent, "POST", "/api/vscode/pair"),
            (agent, "GET", "/api/tokens"),
        ):
            status, said = await client.ask(method, path)
            assert (status, said["code"]) == (403, "access.denied"), path


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
)
async def test_a_foreign_host_or_origin_is_refused(
    hub: RunningHub, headers: dict[str, str]
) -> None:
    """Host twice would be another matter, so the bare client of aiohttp asks."""
    bearer = {"Authorization": f"Bearer {ADMIN}"}
    async with aiohttp.ClientSession(headers={**bearer, **headers}) as session:
        async with session.get(f"{hub.url}/api/vscode/instances") as answer:
            assert answer.status == 403
            assert (await answer.json())["code"] == "access.denied"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{hub.url}/socket.io/?EIO=4&transport=websocket")
        assert refused.value.status == 403


async def test_requests_from_the_hubs_own_origin_are_accepted(hub: RunningHub) -> None:
    async with Client(hub.url) as client:
        status, _ = await client.ask("GET", "/api/vscode/instances", headers={"Origin": hub.url})
        assert status == 200


async def test_a_socket_without_a_good_token_is_refused_in_its_handshake(hub: RunningHub) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        async with aiohttp.ClientSession(headers=headers) as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{hub.url}/socket.io/?EIO=4&transport=websocket")
            assert refused.value.status == 401


async def test_the_hub_link_reports_a_wrong_token(hub: RunningHub) -> None:
    async with HubLink(hub.url, "wrong") as link:
        with pytest.raises(AccessDenied, match="401"):
            await link.connect()


async def test_a_token_of_the_wrong_scope_is_told_the_required_one(hub: RunningHub) -> None:
    async with HubLink(hub.url, hub.window) as link:
        with pytest.raises(AccessDenied, match="agent or admin"):
            await link.connect()
    admin = SocketClient(hub.url, ADMIN, namespace="/window", client="me", handlers={})
    async with admin:
        with pytest.raises(AccessDenied, match="window or session"):
            await admin.connect()


async def test_closing_a_client_during_its_cleanup_leaves_nothing_open(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SocketClient(hub.url, "wrong", namespace="/runtime", client="me", handlers={})
    cleaning_up = asyncio.Event()
    made = []

    def make(*given: Any) -> Any:
        socket = SocketClient._new_socket(client, *given)
        disconnect = socket.disconnect
        made.append(socket)

        async def disconnect_slowly() -> None:
            if not cleaning_up.is_set():
                cleaning_up.set()
                await asyncio.Event().wait()
            await disconnect()

        monkeypatch.setattr(socket, "disconnect", disconnect_slowly)
        return socket

    monkeypatch.setattr(client, "_new_socket", make)
    connecting = asyncio.create_task(client.connect())
    await cleaning_up.wait()
    http = made[0].eio.http
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    await client.aclose()

    assert http.closed


async def test_an_unreachable_hub_raises_hub_unreachable(hub: RunningHub) -> None:
    await hub.stop()
    async with HubLink(hub.url, hub.agent) as link:
        with pytest.raises(HubUnreachable, match=hub.url):
            await link.connect()


@pytest.mark.parametrize(
    ("protocol", "advice"), [(2, "update the hub"), (0, "update bascule-vscode/9")]
)
async def test_a_protocol_mismatch_says_which_side_to_upgrade(
    hub: RunningHub, protocol: int, advice: str
) -> None:
    client = SocketClient(
        hub.url,
        hub.window,
        namespace="/window",
        client="bascule-vscode/9",
        handlers={},
        protocol=protocol,
    )
    async with client:
        with pytest.raises(VersionMismatch, match=advice):
            await client.connect()


async def test_a_malformed_http_request_is_rejected_in_the_standard_error_format(
    hub: RunningHub,
) -> None:
    host, port = hub.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"nonsense\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()

    assert head.startswith(b"HTTP/1.1 400 ")
    assert from_json(body) == {
        "code": "request.invalid",
        "message": "Invalid HTTP request received.",
        "detail": {},
    }


# Sizes ------------------------------------------------------------------------------------


async def test_a_body_past_the_limit_is_refused_declared_or_not(hub: RunningHub) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * MEGABYTE

    kind = {"Content-Type": "application/json"}
    path = "/api/vscode/instance/x/actions"
    async with Client(hub.url) as client:
        for body in (b" " * 2 * MEGABYTE, chunks()):
            reply = await client.request("POST", path, body=body, headers=kind, timeout=20)
            assert reply.status == 413
            assert from_json(reply.body)["code"] == "message.too_large"


async def test_a_body_that_is_no_json_is_refused(hub: RunningHub) -> None:
    async with Client(hub.url, token=hub.window) as client:
        for kind, status in (("text/plain", 415), ("application/json", 422)):
            reply = await client.request(
                "POST", "/api/vscode/register", body=b"hi", headers={"Content-Type": kind}
            )
            assert reply.status == status


@pytest.mark.slow
async def test_a_frame_past_the_limit_closes_its_socket_and_no_other(
    hub: RunningHub, tmp_path: Path
) -> None:
    async with hub.fake_window(tmp_path) as window:
        huge = SocketClient(hub.url, hub.agent, namespace="/runtime", client="me", handlers={})
        lost = asyncio.Event()
        huge._on_lost = lost.set
        async with huge, HubLink(hub.url, hub.agent) as other:
            await other.connect()
            await huge.connect()
            huge._open_socket.max_sent = 0  # as a client that ignores the hub's limit
            await huge.emit("oh_event", {"window_id": "x", "event": "x" * 100 * MEGABYTE})
            await asyncio.wait_for(lost.wait(), 30)
            assert len(await other.windows()) == 1
            assert window.is_connected
            assert other._socket.is_connected
