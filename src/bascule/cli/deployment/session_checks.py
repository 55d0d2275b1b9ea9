"""Checks with two temporary sessions: their isolation from each other, and a web app in one."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import BasculeError
from bascule.link.sessions import HubSession, SessionCalls
from bascule.runtime.cloud import CloudRuntime

from .checks import CheckFailed
from .web import DeploymentClient, origin_of

FILE: Final = "found-by-the-doctor.txt"
_PORT_TIMEOUT: Final = 30.0
_COMMAND_TIMEOUT: Final = 60.0
_APP_FILE: Final = ".doctor_app.py"
_APP: Final = r"""
import asyncio, base64, hashlib
WORD = "@WORD@"
PAGE = f'<script src="script.js"></script>{WORD}'.encode()
async def serve(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = [line.partition(":") for line in head.split("\r\n")[1:]]
    given = {name.lower(): value.strip() for name, _, value in lines}
    if given.get("upgrade", "").lower() != "websocket":
        body = WORD.encode() if head.split()[1].endswith("/script.js") else PAGE
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        return writer.close()
    key = given["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                 f"Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    writer.write(bytes([0x81, len(WORD)]) + WORD.encode())
    await writer.drain()
    await reader.read()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class SessionPair:
    """Two ready sessions of one owner, and the checks that use both."""

    def __init__(
        self, front: DeploymentClient, token: str, first: HubSession, second: HubSession
    ) -> None:
        self._front = front
        self._token = token
        self.first = first
        self.second = second
        self._word = secrets.token_hex(16)
        self._app = ""
        self._port = 0

    async def check_isolation(self) -> str:
        """Search the second session for a file, a process and a port of the first."""
        async with self._session_runtime(self.second) as two:
            search = await two.run(
                f"find / -xdev -name {FILE} -print -quit 2>/dev/null", timeout=_COMMAND_TIMEOUT
            )
            if search.content.strip():
                raise _not_isolated(f"a session can read another's files: {search.content.strip()}")
            # The brackets keep grep from matching its own command line.
            word = f"'[{self._word[0]}]{self._word[1:]}'"
            find_process = f"grep -la {word} /proc/[0-9]*/cmdline 2>/dev/null | head -1"
            if (await two.run(find_process, timeout=_COMMAND_TIMEOUT)).content.strip():
                raise _not_isolated("a session sees the processes of another")
            connect_command = (
                f"(exec 3<>/dev/tcp/127.0.0.1/{self._port}) 2>/dev/null && echo reached"
            )
            if (
                self._port
                and (await two.run(connect_command, timeout=_COMMAND_TIMEOUT)).content.strip()
            ):
                raise _not_isolated("a session reaches the ports of another on loopback")
        return "a session cannot reach the files, processes or ports of another"

    async def check_network(self) -> str:
        list_interfaces = (
            "ls /sys/class/net 2>/dev/null || awk 'NR>2{print $1}' /proc/net/dev | tr -d :"
        )
        async with self._session_runtime(self.second) as two:
            interfaces = (await two.run(list_interfaces, timeout=_COMMAND_TIMEOUT)).content.split()
            routes = (await two.run("tail -n +2 /proc/net/route", timeout=_COMMAND_TIMEOUT)).content
        outside = [name for name in interfaces if name != "lo"]
        if outside and routes.strip():
            raise CheckFailed(
                f"a session with egress off has network access: {', '.join(outside)}",
                "the spawner does not isolate sessions from the network; see docs/sandboxes.md",
            )
        return "a session with egress off has only loopback"

    async def check_websocket(self) -> str:
        if not self._app:
            raise CheckFailed("not checked, because the app failed")
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        address = self._app.replace("http", "ws", 1)
        is_secure = address.startswith("wss:")
        tls = await asyncio.to_thread(ssl.create_default_context) if is_secure else None
        try:
            async with (
                asyncio.timeout(_COMMAND_TIMEOUT),
                connect(
                    address, additional_headers=self._front.bearer, proxy=None, ssl=tls
                ) as websocket,
            ):
                received = await websocket.recv()
        except InvalidStatus as error:
            raise CheckFailed(
                f"a WebSocket upgrade is answered with HTTP {error.response.status_code}: "
                "the reverse proxy does not pass it on",
                "nginx needs `proxy_http_version 1.1`, `proxy_set_header Upgrade $http_upgrade` "
                "and `Connection upgrade`; `bascule nginx` writes them",
            ) from error
        except (OSError, TimeoutError, WebSocketException) as error:
            raise CheckFailed(
                f"a WebSocket does not connect: {str(error) or type(error).__name__}",
                "look in the reverse proxy's log; `bascule nginx` writes a correct configuration",
            ) from error
        if received != self._word:
            raise CheckFailed("a WebSocket is connected to the wrong app")
        return "messages arrive"

    async def check_app(self) -> str:
        """Start an app in the first session and request it. The other checks use this app."""
        async with self._session_runtime(self.first) as one:
            await one.write(FILE, self._word)
            await self._open_app(one)
        for name in ("", "script.js"):
            path = urlsplit(self._app).path + name
            reply = await self._front.ask(path, self._front.bearer)
            if reply.status != 200 or self._word.encode() not in reply.body:
                raise CheckFailed(
                    f"{path} answers with HTTP {reply.status} instead of the app's page",
                    "the reverse proxy must pass on paths below /apps/ unchanged; "
                    "`apps_origin`, if set, must lead to the hub too",
                )
        return f"{self._app} serves the page and its script"

    async def _open_app(self, one: CloudRuntime) -> None:
        """Start an app in the first session, and find its port and address."""
        await one.write(_APP_FILE, _APP.replace("@WORD@", self._word))
        started = await one.run(
            f"mkfifo .doctor_says && {{ python3 {_APP_FILE} {self._word} >.doctor_says 2>&1 & "
            "head -n 1 .doctor_says; }",
            timeout=_COMMAND_TIMEOUT,
        )
        *_, port = ["", *started.content.split()]  # the shell prints its job announcement first
        if not port.isdigit():
            raise CheckFailed(
                f"an app does not start in a session: {started.content.strip()[-300:]}"
            )
        self._port = int(port)
        async with SessionCalls(self._front.url, self._token) as calls:
            url = await _address(calls, self.first.id, self._port)
        # Check the address that users open, even if the hub has another name configured.
        own = origin_of(url) == origin_of(self.first.vscode_url)
        self._app = self._front.url + urlsplit(url).path if own else url

    def _session_runtime(self, session: HubSession) -> CloudRuntime:
        return CloudRuntime(self._front.url, self._token, session_id=session.id)


async def _address(calls: SessionCalls, session_id: str, port: int) -> str:
    """Wait until the hub has noticed the app, and return the app's address."""
    try:
        async with asyncio.timeout(_PORT_TIMEOUT):
            async for event in calls.events(session_id):
                if event.name == "port.opened" and event.data["port"] == port:
                    return str(event.data["url"])
    except (TimeoutError, BasculeError) as error:
        for each in await calls.ports(session_id):
            if each["port"] == port:
                return str(each["url"])
        raise CheckFailed(
            "an app listens in a session, but the hub does not find it",
            "look in `bascule session logs`",
        ) from error
    raise CheckFailed("the event stream of a session ended early")


def _not_isolated(found: str) -> CheckFailed:
    return CheckFailed(
        f"sessions are not isolated: {found}",
        "use the spawner `local` with bubblewrap, or `docker`, without `allow_unisolated`",
    )
