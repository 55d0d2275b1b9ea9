"""An ACP client for tests, which starts `bascule acp` as any client starts an agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.cli.processes import BASCULE, environment

LIMIT = 120.0
SCRIPTED_AGENT = [sys.executable, str(Path(__file__).with_name("scripted_agent.py"))]
Answer = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Answers a request of the agent, given its method and parameters: a `result` or an `error`."""


async def refuse(method: str, _: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"error": {"code": -32601, "message": f"{method} is not known here"}}


class AcpClient:
    """The client's end of a conversation. Records everything that arrives."""

    def __init__(self, process: asyncio.subprocess.Process, answer: Answer) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._answer = answer
        self._number = 0
        self._pending: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self.updates: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []
        self.stray: list[dict[str, Any]] = []
        """Answers to no request of ours."""
        self.lines: list[bytes] = []
        self.changed = asyncio.Event()
        self.session = ""
        self.ended = asyncio.create_task(self._read())

    async def send(self, body: Mapping[str, Any]) -> None:
        await self.send_raw(json.dumps({"jsonrpc": "2.0", **body}).encode() + b"\n")

    async def send_raw(self, data: bytes) -> None:
        self._stdin.write(data)
        await self._stdin.drain()

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The whole answer to a request."""
        self._number += 1
        pending = asyncio.get_running_loop().create_future()
        self._pending[self._number] = pending
        await self.send({"id": self._number, "method": method, "params": params})
        async with asyncio.timeout(LIMIT):
            await asyncio.wait({pending, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        assert pending.done(), f"the proxy ended: {self.process.returncode}"
        answer: dict[str, Any] = pending.result()
        return answer

    async def result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    async def begin(self, cwd: str, **capabilities: Any) -> None:
        """Initialize and open a session."""
        info = {"protocolVersion": 1, "clientCapabilities": capabilities}
        await self.result("initialize", info)
        opened = await self.result("session/new", {"cwd": cwd, "mcpServers": []})
        self.session = opened["sessionId"]

    async def prompt(self, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return await self.result("session/prompt", {"sessionId": self.session, "prompt": content})

    async def steps(self, *steps: Mapping[str, Any]) -> list[Any]:
        """Let the scripted agent take steps; returns the result of each."""
        before = len(self.updates)
        await self.prompt(json.dumps(steps))
        return [json.loads(text) for text in self.texts(before)]

    def texts(self, start: int = 0) -> list[str]:
        """The agent's words."""
        return [
            each["content"]["text"]
            for each in self.updates[start:]
            if each["sessionUpdate"] == "agent_message_chunk"
        ]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(LIMIT):
            while not condition():
                changed = asyncio.create_task(self.changed.wait())
                await asyncio.wait({changed, self.ended}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                assert not self.ended.done() or condition(), "the proxy ended"

    async def end(self) -> int:
        """Close stdin, as a client that stops does; returns the proxy's exit code."""
        self._stdin.close()
        async with asyncio.timeout(LIMIT):
            await self.ended
            return await self.process.wait()

    async def _read(self) -> None:
        while line := await self._stdout.readline():
            self.lines.append(line)
            message = json.loads(line)  # the proxy sends nothing else
            assert message["jsonrpc"] == "2.0"
            match message:
                case {"method": "session/update"}:
                    self.updates.append(message["params"]["update"])
                case {"method": _, "id": _}:
                    self.requests.append(message)
                    answering = asyncio.create_task(self._reply(message))
                    self._answering.add(answering)
                    answering.add_done_callback(self._answering.discard)
                case {"method": _}:
                    self.notifications.append(message)
                case {"id": number} if number in self._pending:
                    self._pending.pop(number).set_result(message)
                case _:
                    self.stray.append(message)
            self.changed.set()
            self.changed = asyncio.Event()

    async def _reply(self, message: Mapping[str, Any]) -> None:
        answer = await self._answer(message["method"], message.get("params") or {})
        await self.send({"id": message["id"], **answer})


@asynccontextmanager
async def open_client(
    *arguments: str,
    hub: str,
    token: str,
    agent: Sequence[str] = SCRIPTED_AGENT,
    answer: Answer = refuse,
    cwd: Path | None = None,
    **env: str,
) -> AsyncIterator[AcpClient]:
    """`bascule acp ARGUMENTS -- AGENT` with a client."""
    process = await asyncio.create_subprocess_exec(
        *(*BASCULE, "acp", *arguments, "--", *agent),
        env=environment(BASCULE_HUB=hub, BASCULE_TOKEN=token, **env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=cwd,
        limit=1 << 26,
    )
    client = AcpClient(process, answer)
    try:
        yield client
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(LIMIT):
            await process.wait()
            await client.ended


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(pid: int, number: int) -> None:
    os.kill(pid, number)
