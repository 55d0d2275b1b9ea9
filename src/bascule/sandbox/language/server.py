"""A running language server: its process, its state, and requests to it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import LanguageServerFailed
from bascule.sandbox.shell.keeper import Keeper, ShellAccount
from bascule.sandbox.supervised_program import SupervisedProgram

from .client_capabilities import CLIENT_CAPABILITIES
from .documents import OpenDocuments, uri_of
from .json_rpc import CONTENT_MODIFIED, METHOD_NOT_FOUND, SERVER_CANCELLED, JsonRpc, RpcFailed
from .servers import InstalledServer, suffix_of
from .workspace_files import WorkspaceFiles

_START: Final = 120.0
"""Seconds in which a server has to answer `initialize`."""
_EXIT: Final = 2.0
"""Seconds to wait for the exit status of a server whose connection has ended."""
_RETRIES: Final = 20
_RETRY_PAUSE: Final = 0.1
"""Seconds before a request is sent again because its answer was out of date. No event tells when
the server can answer it."""
_STDIN_AS_STDOUT: Final = ("/bin/sh", "-c", 'exec "$@" >&0', "sh")
"""Runs a program whose stdout is its stdin, a socket. Its stderr stays the terminal."""
_SHOWN: Final = 400
"""Maximum characters of a server's last output in an error."""


class _ConnectionLost(Exception):
    """The server has closed the connection, usually because it exited."""


