"""Where an agent works: a session of a hub, or a window of a hub."""

from __future__ import annotations

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bascule.core.contracts import Runtime
from bascule.core.errors import UsageError
from bascule.core.programs import Program, ProgramHost
from bascule.core.windows import Window

from .paths import SAME_PATHS, PathMap, is_inside, map_for
from .terminals import UNREAD_LIMIT, AcpTerminal, ProgramTerminal, ShellTerminal, TerminalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCommand:
    """The agent's command line, and the variables that are added to its environment."""

    argv: Sequence[str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values that records do not show."""


class AgentWorkspace(ABC):
    """The files and terminals of an agent. `start_agent` comes first. Whoever opened the runtimes
    closes them."""

    root: str
    """The path of the workspace at the runtime; with several folders, of the first one."""

    @property
    @abstractmethod
    def runtime(self) -> Runtime: ...

    @abstractmethod
    async def start_agent(self, command: AgentCommand) -> Program:
        """Start the agent. If the proxy is killed, the agent ends within `UNREAD_LIMIT` seconds."""

    @abstractmethod
    def client_paths(self, cwd: str) -> PathMap:
        """From the client's paths to the agent's, for a client that works in `cwd`."""

    @abstractmethod
    def root_of(self, cwd: str) -> str:
        """The path at the runtime of the folder with `cwd`, in which files are read and written."""

    @abstractmethod
    def runtime_paths(self, cwd: str) -> PathMap:
        """From the agent's paths to those of the runtime, for a client that works in `cwd`."""

    @abstractmethod
    def terminal(self, request: TerminalRequest, name: str) -> AcpTerminal: ...

    @abstractmethod
    def mcp_server(self) -> Mapping[str, Any] | None:
        """Our MCP server for `session/new`; None if the agent cannot reach one."""


class SessionWorkspace(AgentWorkspace):
    """A session, in whose sandbox the agent and its commands run."""

    def __init__(self, runtime: Runtime, host: ProgramHost, *, folder: str = "") -> None:
        """`folder`: path of the session's workspace on the client's machine; empty: none."""
        self._runtime = runtime
        self._host = host
        self._folder = folder

    @property
    def runtime(self) -> Runtime:
        return self._runtime

    async def start_agent(self, command: AgentCommand) -> Program:
        program = await self._host.start_program(
            command.argv, secret_env=command.secrets, unread_limit=UNREAD_LIMIT
        )
        self.root = (await program.status()).cwd
        return program

    def client_paths(self, cwd: str) -> PathMap:
        if self._folder and is_inside(cwd, self._folder):
            return PathMap(self._folder, self.root)
        return map_for(cwd, self.root)

    def root_of(self, cwd: str) -> str:  # noqa: ARG002
        return self.root

    def runtime_paths(self, cwd: str) -> PathMap:  # noqa: ARG002
        return SAME_PATHS

    def terminal(self, request: TerminalRequest, name: str) -> AcpTerminal:  # noqa: ARG002
        return ProgramTerminal(request, self._host)

    def mcp_server(self) -> Mapping[str, Any] | None:
        return None


class WindowWorkspace(AgentWorkspace):
    """A window of a hub. The agent runs on this machine; its files and terminals are the window's.

    The commands of terminals run in shells of the window, which its user sees.
    """

    def __init__(
        self, window: Window, runtime: Runtime, host: ProgramHost, *, mcp_server: Mapping[str, Any]
    ) -> None:
        if not window.folders:
            raise UsageError(
                f"The window {window.name!r} has no folder open; open a folder in it first"
            )
        self._window = window
        self._runtime = runtime
        self._host = host
        self._mcp_server = mcp_server
        self.root = window.folders[0].path

    @property
    def runtime(self) -> Runtime:
        return self._runtime

    async def start_agent(self, command: AgentCommand) -> Program:
        return await self._host.start_program(
            command.argv, secret_env=command.secrets, unread_limit=UNREAD_LIMIT
        )

    def client_paths(self, cwd: str) -> PathMap:  # noqa: ARG002
        return SAME_PATHS

    def root_of(self, cwd: str) -> str:
        folders = (posixpath.normpath(each.path) for each in self._window.folders)
        return next((each for each in folders if is_inside(cwd, each)), self.root)

    def runtime_paths(self, cwd: str) -> PathMap:
        return map_for(cwd, self.root_of(cwd))

    def terminal(self, request: TerminalRequest, name: str) -> AcpTerminal:
        return ShellTerminal(request, self._runtime, name)

    def mcp_server(self) -> Mapping[str, Any] | None:
        return self._mcp_server
