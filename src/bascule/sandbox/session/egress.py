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
    """Return the proxy variables, in lower and upper case, because programs differ."""
    address, spared = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    names = {"http_proxy": address, "https_proxy": address, "no_proxy": spared}
    return names | {name.upper(): value for name, value in names.items()}


@asynccontextmanager
async def forward_to_proxy(socket_path: str, port: int = PORT) -> AsyncIterator[None]:
    """Forward the loopback port to the proxy's socket. Each connection opens the socket again,
    because the proxy behind it may have been replaced."""
    listening = socket.create_server(("127.0.0.1", port))
    async with Forwarder(listening, to_unix(Path(socket_path))) as forwarder:
        await forwarder.start()
        yield
