"""A worker process below a keeper: it reads and writes JSON lines on the socket that is its stdin.

IPython's kernel and the browser run in such processes, so that neither can take the sandbox down.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxStartFailed
from bascule.link.json_lines import JsonLineRequests, JsonLines, Message
from bascule.sandbox.shell.keeper import Keeper, ShellAccount
from bascule.sandbox.supervised_program import SupervisedProgram

logger = logging.getLogger(__name__)

_EXIT: Final = 1.0
"""Seconds to wait for a worker's exit and last output after its connection has ended."""


class WorkerProcess(Closable):
    """One worker, from `start` until it exits or is closed.

    Send it work through `requests`. If the worker exits by itself, its last output is logged and
    pending requests raise `lost()`. Closing ends the worker and every process it started.
    """

    def __init__(
        self,
        name: str,
        keeper: Keeper,
        *,
        lost: Callable[[], Exception],
        on_event: Callable[[Message], None] | None = None,
    ) -> None:
        """`name`: the worker's name in messages. `on_event`: called with messages that belong to
        no request."""
        self._on_event = on_event
        self._name = name
        self._program = SupervisedProgram(keeper)
        self._program.ended.add_done_callback(self._report_exit)
        self._lost = lost
        self._lines: JsonLines | None = None
        self._requests: JsonLineRequests | None = None
        self._expects_exit = False

    @property
    def is_alive(self) -> bool:
        """Whether it has started and takes requests."""
        return self._requests is not None and self._requests.is_open

    @property
    def requests(self) -> JsonLineRequests:
        assert self._requests is not None, "not started"
        return self._requests

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        account: ShellAccount | None,
        limit: int,
        timeout: float,
        first: Message | None = None,
        is_answer: Callable[[Message], bool] = lambda _: True,
    ) -> Message:
        """Start the worker, send `first`, and return the worker's first message.

        Raises `SandboxStartFailed` with the worker's output if no message arrives in time. After
        any error the caller closes the worker.
        """
        ours, theirs = socket.socketpair()
        try:
            await self._program.start(
                argv, env=env, cwd=cwd, channel=theirs.fileno(), account=account
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._lines = await JsonLines.open(ours, limit=limit)
        if first is not None:
            self._lines.send(first)
        answer = await self._first_message(self._lines, timeout)
        self._requests = JsonLineRequests(
            self._lines, lost=self._lost, on_event=self._on_event, is_answer=is_answer
        )
        return answer

    async def aclose(self) -> None:
        # Still log the exit of a worker that crashed: the keeper may report it after this.
        if self._requests is None or self._requests.is_open:
            self._expects_exit = True
        if self._requests is not None:
            await self._requests.aclose()
        elif self._lines is not None:
            await self._lines.aclose()
        await self._program.aclose()

    async def _first_message(self, lines: JsonLines, timeout: float) -> Message:
        try:
            async with asyncio.timeout(timeout):
                answer = await lines.receive()
        except TimeoutError:
            answer = None
        else:
            if answer is None:  # the worker is exiting; wait for the output that gives the reason
                await asyncio.wait([self._program.ended], timeout=_EXIT)
        if answer is None:
            self._expects_exit = True  # the error holds the output, so do not log it as well
            output = self._program.output_tail() or "it printed nothing"
            raise SandboxStartFailed(f"{self._name} did not start: {output}")
        return answer

    def _report_exit(self, ended: asyncio.Future[int]) -> None:
        if not self._expects_exit and not ended.cancelled():
            output = self._program.output_tail() or "it printed nothing"
            status = ended.result()
            logger.warning("%s exited with status %d: %s", self._name, status, output)
