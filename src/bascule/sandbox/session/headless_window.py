"""A VS Code window in a headless Chromium, for sessions whose actions run in a window.

VS Code runs its extensions only while a browser shows a window. So a session whose actions run in
its window gets a headless Chromium with a single tab.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from bascule.core.contracts import Closable
from bascule.core.errors import NotSupported, SandboxStartFailed
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.supervised_program import SupervisedProgram

from .devtools_pipe import FLAG, SHELL, DevToolsPipe
from .tunnel import Forwarder, LoopbackPort, to_unix

logger = logging.getLogger(__name__)

_FLAGS: Final = (
    "--headless=new",
    "--window-size=1400,900",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    # Chromium would throttle a background tab, and so delay the actions in it.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--password-store=basic",
    "--disk-cache-size=67108864",
    "--no-sandbox",  # it shows only our own server's page, and the session is confined already
)
_DEAD_AFTER: Final = 30.0
"""Seconds without a connection after which the tab counts as dead. A live tab always has at least
one connection."""
_RESTART_PAUSES: Final = (1.0, 5.0, 30.0, 120.0)
"""Seconds to wait before a restart, by the number of failures before it. The last value is used for
all further restarts."""
_STABLE_AFTER: Final = 120.0
"""Seconds. A browser that ran longer than this does not count as a failed start."""


class HeadlessWindow(Closable):
    """Keeps `folder` open in the VS Code at the socket `vscode`, from `start` until `aclose`.

    If the browser exits or loses its connection to VS Code, another browser is started.
    """

    def __init__(
        self,
        chromium: str,
        *,
        loopback: LoopbackPort,
        vscode: Path,
        folder: Path,
        directory: Path,
        environment: Mapping[str, str],
    ) -> None:
        """`loopback`: port on which the browser reaches VS Code, since browsers cannot use unix
        sockets; `directory`: the browser's profile, which keeps the window's state."""
        self._chromium = chromium
        self._loopback = loopback
        self._vscode = vscode
        self._folder = folder
        self._directory = directory
        self._environment = environment
        self._keeper = Keeper()
        self._forwarder: Forwarder | None = None
        self._running: asyncio.Task[None] | None = None
        self._silent: asyncio.TimerHandle | None = None
        self._dead = asyncio.Event()
        self._devtools: DevToolsPipe | None = None

    async def start(self, hide: Callable[[int], Callable[[], None]]) -> None:
        """Start the window. Calls `hide` with the PID of the browser's parent, and calls the
        function that `hide` returned after the browser has ended."""
        listening = await asyncio.to_thread(self._loopback.listen)
        self._forwarder = Forwarder(listening, to_unix(self._vscode), on_count=self._count)
        await self._forwarder.start()
        self._running = asyncio.get_running_loop().create_task(self._run(hide))

    async def screenshot(self) -> str:
        """A PNG picture of the window, in base64. Raises `NotSupported` while there is none."""
        if self._devtools is None:
            raise NotSupported("The browser of the session's window is starting; try again")
        return await self._devtools.screenshot()

    async def aclose(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        self._forget_silence()
        if self._forwarder is not None:
            await self._forwarder.aclose()
        await self._keeper.aclose()

    async def _run(self, hide: Callable[[int], Callable[[], None]]) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                await self._show_once(hide)
            except SandboxStartFailed as error:
                logger.warning("the headless window does not start: %s", error.message)
            failures = 0 if loop.time() - began > _STABLE_AFTER else failures
            # A pause, not an event: a browser that fails repeatedly must not load the machine.
            await asyncio.sleep(_RESTART_PAUSES[min(failures, len(_RESTART_PAUSES) - 1)])
            failures += 1

    async def _show_once(self, hide: Callable[[int], Callable[[], None]]) -> None:
        """Run one browser until it exits or its tab counts as dead."""
        await asyncio.to_thread(_prepare_profile, self._directory)
        self._dead.clear()
        query = urlencode({"folder": str(self._folder)}, safe="/")
        program = SupervisedProgram(self._keeper)
        argv = (
            *SHELL,
            self._chromium,
            *_FLAGS,
            FLAG,
            f"--user-data-dir={self._directory}",
            f"http://127.0.0.1:{self._loopback.port}/?{query}",
        )
        env = {**self._environment, "HOME": str(self._directory)}
        devtools = DevToolsPipe()
        try:
            await program.start(
                argv, env=env, cwd=self._directory, channel=devtools.theirs.fileno()
            )
            self._devtools = devtools
            self._count(0)
            unhide = hide(self._keeper.pid)
            try:
                dead = asyncio.ensure_future(self._dead.wait())
                waits: set[asyncio.Future[Any]] = {program.ended, dead}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                dead.cancel()
                logger.warning("the headless window is gone; another will be opened")
                logger.debug("its browser said: %s", program.output_tail())
            finally:
                unhide()
        finally:
            self._devtools = None
            await devtools.aclose()
            await program.aclose()

    def _count(self, connections: int) -> None:
        self._forget_silence()
        if not connections:
            loop = asyncio.get_running_loop()
            self._silent = loop.call_later(_DEAD_AFTER, self._dead.set)

    def _forget_silence(self) -> None:
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None


def _prepare_profile(directory: Path) -> None:
    """Create the profile directory and remove the lock of a browser that was killed.

    In a new PID namespace the PID in the lock may belong to another process, and Chromium would
    wait for that process.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for lock in directory.glob("Singleton*"):
        lock.unlink()
