"""Client of the browser worker, which starts with the first action and ends with the sandbox."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bascule.core.actions import Browse, BrowseInteractive
from bascule.core.contracts import Closable
from bascule.core.errors import BrowserCrashed, SandboxDied
from bascule.core.observations import Observation
from bascule.link.json_lines import Message
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.shell.settings import ShellSettings, shell_environment
from bascule.sandbox.worker_process import WorkerProcess
from bascule.wire import decode_observation, encode_action, error_from_wire

from .settings import BrowserSettings

_START: Final = 90.0
"""Timeout in seconds for the start of the worker and the browser; a busy machine is slow."""
_MAX_MESSAGE: Final = 64 << 20
"""Maximum bytes of a message; messages contain screenshots."""


class Browser(Closable):
    """Executes `browse` and `browse_interactive`, one at a time.

    The worker, its driver and Chromium run under their own keeper, which ends them when this
    process ends, even by SIGKILL. If the worker dies, the running action raises `BrowserCrashed`,
    and the next action starts another worker.
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
        """`served_at`: addresses of the sandbox's own server; blocked for pages, except `/view`."""
        self._shells = shells
        place = {
            "chromium": chromium,
            "working_dir": str(shells.working_dir),
            "roots": [str(root) for root in roots],
            "own": served_at,
        }
        self._setup = {"op": "start", "place": place, "settings": asdict(settings)}
        self._starting: asyncio.Task[WorkerProcess] | None = None
        self._keeper: Keeper | None = None
        self._reports_restart = False
        self._closed = False

    async def act(self, action: Browse | BrowseInteractive) -> Observation:
        """Execute the action. Cancelling stops it at once; the browser keeps running."""
        worker = await self._ready_worker()
        event = encode_action(action)
        order = {"kind": action.kind, "args": event["args"], "timeout": action.timeout}
        seen = await self._ask(worker, {"op": "act", **order})
        if self._reports_restart:
            self._reports_restart = False
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

    async def _ask(self, worker: WorkerProcess, order: Message) -> dict[str, Any]:
        with worker.requests.begin(order) as request:
            try:
                answer = await request.answer()
            except asyncio.CancelledError:
                request.cancel({"op": "cancel"})
                raise
        if answer["op"] == "failed":
            raise error_from_wire(answer["error"])
        observation: dict[str, Any] = answer["observation"]
        return observation

    async def _ready_worker(self) -> WorkerProcess:
        """Return the running worker. All callers wait for one start; a worker that ended is
        replaced."""
        starting = self._starting
        if starting is not None and starting.done():
            failed = starting.cancelled() or starting.exception() is not None
            if failed or not starting.result().is_alive:
                if not failed:
                    self._reports_restart = True
                    await starting.result().aclose()
                starting = None
        if starting is None:
            if self._closed:
                raise SandboxDied("The sandbox was closed")
            starting = self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(starting)

    async def _start(self) -> WorkerProcess:
        if self._keeper is None:
            name = f"bascule-browser-{os.urandom(8).hex()}"
            self._directory = Path(tempfile.gettempdir(), name)
            self._keeper = Keeper(directory=self._directory)
        await asyncio.to_thread(self._make_directory)
        worker = WorkerProcess("The browser", self._keeper, lost=self._worker_ended)
        try:
            started = await worker.start(
                (sys.executable, "-P", "-m", "bascule.sandbox.browser.worker", "--socket"),
                env={**shell_environment(self._shells), "TMPDIR": str(self._directory)},
                cwd=self._shells.working_dir,
                account=self._shells.account,
                limit=_MAX_MESSAGE,
                timeout=_START,
                first=self._setup,
            )
            if started["op"] == "failed":
                raise error_from_wire(started["error"])
        except BaseException:
            await worker.aclose()
            raise
        return worker

    def _worker_ended(self) -> BrowserCrashed | SandboxDied:
        if self._closed:
            return SandboxDied("The sandbox was closed")
        return BrowserCrashed("The browser ended during the action; the next one starts it again")

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if (account := self._shells.account) is not None:
            os.chown(self._directory, account.uid, account.gid)
