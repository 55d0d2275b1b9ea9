"""A bare Socket.IO server between an asker and a window: the least a hub could do.

Served as the hub is (the same server, WebSocket only, no compression), so that what is left
between the two is the hub's own work. Prints its address; ends when it is told to.
"""

from __future__ import annotations

import socket
from typing import Any

import socketio
import uvicorn
import uvloop


def relay() -> socketio.AsyncServer:
    """Hands `echo` on to whoever connected as the window last, and its answer back."""
    server = socketio.AsyncServer(async_mode="asgi", transports=["websocket"])
    window = ""

    async def connect(sid: str, _environ: object, auth: dict[str, str]) -> None:
        nonlocal window
        if auth["role"] == "window":
            window = sid

    async def echo(_sid: str, message: Any) -> Any:
        return await server.call("echo", message, to=window)

    server.on("connect", connect)
    server.on("echo", echo)
    return server


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        socketio.ASGIApp(relay()),
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="off",
        log_level="warning",
    )
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    uvloop.run(main())
