from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bascule.core.errors import SandboxDied
from bascule.link.json_lines import JsonLineRequests, JsonLines, Message

TIMEOUT = 20.0

CHILD = """\
import json, os, signal, socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
def send(**message):
    sock.sendall(json.dumps(message).encode() + b"\\n")
for line in sock.makefile("rb"):
    asked = json.loads(line)
    match asked["do"]:
        case "echo":
            send(id=asked["id"], value=asked["value"])
        case "count":
            for n in range(3):
                send(id=asked["id"], step=n)
            send(id=asked["id"], value=3)
        case "tell":
            send(event="told")
            send(id=asked["id"], value=None)
        case "wait":
            send(event="waiting")
        case "cancel":
            send(id=asked["id"], value="cancelled")
        case "garbage":
            sock.sendall(b"no JSON\\n")
        case "large":
            send(id=asked["id"], value="x" * 10_000)
        case "die":
            sock.sendall(b'{"id": 1, "val')
            os.kill(os.getpid(), signal.SIGKILL)
"""


@asynccontextmanager
async def child(
    *,
    on_event: Callable[[Message], None] | None = None,
    limit: int = 1 << 16,
) -> AsyncIterator[JsonLineRequests]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", CHILD, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    requests = JsonLineRequests(
        await JsonLines.open(ours, limit=limit),
        lost=lambda: SandboxDied("the child has exited"),
        on_event=on_event,
        is_answer=lambda message: "value" in message,
    )
    try:
        async with requests, asyncio.timeout(TIMEOUT):
            yield requests
    finally:
        await process.wait()  # it ends with the connection


async def test_answers_are_matched_with_their_requests() -> None:
    async with child() as requests:
        asked = [requests.request({"do": "echo", "value": n}) for n in range(20)]
        answers = await asyncio.gather(*asked)

    assert [answer["value"] for answer in answers] == list(range(20))


async def test_progress_goes_to_the_request_it_belongs_to() -> None:
    steps: list[int] = []
    async with child() as requests:
        on_progress = lambda message: steps.append(message["step"])  # noqa: E731
        with requests.begin({"do": "count"}, on_progress=on_progress) as request:
            answer = await request.answer()

    assert (steps, answer["value"]) == ([0, 1, 2], 3)


async def test_messages_without_an_id_are_events() -> None:
    events: list[Message] = []
    async with child(on_event=events.append) as requests:
        await requests.request({"do": "tell"})

    assert events == [{"event": "told"}]


async def test_a_child_killed_within_a_message_fails_its_requests() -> None:
    async with child() as requests:
        with pytest.raises(SandboxDied, match="has exited"):
            await requests.request({"do": "die"})

        assert not requests.is_open
        with pytest.raises(SandboxDied):
            await requests.request({"do": "echo", "value": 1})


@pytest.mark.parametrize("what", ["garbage", "large"])
async def test_a_message_that_breaks_the_format_ends_the_connection(what: str) -> None:
    async with child(limit=1000) as requests:
        with pytest.raises(SandboxDied):
            await requests.request({"do": what})

        assert not requests.is_open


async def test_an_event_that_cannot_be_handled_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: Message) -> None:
        raise KeyError("event")

    async with child(on_event=fail) as requests:
        with pytest.raises(SandboxDied):
            await requests.request({"do": "wait"})

    assert "could not be handled" in caplog.text


async def test_a_cancelled_request_leaves_the_connection_usable() -> None:
    waiting = asyncio.Event()
    async with child(on_event=lambda _: waiting.set()) as requests:
        task = asyncio.create_task(requests.request({"do": "wait"}))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await requests.request({"do": "echo", "value": 7}))["value"] == 7


async def test_a_request_settles_when_the_child_answers_its_cancellation() -> None:
    waiting = asyncio.Event()
    async with child(on_event=lambda _: waiting.set()) as requests:
        with requests.begin({"do": "wait"}) as request:
            await waiting.wait()
            request.cancel({"do": "cancel"})
            await request.settled()

            assert (await request.answer())["value"] == "cancelled"


async def test_closing_fails_pending_requests() -> None:
    waiting = asyncio.Event()
    async with child(on_event=lambda _: waiting.set()) as requests:
        task = asyncio.create_task(requests.request({"do": "wait"}))
        await waiting.wait()
        await requests.aclose()

        with pytest.raises(SandboxDied):
            await task


async def test_a_closed_connection_accepts_no_message() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        async with await JsonLines.open(ours, limit=1000) as lines:
            lines.send({"text": "é\n"})
            received = await asyncio.to_thread(theirs.recv, 1000)

        with pytest.raises(BrokenPipeError):
            lines.send({})

    assert json.loads(received) == {"text": "é\n"}
    assert received.count(b"\n") == 1
