"""Egress of a sandbox without a network: a loopback port forwarded to the proxy's unix socket."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from .tunnel import Forwarder, to_unix

PORT: Final = 3128


def proxy_environment(port: int = PORT) -> Mapping[str, str]:
    """By which programs find the proxy. Some read the names in small letters, some the others."""
    address, spared = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    names = {"http_proxy": address, "https_proxy": address, "no_proxy": spared}
    return names | {name.upper(): value for name, value in names.items()}


@asynccontextmanager
async def way_out(socket_path: str, port: int = PORT) -> AsyncIterator[None]:
    """Whatever connects to the port is connected to the socket, anew each time: the proxy behind
    it may have been replaced meanwhile."""
    listening = socket.create_server(("127.0.0.1", port))
    async with Forwarder(listening, to_unix(Path(socket_path))) as forwarder:
        await forwarder.start()
        yield
