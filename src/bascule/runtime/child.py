"""An action server in a child process, which never outlives this process."""

from __future__ import annotations

import asyncio
import logging
import pickle
import secrets
import socket
import sys
from collections import deque
from collections.abc import Coroutine
from typing import Any

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxStartFailed, SandboxUnreachable
from bascule.sandbox.settings import SandboxSettings, ServerSettings

logger = logging.getLogger(__name__)

_STOP_TIMEOUT = 10.0
"""Seconds the child has to stop by itself before it is killed."""
_EXIT_TIMEOUT = 1.0
"""Seconds to wait for the exit of a child whose connection broke."""
_TAIL_LINES = 20
"""Lines of the child's output in error messages."""


class ChildServer(Closable):
    """Starts `python -m bascule.sandbox` on a private socket. Closing stops the child.

    The socket listens before the child runs. So its address is known at once, and connections wait
    in the kernel until the child accepts them. The child ends with this process, even if this
    process is killed, because the child's stdin closes.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        self.key = secrets.token_urlsafe(32)
        self.url = ""
        self._ended = asyncio.Event()
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._output: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        server = ServerSettings(key=self.key)
        with socket.create_server((server.host, 0), backlog=1024) as sock:
            self.url = f"http://{server.host}:{sock.getsockname()[1]}"
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "bascule.sandbox"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    pass_fds=(sock.fileno(),),
                    start_new_session=True,  # Ctrl-C at our terminal must not reach the child
                )
            except OSError as error:
                raise SandboxStartFailed(f"The sandbox's process did not start: {error}") from error
            self._watching = asyncio.create_task(self._watch(self._process))
            assert self._process.stdin is not None
            self._process.stdin.write(pickle.dumps((sock.fileno(), server, self._settings)))

    async def while_alive(self, connecting: Coroutine[Any, Any, None]) -> None:
        """Await `connecting`; raises `SandboxStartFailed` if the child ends first."""
        work = asyncio.ensure_future(connecting)
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return await work
            raise self._never_answered()
        except SandboxUnreachable as error:
            # The connection may break before the exit of the child is known.
            if not await self.has_ended():
                raise
            raise self._never_answered() from error
        finally:
            work.cancel()
            ended.cancel()
            await asyncio.gather(work, ended, return_exceptions=True)

    async def has_ended(self, *, within: float = _EXIT_TIMEOUT) -> bool:
        """Whether the child has ended, or ends within `within` seconds."""
        try:
            async with asyncio.timeout(within):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def _never_answered(self) -> SandboxStartFailed:
        return SandboxStartFailed(
            f"The sandbox's process ended before it answered: {self.output_tail()}"
        )

    def output_tail(self) -> str:
        """How the child ended and its last output, for error messages."""
        code = None if self._process is None else self._process.returncode
        return "\n".join([f"exit status {code}", *self._output])

    async def aclose(self) -> None:
        process, watching = self._process, self._watching
        if process is None or watching is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(watching), _STOP_TIMEOUT)
        except TimeoutError:
            logger.warning("the sandbox's process %d did not stop and is killed", process.pid)
            process.kill()
            await watching

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        try:
            async for line in process.stderr:
                text = line.decode(errors="replace").rstrip()
                self._output.append(text)
                logger.debug("sandbox %d: %s", process.pid, text)
            await process.wait()
        finally:
            self._ended.set()
