from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.errors import SandboxDied, SandboxStartFailed
from bascule.link.json_lines import Message
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.worker_process import WorkerProcess
from tests.cli.processes import ended

pytestmark = pytest.mark.slow

WORKER = """\
import json, os, socket, sys
sock = socket.socket(fileno=0)
lines = sock.makefile("rb")
first = json.loads(lines.readline())
sock.sendall(json.dumps({"pid": os.getpid(), "first": first}).encode() + b"\\n")
for line in lines:
    asked = json.loads(line)
    if asked["do"] == "crash":
        print("out of luck", file=sys.stderr)
        sys.exit(3)
    if asked["do"] == "echo":
        sock.sendall(line)
"""


@pytest.fixture
async def keeper() -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        yield keeper


@pytest.fixture
async def worker(keeper: Keeper) -> AsyncIterator[WorkerProcess]:
    lost = lambda: SandboxDied("the worker has ended")  # noqa: E731
    async with WorkerProcess("The worker", keeper, lost=lost) as worker:
        yield worker


async def start(worker: WorkerProcess, script: str, cwd: Path, *, timeout: float = 20) -> Message:
    return await worker.start(
        (sys.executable, "-I", "-S", "-c", script),
        env={"PATH": "/bin:/usr/bin"},
        cwd=cwd,
        account=None,
        limit=1 << 16,
        timeout=timeout,
        first={"hello": 1},
    )


async def test_a_worker_answers_requests(worker: WorkerProcess, tmp_path: Path) -> None:
    started = await start(worker, WORKER, tmp_path)

    assert started["first"] == {"hello": 1}
    assert worker.is_alive
    assert (await worker.requests.request({"do": "echo"}))["do"] == "echo"


async def test_a_worker_that_does_not_start_is_reported_with_its_output(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    with pytest.raises(SandboxStartFailed, match=r"The worker did not start: .*no luck"):
        await start(worker, "raise SystemExit('no luck')", tmp_path)

    assert not worker.is_alive


async def test_a_worker_that_stays_silent_has_not_started(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    with pytest.raises(SandboxStartFailed, match="it printed nothing"):
        await start(worker, "import time; time.sleep(600)", tmp_path, timeout=0.1)


async def test_a_worker_that_exits_fails_its_requests_and_is_logged_with_its_output(
    worker: WorkerProcess,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pid = (await start(worker, WORKER, tmp_path))["pid"]
    with pytest.raises(SandboxDied, match="has ended"):
        await worker.requests.request({"do": "crash"})

    assert not worker.is_alive
    assert await asyncio.to_thread(ended, pid)
    await worker.aclose()
    assert "The worker exited with status 3: out of luck" in caplog.text


async def test_a_killed_worker_fails_its_requests(worker: WorkerProcess, tmp_path: Path) -> None:
    pid = (await start(worker, WORKER, tmp_path))["pid"]
    with worker.requests.begin({"do": "nothing"}) as request:
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxDied):
            await request.answer()


async def test_closing_ends_the_worker_without_logging_an_error(
    worker: WorkerProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pid = (await start(worker, WORKER, tmp_path))["pid"]
    await worker.aclose()

    assert await asyncio.to_thread(ended, pid)
    assert not worker.is_alive
    assert caplog.text == ""
