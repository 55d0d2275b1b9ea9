"""A worker's main loop: questions in, answers out, as lines of JSON on stdin and stdout.

Stdout is moved away first, so that nothing a peer prints can pass for an answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from benchmarks.peers.measurements import Measurements
from benchmarks.peers.subject import Refused, Subject

Runner = Callable[[Coroutine[Any, Any, None]], None]
"""Runs the event loop, as `asyncio.run` does."""


class Respondent(Protocol):
    """Who answers: each public method is a question, and `hello`, after `start`, the first."""

    async def start(self) -> None: ...

    async def hello(self) -> dict[str, Any]: ...

    async def stop(self) -> None: ...


def serve(subject: Subject[Any], run: Runner = asyncio.run) -> None:
    """Answer what can be asked of any subject."""
    respond(Measurements(subject), run)


def respond(respondent: Respondent, run: Runner = asyncio.run) -> None:
    """Answer the harness on stdin and stdout until it closes them."""
    # Under nohup SIGINT comes ignored, and an ignored signal would stay so in every shell.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    run(_converse(respondent, answers.write, answers.flush))


async def _converse(
    respondent: Respondent, write: Callable[[str], object], flush: Callable[[], None]
) -> None:
    questions = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    try:
        while line := await questions.readline():
            write(json.dumps(await _answer(respondent, json.loads(line))) + "\n")
            flush()
    finally:
        await respondent.stop()


async def _answer(respondent: Respondent, question: dict[str, Any]) -> dict[str, Any]:
    try:
        if question["ask"] == "hello":
            await respondent.start()
        return {"answer": await getattr(respondent, question["ask"])(**question["with"])}
    except Refused as refused:
        return {"refused": str(refused)}
    except Exception as error:
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}
