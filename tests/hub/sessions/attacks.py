"""Attacks on a hub by its sessions and by strangers: the same list for every kind of hub.

`tests/hub/sessions/test_every_hub.py` has a hub of root's, one with a user of its own and one
behind nginx; `tests/runtime/spawn/docker/test_hub_attacks.py` one with sessions in containers.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from bascule.link.http import HttpClient
from bascule.link.sse import EventReader
from bascule.wire import from_json, to_json

TIMEOUT: Final = 120.0
MEGABYTE: Final = 1 << 20


@dataclass(frozen=True)
class Site:
    """A hub in a process of its own."""

    url: str
    token: str
    """An admin's."""
    pid: int
    state: Path
    tls: ssl.SSLContext | None = None

    def client(self, token: str = "") -> HubClient:
        return HubClient(self, token or self.token)

    def peak(self) -> int:
        """Bytes of memory that the hub's process has had at most."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found
        return int(found[1]) << 10

    def workspace(self, session: str) -> Path:
        return self.state / "sessions" / session / "workspace"


class HubClient(HttpClient):
    def __init__(self, site: Site, token: str) -> None:
        super().__init__(site.url, headers={"Authorization": f"Bearer {token}"}, tls=site.tls)

    async def ask(
        self,
        method: str,
        where: str,
        value: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        body = b"" if value is None else to_json(value)
        kind = {} if value is None else {"Content-Type": "application/json"}
        reply = await self.request(
            method, where, body=body, headers={**kind, **(headers or {})}, timeout=TIMEOUT
        )
        is_json = reply.headers.get("content-type") == "application/json"
        return reply.status, from_json(reply.body) if is_json else reply.body

    async def must(self, method: str, where: str, value: object = None) -> Any:
        status, answer = await self.ask(method, where, value)
        assert status == 200, (status, answer)
        return answer

    async def owner(self, name: str) -> str:
        """A new token of somebody who is no admin."""
        asked = {"name": f"{name} {secrets.token_hex(4)}", "scope": "agent", "owner": name}
        token: str = (await self.must("POST", "/api/tokens", asked))["token"]
        return token

    async def ready(self, body: Mapping[str, Any] | None = None) -> str:
        session: str = (await self.must("POST", "/api/sessions", body or {}))["id"]
        async with self.stream("GET", f"/api/sessions/{session}/events") as reply:
            reader = EventReader()
            async for chunk in reply.chunks():
                for event in reader.feed(chunk):
                    state = from_json(event.data).get("state")
                    assert state != "failed", event
                    if state == "ready":
                        return session
        raise AssertionError("the session never became ready")

    async def run(self, session: str, command: str) -> str:
        asked = {"action": "run", "args": {"command": command}}
        answer = await self.must("POST", f"/api/sessions/{session}/actions", asked)
        content: str = answer["content"]
        return content

    async def write(self, session: str, path: str, content: str) -> None:
        asked = {"action": "write", "args": {"path": path, "content": content}}
        await self.must("POST", f"/api/sessions/{session}/actions", asked)


_IMPOSTOR: Final = r"""
import os, socket, sys, threading
PLACE = "/run/bascule/sandbox.sock"
HOW = sys.argv[1]

