"""A session's sandbox as a spawner starts it, but without isolation, and a client of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bascule.link.http import HttpClient
from bascule.link.sse import EventReader
from bascule.sandbox.session.launch import SandboxLaunch
from bascule.wire import from_json, to_json
from tests.sandbox.serving import decoded

KEY = "a-key-of-the-test"
SESSION = "abcdefgh01234567"


def launch_in(directory: Path, **changes: Any) -> SandboxLaunch:
    for name in ("workspace", "run", "state", "home"):
        (directory / name).mkdir(exist_ok=True)
    launch = SandboxLaunch(
        key=KEY,
        working_dir=str(directory / "workspace"),
        run_dir=str(directory / "run"),
        state_dir=str(directory / "state"),
        environment={"PATH": os.environ["PATH"], "HOME": str(directory / "home")},
        session_id=SESSION,
    )
    return replace(launch, **changes)


class Session:
    """Asks a sandbox of a session. `workspace` and `run` are its directories."""

    def __init__(self, launch: SandboxLaunch, process: asyncio.subprocess.Process) -> None:
        self.launch = launch
        self.process = process
        self.workspace = Path(launch.working_dir)
        self.run = Path(launch.run_dir)
        self.client = HttpClient(
            "http://localhost",
            headers={"X-Session-API-Key": KEY},
            socket_path=self.run / "sandbox.sock",
            connect_timeout=60,  # on a busy machine Python alone takes seconds to start
        )

    async def get(self, target: str) -> Any:
        status, answer = decoded(await self.client.request("GET", target, timeout=30))
        assert status == 200, answer
        return answer

    async def post(self, target: str, value: object) -> tuple[int, Any]:
        body = to_json(value)
        return decoded(await self.client.request("POST", target, body=body, timeout=90))

    async def delete(self, target: str) -> tuple[int, Any]:
        return decoded(await self.client.request("DELETE", target, timeout=60))

    async def upload(self, data: bytes) -> tuple[int, Any]:
        kind = {"Content-Type": "application/octet-stream"}
        reply = await self.client.request(
            "POST", "/session/workspace", body=data, headers=kind, timeout=60
        )
        return decoded(reply)

    async def act(
        self, command: str, *, timeout: float | None = None, **args: Any
    ) -> dict[str, Any]:
        action: dict[str, Any] = {"action": "run", "args": {"command": command, **args}}
        if timeout is not None:
            action["timeout"] = timeout
        status, seen = await self.post("/execute_action", {"action": action})
        assert status == 200, seen
        return dict(seen)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """What happens from now on; `state` comes first."""
        async with self.client.stream("GET", "/session/events", timeout=30) as reply:
            assert reply.status == 200

            async def read() -> AsyncIterator[tuple[str, Any]]:
                reader = EventReader()
                async for chunk in reply.chunks():
                    for event in reader.feed(chunk):
                        yield event.name, from_json(event.data)

            yield read()


async def until(events: AsyncIterator[tuple[str, Any]], name: str) -> Any:
    """The data of the next event of that name."""
    async with asyncio.timeout(30):
        async for told, data in events:
            if told == name:
                return data
    raise AssertionError(f"the stream ended without {name}")


@asynccontextmanager
async def running(launch: SandboxLaunch) -> AsyncIterator[Session]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bascule.sandbox.session"), stdin=asyncio.subprocess.PIPE
    )
    session = Session(launch, process)
    try:
        assert process.stdin is not None
        process.stdin.write(launch.to_json())
        process.stdin.close()
        await session.client.wait_until_listening()
        yield session
    finally:
        await session.client.aclose()
        if process.returncode is None:
            process.terminate()
        await process.wait()
