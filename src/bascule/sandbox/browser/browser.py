"""Client of the browser worker, which starts with the first action and ends with the sandbox."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bascule.core.actions import Browse, BrowseInteractive
from bascule.core.contracts import Closable
from bascule.core.errors import BrowserCrashed, SandboxDied, SandboxStartFailed
from bascule.core.observations import Observation
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.shell.settings import ShellSettings, shell_environment
from bascule.sandbox.vscode.program import SupervisedProgram
from bascule.wire import decode_observation, encode_action, error_from_wire

from .settings import BrowserSettings

logger = logging.getLogger(__name__)

_START: Final = 90.0
"""Seconds from nothing to a browser that answers; a busy machine needs a few."""
_LONGEST: Final = 64 << 20
"""Bytes of a message; pictures are in it."""

Start = Mapping[str, Any]


class Browser(Closable):
    """Does `browse` and `browse_interactive`. They take turns; an early one waits for the start.

    The worker, its driver and Chromium are below a keeper of their own, which ends them when we
    end, however that is. If the worker dies the action under way is told, and the next one starts
    another.
    """

    def __init__(
        self,
        chromium: str,
        settings: BrowserSettings,
        shells: ShellSettings,
        *,
        roots: tuple[Path, ...] = (),
        served_at: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """`served_at`: where the sandbox itself answers; kept from pages, but for `/view`."""
        self._shells = shells
        place = {
            "chromium": chromium,
            "working_dir": str(shells.working_dir),
            "roots": [str(root) for root in roots],
            "own": served_at,
        }
        self._told = {"op": "start", "place": place, "settings": asdict(settings)}
        self._starting: asyncio.Task[_Line] | None = None
        self._keeper: Keeper | None = None
        self._restarts = 0
        self._closed = False

    async def act(self, action: Browse | BrowseInteractive) -> Observation:
        """Do the action. Cancelling stops it where it is; the browser stays."""
        line = await self._line()
        event = encode_action(action)
        order = {"kind": action.kind, "args": event["args"], "timeout": action.timeout}
        seen = await line.ask(str(action.id), order)
        if self._restarts and line.is_new:
            line.is_new = False
            note = "[The browser had ended and was started again; its tabs are gone]\n"
            seen["content"] = note + seen["content"]
        return decode_observation({"observation": seen.pop("kind"), **seen})

    async def aclose(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
            if not self._starting.cancelled() and self._starting.exception() is None:
                await self._starting.result().aclose()
        if self._keeper is not None:
            await self._keeper.aclose()

    async def _line(self) -> _Line:
        """The worker, started once for all who wait; another after it ended."""
        starting = self._starting
        if starting is not None and starting.done():
            failed = starting.cancelled() or starting.exception() is not None
            if failed or not starting.result().is_alive:
                if not failed:
                    self._restarts += 1
                    await starting.result().aclose()
                starting = None
        if starting is None:
            if self._closed:
                raise SandboxDied("The sandbox was closed")
            starting = self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(starting)

    async def _start(self) -> _Line:
        if self._keeper is None:
            name = f"bascule-browser-{os.urandom(8).hex()}"
            self._directory = Path(tempfile.gettempdir(), name)
            self._keeper = Keeper(directory=self._directory)
        await asyncio.to_thread(self._make_directory)
        env = {**shell_environment(self._shells), "TMPDIR": str(self._directory)}
        line = _Line(SupervisedProgram(self._keeper))
        try:
            await line.start(self._told, env=env, shells=self._shells)
        except BaseException:
            await line.aclose()
            raise
        return line

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if (account := self._shells.account) is not None:
            os.chown(self._directory, account.uid, account.gid)


class _Line:
    """One worker, from its start to its end."""

    def __init__(self, program: SupervisedProgram) -> None:
        self._program = program
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self.is_alive = False
        self.is_new = True

    async def start(self, told: Start, *, env: Mapping[str, str], shells: ShellSettings) -> None:
        ours, theirs = socket.socketpair()
        argv = (sys.executable, "-P", "-m", "bascule.sandbox.browser.worker", "--socket")
        try:
            await self._program.start(
                argv,
                env=env,
                cwd=shells.working_dir,
                channel=theirs.fileno(),
                account=shells.account,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_LONGEST)
        self._send(told)
        try:
            async with asyncio.timeout(_START):
                first = await reader.readline()
        except TimeoutError:
            first = b""
        if not first:
            words = self._program.last_words() or "it said nothing"
            raise SandboxStartFailed(f"The browser did not start: {words}")
        said = json.loads(first)
        if said["op"] == "failed":
            raise error_from_wire(said["error"])
        self.is_alive = True
        self._reading = asyncio.create_task(self._read(reader))

    async def ask(self, id: str, order: Mapping[str, Any]) -> dict[str, Any]:
        if not self.is_alive:
            raise self._died()
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        self._send({"op": "act", "id": id, **order})
        try:
            return await answer
        except asyncio.CancelledError:
            if self.is_alive:
                self._send({"op": "cancel", "id": id})
            raise
        finally:
            self._waiting.pop(id, None)

    async def aclose(self) -> None:
        self.is_alive = False
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._writer is not None:
            self._writer.close()
        self._fail(SandboxDied("The sandbox was closed"))
        await self._program.aclose()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._writer is not None
        self._writer.write(json.dumps(message, default=str).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._heard(json.loads(line))
        except ConnectionError as error:
            logger.debug("the line to the browser broke: %s", error)
        self.is_alive = False
        if words := self._program.last_words():
            logger.warning("the browser's worker ended: %s", words)
        self._fail(self._died())

    def _heard(self, message: dict[str, Any]) -> None:
        waiting = self._waiting.get(message["id"])
        if waiting is None or waiting.done():
            return  # it was cancelled
        if message["op"] == "failed":
            waiting.set_exception(error_from_wire(message["error"]))
        else:
            waiting.set_result(message["observation"])

    def _fail(self, error: Exception) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    def _died(self) -> BrowserCrashed:
        return BrowserCrashed("The browser ended during the action; the next one starts it again")
