"""Waits until a new sandbox's action server answers, or until the sandbox ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

from bascule.core.errors import LinkError, SandboxStartFailed
from bascule.runtime.remote import RemoteRuntime
from bascule.sandbox.session.__main__ import SOCKET

_EXIT_TIMEOUT: Final = 2.0
"""Seconds to wait for the end of a server that broke a connection, to report why it ended."""


async def wait_until_ready(
    run_dir: Path,
    key: str,
    *,
    ended: Awaitable[str],
    within: float,
    announced: Awaitable[object] | None = None,
) -> None:
    """Wait until the action server accepts `key`; raises `SandboxStartFailed` with the cause.

    `ended` returns how the sandbox ended, if it ends. `announced` returns when the sandbox has
    reported that it listens; without `announced`, this function polls.
    """
    path = run_dir / SOCKET
    runtime = RemoteRuntime("http://localhost", key, socket_path=path, connect_timeout=within)
    connecting = asyncio.ensure_future(_connect(runtime, announced))
    ending = asyncio.ensure_future(ended)
    try:
        async with asyncio.timeout(within):
            await asyncio.wait({connecting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if connecting.done() and isinstance(connecting.exception(), LinkError):
                # Connections break shortly before the sandbox ends.
                await asyncio.wait({ending}, timeout=_EXIT_TIMEOUT)
            if ending.done():
                end = ending.result()
                raise SandboxStartFailed(f"The sandbox ended before it answered: {end}")
            await connecting
    except TimeoutError:
        raise SandboxStartFailed(f"The sandbox did not answer within {within:g} seconds") from None
    finally:
        connecting.cancel()
        ending.cancel()
        await asyncio.gather(connecting, ending, return_exceptions=True)
        await runtime.aclose()


async def _connect(runtime: RemoteRuntime, announced: Awaitable[object] | None) -> None:
    if announced is not None:
        await announced
    await runtime.connect()
