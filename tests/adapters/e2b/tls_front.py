"""A TLS server in front of a hub, with a certificate for a wildcard name."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


def make_certificate(directory: Path, domain: str) -> tuple[Path, Path]:
    """A self-signed certificate for `*.domain` and its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={domain}"),
            *("-addext", f"subjectAltName=DNS:*.{domain}"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@asynccontextmanager
async def tls_front(
    certificate: Path, key: Path, port: int, *, listening: socket.socket
) -> AsyncIterator[None]:
    """Passes connections to a bound socket on to `port` of this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_hub, hub_writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pass_on(reader, hub_writer))
            tasks.create_task(pass_on(to_hub, writer))

    server = await asyncio.start_server(serve, sock=listening, ssl=context)
    async with server:
        yield
