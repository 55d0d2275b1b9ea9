"""What the way through the hub costs: a bare echo over it, a read and a command in a window.

Runtime, hub and window are processes of their own, as they are in life; the window has no editor.
Run: python -m benchmarks.window_path [COUNT]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bascule.core.actions import FileRead
from bascule.core.identity import new_id
from bascule.hub import Hub, HubSettings
from bascule.runtime import LocalRuntime, VSCodeRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow

ADMIN = "a-token-for-benchmarks"


class EchoWindow(FakeWindow):
    """Answers every action at once with a constant, to see what the way alone costs."""

    async def _action_came(self, event: dict[str, object]) -> object:  # type: ignore[override]
        observation = {
            "id": new_id(),
            "timestamp": "2026-01-01T00:00:00+00:00",
            "source": "environment",
            "message": "",
            "cause": event["id"],
            "observation": "null",
            "content": "",
            "extras": {},
        }
        self._start(self._emit("oh_event", observation))
        return {"received": True}


async def serve() -> None:
    """The hub, until its standard input ends."""
    async with Hub(HubSettings(admin_token=ADMIN)) as hub:
        tokens = [await hub.tokens.create(name, "window") for name in ("real", "echo")]
        print(hub.url, *tokens, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def be_window(url: str, token: str, kind: str, folder: str) -> None:
    """A window, until its standard input ends."""
    settings = SandboxSettings(shells=ShellSettings(working_dir=Path(folder)))
    cls = EchoWindow if kind == "echo" else FakeWindow
    async with cls(url, token, settings, name=kind) as window:
        await window.connect()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def child(*arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.window_path", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


async def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "note").write_text("x" * 1023 + "\n")
        hub, said = await child("hub")
        url, real, echo = said.split()
        windows = [
            (await child("window", url, token, kind, folder))[0]
            for token, kind in ((real, "real"), (echo, "echo"))
        ]
        async with (
            VSCodeRuntime(url, ADMIN, window="real") as runtime,
            VSCodeRuntime(url, ADMIN, window="echo") as bare,
            LocalRuntime(folder) as local,
        ):
            await report(
                count,
                {
                    "bare echo through the hub": lambda: bare.act(FileRead("note")),
                    "read 1 KB through the window": lambda: runtime.read("note"),
                    "run true through the window": lambda: runtime.run("true"),
                    "read 1 KB in process": lambda: local.read("note"),
                    "run true in process": lambda: local.run("true"),
                },
            )
        for process in (*windows, hub):
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


async def report(count: int, cases: dict[str, Callable[[], Awaitable[object]]]) -> None:
    """Interleaved, so that what else the machine does falls on all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for n in range(count + 20):
        for name, work in cases.items():
            started = time.perf_counter()
            await work()
            if n >= 20:
                seconds[name].append(time.perf_counter() - started)
    for name, each in seconds.items():
        median, p95 = statistics.median(each), statistics.quantiles(each, n=20)[-1]
        print(f"{name:32} median {median * 1000:7.3f} ms   p95 {p95 * 1000:7.3f} ms")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["hub"]:
            asyncio.run(serve())
        case ["window", url, token, kind, folder]:
            asyncio.run(be_window(url, token, kind, folder))
        case rest:
            asyncio.run(measure(int(rest[0]) if rest else 500))