class LanguageServer(Closable):
    """One process of a language server. A server that has exited is not started again; make a new
    object. Closing ends it and its child processes."""

    def __init__(
        self,
        installed: InstalledServer,
        keeper: Keeper,
        *,
        root: Path,
        env: Mapping[str, str],
        account: ShellAccount | None,
    ) -> None:
        self.kind = installed.server
        self.files = WorkspaceFiles(root, self._is_watched)
        self.documents = OpenDocuments(self.notify, self._language_of)
        self.capabilities: Mapping[str, Any] = {}
        self.problems: dict[str, Sequence[Mapping[str, Any]]] = {}
        """The problems that the server published last, by URI."""
        self.problems_changed = asyncio.Event()
        """Set, and replaced by a new event, whenever it publishes problems."""
        self.last_news = 0.0
        """Time (`time.monotonic`) of the last published problems or the last notification."""
        self.edits: list[Mapping[str, Any]] | None = None
        """Edits that the server sends while it executes a command; None at other times."""
        self.asks_for_name = False
        """Whether the last command wanted the user to type a name."""
        self.in_use = asyncio.Lock()
        """Held while files are compared and while a command runs, by one action at a time."""
        self._argv = (installed.path, *installed.server.arguments)
        self._root = root
        self._env = env
        self._account = account
        self._program = SupervisedProgram(keeper)
        self._rpc: JsonRpc | None = None
        self._registered: set[str] = set()
        self._ready = asyncio.Event()

    @property
    def name(self) -> str:
        return self.kind.program

    @property
    def is_alive(self) -> bool:
        return self._rpc is not None and self._rpc.is_open

    @property
    def is_ready(self) -> bool:
        """Whether it gives complete answers, if necessary after waiting for the project to load."""
        return self._ready.is_set()

    @property
    def pid(self) -> int:
        return self._program.pid

    async def start(self) -> None:
        """Start the process, and wait until it accepts requests. Raises `LanguageServerFailed`."""
        await asyncio.to_thread(self.files.scan)
        ours, theirs = socket.socketpair()
        try:
            await self._program.start(
                (*_STDIN_AS_STDOUT, *self._argv),
                env=self._env,
                cwd=self._root,
                channel=theirs.fileno(),
                account=self._account,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._rpc = await JsonRpc.open(
            ours,
            on_request=self._answer,
            on_notification=self._notice,
            lost=_ConnectionLost,
        )
        try:
            async with asyncio.timeout(_START):
                answer = await self.request("initialize", self._introduction())
        except TimeoutError:
            raise LanguageServerFailed(
                f"{self.name} did not start within {_START:g} seconds: {self._last_output()}"
            ) from None
        self.capabilities = answer["capabilities"]
        self.notify("initialized", {})
        if self.kind.ready == "at once":
            self._ready.set()

    async def wait_until_ready(self) -> None:
        """Wait until the project is loaded, or the server has ended."""
        ready = asyncio.ensure_future(self._ready.wait())
        either: set[asyncio.Future[Any]] = {ready, self._program.ended}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Raises `LanguageServerFailed` if the server has ended or does not answer the request."""
        assert self._rpc is not None, "not started"
        for attempt in range(_RETRIES):
            try:
                return await self._rpc.request(method, params)
            except _ConnectionLost:
                raise await self._failure() from None
            except RpcFailed as error:
                is_outdated = error.code in (CONTENT_MODIFIED, SERVER_CANCELLED)
                if not is_outdated or attempt == _RETRIES - 1:
                    raise LanguageServerFailed(f"{self.name}: {_first_lines(error)}") from error
                await asyncio.sleep(_RETRY_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.last_news = time.monotonic()
        if self._rpc is not None:
            self._rpc.notify(method, params)

    def offers(self, capability: str) -> bool:
        """Whether the server has declared or registered a capability, such as `hoverProvider`."""
        declared = self.capabilities.get(capability)
        return declared is not None and declared is not False

    @property
    def answers_problems(self) -> bool:
        """Whether it can be asked for the problems of a document."""
        return self.offers("diagnosticProvider") or "textDocument/diagnostic" in self._registered

    @property
    def commands(self) -> frozenset[str]:
        """The commands that the server executes. Other commands are for editors."""
        return frozenset(
            (self.capabilities.get("executeCommandProvider") or {}).get("commands", ())
        )

    async def aclose(self) -> None:
        if self._rpc is not None:
            await self._rpc.aclose()
        await self._program.aclose()

    def _introduction(self) -> dict[str, Any]:
        root = uri_of(str(self._root))
        return {
            "processId": os.getpid(),
            "clientInfo": {"name": "Bascule"},
            "rootPath": str(self._root),
            "rootUri": root,
            "workspaceFolders": [{"uri": root, "name": self._root.name}],
            "capabilities": CLIENT_CAPABILITIES,
            "initializationOptions": self.kind.options,
        }

    async def _failure(self) -> LanguageServerFailed:
        await asyncio.wait([self._program.ended], timeout=_EXIT)
        status = f" with status {self._program.ended.result()}" * self._program.ended.done()
        return LanguageServerFailed(
            f"{self.name} ended{status}; the next action starts it again. "
            f"Its last output: {self._last_output()}"
        )

    def _last_output(self) -> str:
        return self._program.output_tail().strip()[:_SHOWN] or "nothing"

    def _is_watched(self, name: str) -> bool:
        return suffix_of(name) in self.kind.languages or name in self.kind.project_files

    def _language_of(self, path: str) -> str:
        return self.kind.languages[suffix_of(path)]

    # Messages of the server -----------------------------------------------------------------

    async def _answer(self, method: str, params: Any) -> Any:
        match method:
            case "workspace/configuration":
                return [self.kind.settings.get(item.get("section", "")) for item in params["items"]]
            case "workspace/applyEdit":
                if self.edits is None:
                    return {"applied": False, "failureReason": "no action asked for this edit"}
                self.edits.append(params["edit"])
                return {"applied": True}
            case "client/registerCapability":
                self._registered |= {each["method"] for each in params["registrations"]}
            case "client/unregisterCapability":
                gone = params.get("unregisterations") or params.get("unregistrations") or ()
                self._registered -= {each["method"] for each in gone}
            case "workspace/workspaceFolders":
                return self._introduction()["workspaceFolders"]
            case "_typescript.rename":  # sent after "extract", to let the user type a name
                self.asks_for_name = True
            case "window/workDoneProgress/create" | "window/showMessageRequest":
                pass
            case _ if method.endswith("/refresh"):
                pass  # earlier answers are not cached. Some servers exit if this is refused
            case _:
                raise RpcFailed(METHOD_NOT_FOUND, f"{method} is not supported")
        return None

    def _notice(self, method: str, params: Any) -> None:
        match method:
            case "textDocument/publishDiagnostics":
                self._publish(params)
            case "window/logMessage" if self.kind.ready == "message":
                if re.search(self.kind.ready_message, params["message"]):
                    self._ready.set()
            case "experimental/serverStatus" if params.get("quiescent"):
                self._ready.set()

    def _publish(self, params: Mapping[str, Any]) -> None:
        self.problems[params["uri"]] = params["diagnostics"]
        self.last_news = time.monotonic()
        self.problems_changed.set()
        self.problems_changed = asyncio.Event()


def _first_lines(error: RpcFailed) -> str:
    """The message without a stack trace."""
    lines = [line for line in error.message.splitlines() if not line.lstrip().startswith("at ")]
    return "\n".join(lines)[:_SHOWN] or f"error {error.code}"
