"""Client of the worker process (`_worker_main.py`), which runs the IPython kernel."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import MissingTool, SandboxDied, SandboxStartFailed
from bascule.sandbox.shell.keeper import Keeper, ShellAccount
from bascule.sandbox.vscode.program import SupervisedProgram

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]

_MAIN: Final = Path(__file__).with_name("_worker_main.py")
_START: Final = 60.0
_LONGEST: Final = 1 << 30
"""Bytes of a message; a cell may show tens of megabytes at once."""


class KernelWorkerClient(Closable):
    """A worker process below a keeper, from `start` until it ends or is closed.

    `on_message` gets what it says about orders, `on_end` is called once if it ends by itself.
    """

    def __init__(
        self,
        keeper: Keeper,
        *,
        on_message: Callable[[Message], None],
        on_end: Callable[[], None],
    ) -> None:
        self._keeper = keeper
        self._on_message = on_message
        self._on_end = on_end
        self._program = SupervisedProgram(keeper)
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self.python = ""
        """The interpreter, as it names itself."""
        self.is_alive = False

    async def start(
        self,
        python: str,
        *,
        directory: Path,
        env: Mapping[str, str],
        cwd: Path,
        account: ShellAccount | None,
        is_first: bool,
    ) -> None:
        """Raises `MissingTool` when the interpreter has no ipykernel, `SandboxStartFailed` when it
        does not run."""
        ours, theirs = socket.socketpair()
        again = () if is_first else ("--again",)
        argv = (python, str(_MAIN), str(directory), "--socket", *again)
        try:
            await self._program.start(
                argv, env=env, cwd=cwd, channel=theirs.fileno(), account=account
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_LONGEST)
        try:
            async with asyncio.timeout(_START):
                first = await reader.readline()
        except TimeoutError:
            raise self._failed(python) from None
        if not first:
            raise self._failed(python)
        said = json.loads(first)
        if said["op"] == "failed":
            raise MissingTool(said["message"], missing=said["missing"])
        self.python = said["python"]
        self.is_alive = True
        self._reading = asyncio.create_task(self._read(reader))

    def send(self, **order: object) -> None:
        if self._writer is None or not self.is_alive:
            raise SandboxDied("The process that runs the IPython kernel has ended")
        self._writer.write(json.dumps(order).encode() + b"\n")

    async def aclose(self) -> None:
        self.is_alive = False
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._writer is not None:
            self._writer.close()
        await self._program.aclose()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._on_message(json.loads(line))
        except ConnectionError as error:
            logger.debug("the line to the IPython worker broke: %s", error)
        self.is_alive = False
        if words := self._program.last_words():
            logger.warning("the IPython worker ended: %s", words)
        self._on_end()

    def _failed(self, python: str) -> SandboxStartFailed:
        words = self._program.last_words() or "it said nothing"
        return SandboxStartFailed(f"IPython did not start with {python}: {words}")
