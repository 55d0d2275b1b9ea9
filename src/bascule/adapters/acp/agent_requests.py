"""Answers the agent's requests for files and terminals, which ACP calls the client's methods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, InvalidRequest, NoSuchPath, QuotaExceeded, UsageError

from . import messages
from .files import AcpFiles
from .messages import MessageId, RpcMessage
from .paths import PathMap
from .terminals import AcpTerminals, TerminalRequest
from .workspaces import AgentWorkspace

logger = logging.getLogger(__name__)

MAX_RUNNING: Final = 256
"""Maximum number of requests that are answered at the same time."""

Answer = Callable[[bytes], None]
Work = Coroutine[Any, Any, Mapping[str, Any]]
Method = Callable[[Mapping[str, Any], "SessionPaths"], Work]


class SessionPaths:
    """How the paths of one ACP session are mapped, and where its agent works."""

    def __init__(self, workspace: AgentWorkspace, cwd: str) -> None:
        self.client = workspace.client_paths(cwd)
        self.agent_cwd = self.client.to_there(cwd)
        self.root = workspace.root_of(self.agent_cwd)
        """The path at the runtime of the folder whose files the agent can read and write."""
        self.runtime: PathMap = workspace.runtime_paths(self.agent_cwd)


class AgentRequests(Closable):
    """Runs requests as tasks, so that a slow one delays no other message.

    Closing ends all requests and terminals.
    """

    def __init__(self, workspace: AgentWorkspace, answer: Answer) -> None:
        self._workspace = workspace
        self._answer = answer
        self.reads_missing_as_empty = False
        """Whether a file that does not exist reads as empty, instead of an error."""
        self._terminals = AcpTerminals()
        self._running: dict[MessageId, asyncio.Task[Mapping[str, Any]]] = {}
        self._methods: Mapping[str, Method] = {
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create_terminal,
            "terminal/output": self._terminal_output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._kill_terminal,
            "terminal/release": self._release_terminal,
        }

    def handles(self, method: str) -> bool:
        return method in self._methods

    def start(self, message: RpcMessage, paths: SessionPaths) -> None:
        """Begin to answer a request."""
        self.run(message.id, self._methods[message.method](message.params, paths))

    def run(self, message_id: MessageId, work: Work) -> None:
        """Answer a request with the result of `work`, or with its error."""
        error: BasculeError
        if message_id in self._running:
            error = InvalidRequest(f"The id {message_id!r:.200} is the id of a pending request")
        elif len(self._running) >= MAX_RUNNING:
            error = QuotaExceeded(f"{MAX_RUNNING} requests are pending, the maximum")
        else:
            task = asyncio.ensure_future(work)
            self._running[message_id] = task
            # A task that is cancelled before its first step runs no code of its own.
            task.add_done_callback(lambda done: self._on_end(message_id, done))
            return
        work.close()
        self._answer(failure(message_id, error))

    def cancel(self, message_id: object) -> bool:
        """Cancel a request for which the agent no longer waits; False if it is not pending here."""
        task = self._running.get(message_id) if isinstance(message_id, str | int) else None
        if task is None:
            return False
        task.cancel()
        return True

    async def aclose(self) -> None:
        running = set(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await self._terminals.aclose()

    def _on_end(self, message_id: MessageId, task: asyncio.Task[Mapping[str, Any]]) -> None:
        del self._running[message_id]
        try:
            answer = messages.result(message_id, task.result())
        except asyncio.CancelledError:
            answer = messages.error(message_id, messages.CANCELLED, "The request was cancelled")
        except BasculeError as error:
            answer = failure(message_id, error)
        except Exception:
            logger.exception("answering the agent's request %.200r", message_id)
            answer = messages.error(
                message_id, messages.INTERNAL_ERROR, "An internal error of bascule acp"
            )
        self._answer(answer)

    async def _read(self, params: Mapping[str, Any], paths: SessionPaths) -> Mapping[str, Any]:
        try:
            return await self._files(paths).read(params, paths.runtime)
        except NoSuchPath:
            if not self.reads_missing_as_empty:
                raise
            return {"content": ""}

    async def _write(self, params: Mapping[str, Any], paths: SessionPaths) -> Mapping[str, Any]:
        return await self._files(paths).write(params, paths.runtime)

    async def _create_terminal(
        self, params: Mapping[str, Any], paths: SessionPaths
    ) -> Mapping[str, Any]:
        request = TerminalRequest.of(params, cwd=paths.agent_cwd)
        name = self._terminals.next_name()
        at_runtime = request.moved(paths.runtime.to_there)
        await self._terminals.open(name, self._workspace.terminal(at_runtime, name))
        return {"terminalId": name}

    async def _terminal_output(
        self, params: Mapping[str, Any], _: SessionPaths
    ) -> Mapping[str, Any]:
        return self._terminals.get(params).output()

    async def _wait_for_exit(self, params: Mapping[str, Any], _: SessionPaths) -> Mapping[str, Any]:
        return await self._terminals.get(params).wait()

    async def _kill_terminal(self, params: Mapping[str, Any], _: SessionPaths) -> Mapping[str, Any]:
        await self._terminals.get(params).kill()
        return {}

    async def _release_terminal(
        self, params: Mapping[str, Any], _: SessionPaths
    ) -> Mapping[str, Any]:
        await self._terminals.release(params)
        return {}

    def _files(self, paths: SessionPaths) -> AcpFiles:
        return AcpFiles(self._workspace.runtime, paths.root)


def failure(message_id: MessageId, error: BasculeError) -> bytes:
    """The answer to a request that failed with `error`."""
    if isinstance(error, NoSuchPath):
        # Some agents recognize a missing file by these words.
        message = f"Resource not found: {error.message}"
        return messages.error(message_id, messages.NOT_FOUND, message, {"code": error.code})
    code = messages.INVALID_PARAMS if isinstance(error, UsageError) else messages.INTERNAL_ERROR
    return messages.error(message_id, code, error.message, {"code": error.code})
