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
from typing import Any

from benchmarks.peers.measurements import Measurements
from benchmarks.peers.subject import Refused, Subject


def serve(
    subject: Subject[Any], run: Callable[[Coroutine[Any, Any, None]], None] | None = None
) -> None:
    """Answer the harness on stdin and stdout until it closes them; `run` runs the event loop."""
    # Under nohup SIGINT comes ignored, and an ignored signal would stay so in every shell.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    conversation = _converse(subject, answers.write, answers.flush)
    if run is None:
        asyncio.run(conversation)
    else:
        run(conversation)


async def _converse(
    subject: Subject[Any], write: Callable[[str], object], flush: Callable[[], None]
) -> None:
    questions = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    measurements = Measurements(subject)
    try:
        while line := await questions.readline():
            question = json.loads(line)
            write(json.dumps(await _answer(subject, measurements, question)) + "\n")
            flush()
    finally:
        await measurements.fleet_close()
        await measurements.endure_end()
        await subject.stop()


async def _answer(
    subject: Subject[Any], measurements: Measurements[Any], question: dict[str, Any]
) -> dict[str, Any]:
    try:
        if question["ask"] == "hello":
            await subject.start()
        return {"answer": await getattr(measurements, question["ask"])(**question["with"])}
    except Refused as refused:
        return {"refused": str(refused)}
    except Exception as error:
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}
