"""`RemoteRuntime` against an action server on a real socket."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from bascule.runtime import RemoteRuntime, Verbs
from bascule.sandbox.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from tests.contracts.runtime import Make, RuntimeSuite


class Served(RemoteRuntime):
    """A remote runtime that brings its server along."""

    def __init__(self, settings: SandboxSettings, **keywords: Any) -> None:
        sock = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        self.server = SandboxServer(ServerSettings(key="key"), settings, sock=sock)
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