def serve(each):
    head = b""
    while b"\r\n\r\n" not in head:
        piece = each.recv(65536)
        if not piece:
            return
        head += piece
    with open("/workspace/heads", "ab") as heads:
        heads.write(head)
    ok = b"HTTP/1.1 200 OK\r\n"
    if HOW == "quiet":
        each.sendall(ok + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
        return
    pieces = b"2\r\n\xf0\x9f\r\n2\r\n\x98\x80\r\n"
    begin, piece = {
        "head": (b"X: ", b"x" * 65536),
        "body": (b"Transfer-Encoding: chunked\r\n\r\n", pieces * 4096),
        "events": (b"Content-Type: text/event-stream\r\n\r\ndata: ", b"x" * 65536),
    }[HOW]
    each.sendall(ok + begin)
    for _ in range(6000):
        each.sendall(piece)

def talk(each):
    with each:
        try:
            serve(each)
        except OSError:
            pass

made = socket.socket(socket.AF_UNIX)
made.bind(PLACE + "~")
os.chmod(PLACE + "~", 0o666)
made.listen(100)
os.rename(PLACE + "~", PLACE)
open("/workspace/up", "w").close()
while True:
    threading.Thread(target=talk, args=made.accept()[:1], daemon=True).start()
"""


async def _impostor(client: HubClient, session: str, how: str) -> None:
    """From now on a program of the session answers in the place of its sandbox."""
    await client.write(session, "impostor.py", _IMPOSTOR)
    start = f"setsid python3 impostor.py {how} >said 2>&1 & until [ -e up ]; do sleep 0.1; done"
    await client.run(session, start)


async def no_credential_reaches_a_session(site: Site) -> None:
    async with site.client() as admin:
        token = await admin.owner("ada")
    async with site.client(token) as ada:
        session = await ada.ready()
        await _impostor(ada, session, "quiet")
        sent = {"X-API-Key": token, "X-Session-API-Key": token}
        sent |= {"X-Bascule-Page": token, "Referer": f"{site.url}/?tkn={token}"}
        for place in (f"/openhands/v0/{session}", f"/sandbox/{session}"):
            where = f"{place}/asked?session_api_key={token}"
            status, answer = await ada.ask("GET", where, headers=sent)
            assert status == 200, answer
        heads = await asyncio.to_thread((site.workspace(session) / "heads").read_text)
        assert heads.count("GET /asked") == 2, heads
        assert token not in heads
        await ada.must("DELETE", f"/api/sessions/{session}")


async def no_answer_of_a_session_takes_the_hubs_memory(site: Site) -> None:
    """Twenty at a time of each kind, each of hundreds of megabytes if they were taken whole."""
    async with site.client() as admin:
        for how in ("head", "body", "events"):
            session = await admin.ready()
            await _impostor(admin, session, how)
            before = site.peak()
            event = {"action": "run", "args": {"command": "true"}, "timeout": 20}
            where = f"/api/sessions/{session}"
            asked = [admin.ask("POST", f"{where}/actions", event) for _ in range(20)]
            asked += [admin.ask("GET", f"{where}/ports") for _ in range(20)]
            await asyncio.gather(*asked, return_exceptions=True)
            grown = site.peak() - before
            assert grown < 400 * MEGABYTE, (how, grown)
            assert (await admin.ask("GET", "/health"))[0] == 200
            await admin.must("DELETE", where)


async def output_is_cut_though_the_session_does_not(site: Site) -> None:
    path = "/workspace/bin:/usr/local/bin:/usr/bin:/bin"
    async with site.client() as admin:
        session = await admin.ready({"environment": {"PATH": path}})
        await admin.run(
            session, "mkdir bin && printf '#!/bin/sh\\n' > bin/truncate && chmod 755 bin/truncate"
        )
        before = site.peak()
        asked = {"command": "head -c 160M /dev/zero | tr '\\0' x", "timeout": 60}
        where = f"/openhands/v1/{session}/api/bash/execute_bash_command"
        told = await admin.must("POST", where, asked)
        assert told["exit_code"] == 0
        assert 0 < len(told["stdout"]) <= 12 * MEGABYTE
        assert site.peak() - before < 200 * MEGABYTE
        await admin.must("DELETE", f"/api/sessions/{session}")


async def what_a_server_says_of_itself_is_told(site: Site) -> None:
    async with site.client() as admin:
        session = await admin.ready()
        status, told = await admin.ask("GET", f"/sandbox/{session}/server_info")
        assert status == 200, told
        assert told["resources"]["memory"]["rss"] > 0
        assert set(told["resources"]["io"]) == {"read_bytes", "write_bytes"}
        await admin.must("DELETE", f"/api/sessions/{session}")


async def no_error_names_a_path_of_the_host(site: Site) -> None:
    async with site.client() as admin:
        token = await admin.owner("ada")
    async with site.client(token) as ada:
        session = await ada.ready()
        await ada.run(session, "mv /run/bascule/sandbox.sock /run/bascule/away.sock")
        where = f"/api/sessions/{session}/ports"
        # Connections that are kept go on; more at a time than there are of them need new ones.
        answers = await asyncio.gather(*(ada.ask("GET", where) for _ in range(20)))
        failed = [answer for status, answer in answers if status != 200]
        assert failed
        for each in failed:
            assert str(site.state) not in str(each), each
            assert "sandbox.sock" not in str(each), each
        await ada.must("DELETE", f"/api/sessions/{session}")


_CONNECTING: Final = r"""
import socket
made, answered = [], 0
for _ in range(200):
    each = socket.socket(socket.AF_UNIX)
    each.settimeout(20)
    made.append(each)
    try:
        each.connect("/run/hub/hub.sock")
        each.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answered += each.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        pass
print("answered", answered)
"""


async def a_session_has_few_connections_to_the_hub(site: Site) -> None:
    async with site.client() as admin:
        session = await admin.ready()
        await admin.write(session, "connecting.py", _CONNECTING)
        said = await admin.run(session, "python3 connecting.py")
        assert 1 <= int(said.split()[-1]) <= 64, said
        again = await admin.run(session, "python3 connecting.py")  # the first have ended
        assert int(again.split()[-1]) >= 1, again
        await admin.must("DELETE", f"/api/sessions/{session}")


async def wrong_pairing_codes_block_only_their_address(site: Site) -> None:
    """Whatever address the attacker claims to have, to whoever stands before the hub."""
    async with site.client() as admin:
        code = (await admin.must("POST", "/api/vscode/pair"))["code"]
        statuses = []
        for number in range(11):
            claimed = f"X-Real-IP: 192.0.2.{number}" if site.tls else "X-Forwarded-For: 192.0.2.1"
            wrong = await _raw(site, "POST /api/vscode/pair/AAAAAAAA", claimed, source="127.0.0.2")
            statuses.append(wrong.split()[1])
            assert (b"minute" in wrong) is (number == 10), wrong
        assert statuses == [b"403"] * 11
        right = await _raw(site, f"POST /api/vscode/pair/{code}", source="127.0.0.1")
        assert right.startswith(b"HTTP/1.1 200"), right


async def a_host_is_one_plain_name(site: Site) -> None:
    own = site.url.partition("//")[2]
    wrong = [f"Host: {own}\r\nHost: evil.example", "Host: localhost:1@evil.example"]
    wrong += [f"Host: {own}@evil.example", "Host: localhost/evil.example"]
    for host in wrong:
        for path in ("/health", "/", "/sign-in", "/api/sessions"):
            answer = await _raw(site, f"GET {path}", host=host)
            assert answer.startswith(b"HTTP/1.1 400"), (host, path, answer)


async def _raw(site: Site, line: str, *headers: str, host: str = "", source: str = "") -> bytes:
    """What a request is answered, from an address of this machine."""
    own = site.url.partition("//")[2]
    name, _, port = own.rpartition(":")
    reader, writer = await asyncio.open_connection(
        "127.0.0.1",
        int(port),
        ssl=site.tls,
        server_hostname=name if site.tls else None,
        local_addr=(source, 0) if source else None,
    )
    lines = [f"{line} HTTP/1.1", host or f"Host: {own}", "Connection: close", "Content-Length: 0"]
    writer.write("\r\n".join([*lines, *headers, "", ""]).encode())
    async with asyncio.timeout(TIMEOUT):
        answer = await reader.read()
    writer.close()
    return answer


async def a_revoked_token_loses_what_it_opened(site: Site) -> None:
    name = f"revoked-{secrets.token_hex(4)}"
    tls = site.tls or True
    async with site.client() as admin, aiohttp.ClientSession() as browser:
        asked = {"name": name, "scope": "agent", "owner": "ada"}
        token = (await admin.must("POST", "/api/tokens", asked))["token"]
        bearer = {"Authorization": f"Bearer {token}"}
        async with site.client(token) as ada:
            session = await ada.ready()
            events = f"{site.url}/api/sessions/{session}/events"
            socket_io = f"{site.url}/socket.io/?EIO=4&transport=websocket"
            async with (
                browser.get(events, headers=bearer, ssl=tls) as stream,
                browser.ws_connect(socket_io, headers=bearer, ssl=tls) as socket,
            ):
                await socket.receive()
                acting = asyncio.create_task(ada.run(session, "touch began; sleep 600"))
                while not await asyncio.to_thread((site.workspace(session) / "began").exists):
                    await asyncio.sleep(0.05)  # another process makes it
                await admin.must("DELETE", f"/api/tokens/{name}")
                async with asyncio.timeout(30):
                    while not (await socket.receive()).type.name.startswith("CLOS"):
                        pass
                    with contextlib.suppress(aiohttp.ClientError):
                        await stream.content.read()
                    ended = (await asyncio.gather(acting, return_exceptions=True))[0]
                    assert isinstance(ended, Exception), ended
        await admin.must("DELETE", f"/api/sessions/{session}")


Attack = Callable[[Site], Coroutine[Any, Any, None]]

ATTACKS: Final[list[Attack]] = [
    no_credential_reaches_a_session,
    no_answer_of_a_session_takes_the_hubs_memory,
    output_is_cut_though_the_session_does_not,
    what_a_server_says_of_itself_is_told,
    no_error_names_a_path_of_the_host,
    a_session_has_few_connections_to_the_hub,
    wrong_pairing_codes_block_only_their_address,
    a_host_is_one_plain_name,
    a_revoked_token_loses_what_it_opened,
]
