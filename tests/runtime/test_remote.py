"""`RemoteRuntime` against an action server on a real socket, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import CmdRun
from bascule.core.errors import (
    AccessDenied,
    RemoteError,
    SandboxDied,
    SandboxUnreachable,
)
from bascule.core.observations import Error
from bascule.runtime import RemoteRuntime, Verbs
from bascule.sandbox.server.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from tests.contracts.runtime import Make, RuntimeSuite, Seen, settings


class Served(RemoteRuntime):
    """A remote runtime that brings its server along."""

    def __init__(
        self, settings: SandboxSettings, server: ServerSettings | None = None, **keywords: Any
    ) -> None:
        sock = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        self.server = SandboxServer(server or ServerSettings(key="key"), settings, sock=sock)
        super().__init__(url, "key", **keywords)

    async def connect(self) -> None:
        await self.server.start()
        await super().connect()

    async def aclose(self) -> None:
        await super().aclose()
        await self.server.aclose()


class TestRemote(RuntimeSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return Served(settings, **keywords)

        return make


async def test_connecting_with_a_wrong_key_is_reported(tmp_path: Path) -> None:
    async with Served(settings(tmp_path)) as runtime:
        stranger = RemoteRuntime(runtime.url, "wrong")
        with pytest.raises(AccessDenied):
            await stranger.connect()
        with pytest.raises(AccessDenied):
            await stranger.act(CmdRun("true"))
        await stranger.aclose()


async def test_closing_a_remote_runtime_leaves_the_sandbox_unchanged(tmp_path: Path) -> None:
    async with Served(settings(tmp_path)) as runtime:
        async with RemoteRuntime(runtime.url, "key") as guest:
            await guest.run("word=kept")
        assert (await runtime.run("echo $word")).content == "kept\n"


async def test_two_clients_share_shells_and_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with Served(settings(tmp_path)) as one, RemoteRuntime(one.url, "key") as two:
        seen = Seen()
        running = asyncio.create_task(one.run("echo up; cat", shell="a", on_progress=seen))
        await seen.wait_for(b"up")
        assert (await two.run("echo free", shell="b")).content == "free\n"
        assert (await two.run("echo no", shell="a")).metadata.state == "refused"
        await two.interrupt("a")
        assert (await running).exit_code == 130


async def test_pending_actions_fail_with_sandbox_died_when_the_server_stops(tmp_path: Path) -> None:
    async with Served(settings(tmp_path)) as runtime:
        seen = Seen()
        watched = asyncio.create_task(runtime.run("echo up; cat", on_progress=seen))
        await seen.wait_for(b"up")
        plain = asyncio.create_task(runtime.run("cat", shell="other"))
        while len((await runtime._request_json("GET", "/shells"))["shells"]) < 2:
            pass
        await runtime.server.aclose()
        for task in (watched, plain):
            with pytest.raises(SandboxDied):
                await task
        with pytest.raises(SandboxUnreachable) as lost:
            await runtime.run("true")
        assert lost.value.detail["sent"] is False


async def test_an_action_too_large_for_the_server_is_an_error_observation(tmp_path: Path) -> None:
    small = ServerSettings(key="key", max_message=10_000)
    async with Served(settings(tmp_path), small) as runtime:
        seen = await runtime.act(CmdRun("#" * 20_000))
        assert isinstance(seen, Error)
        assert seen.error_id == "message.too_large"
        assert (await runtime.run("echo fine")).content == "fine\n"


async def test_progress_too_fast_for_the_stream_is_read_from_the_log(tmp_path: Path) -> None:
    tight = ServerSettings(key="key", stream_lag=4096)
    async with Served(settings(tmp_path), tight) as runtime:
        seen = Seen()
        await runtime.run("seq 1 40000", on_progress=seen)
        assert seen.data == b"".join(b"%d\n" % n for n in range(1, 40_001))


async def test_a_connection_used_for_streaming_is_reused(tmp_path: Path) -> None:
    async with Served(settings(tmp_path)) as runtime:
        for _ in range(3):
            await runtime.run("echo hi", on_progress=Seen())
        assert len(runtime._http._idle) == 1


async def test_connecting_to_an_unreachable_server_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    runtime = RemoteRuntime(url, "key", connect_timeout=0.05)
    with pytest.raises(SandboxUnreachable):
        await runtime.connect()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[RemoteRuntime]:
    """A runtime whose server gives everybody the same answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        runtime = RemoteRuntime(f"http://{host}:{port}", "key")
        yield runtime
        await runtime.aclose()


def http(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


@pytest.mark.parametrize("status", [404, 502, 503, 504])
async def test_a_proxy_error_page_means_the_sandbox_is_unreachable(status: int) -> None:
    async with answering(http(status, b"<html>no such thing</html>")) as runtime:
        with pytest.raises(SandboxUnreachable, match="gone or paused"):
            await runtime.act(CmdRun("true"))


@pytest.mark.parametrize(
    "answer",
    [
        http(500, b"<html>oops</html>"),
        http(200, b"<html>a page of somebody else</html>"),
        http(200, b'{"observation": "from-the-future"}'),
        http(200, b'{"observation": "run", "content": 3}'),
        http(500, b'{"error": {"code": "from.the.future", "message": "m", "detail": {}}}'),
    ],
)
async def test_an_unreadable_response_is_a_remote_error(answer: bytes) -> None:
    async with answering(answer) as runtime:
        with pytest.raises(RemoteError):
            await runtime.act(CmdRun("true"))


async def test_a_truncated_response_is_not_retried() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{") as runtime:
        with pytest.raises(SandboxUnreachable) as lost:
            await runtime.act(CmdRun("true"))
        assert lost.value.detail["sent"] is True


async def test_a_truncated_stream_is_reported_as_unreachable() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for rest in (b"", b"0\r\n\r\n"):
        async with answering(head + rest) as runtime:
            with pytest.raises(SandboxUnreachable):
                await runtime.act(CmdRun("true"), on_progress=print)
