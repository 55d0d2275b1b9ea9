"""Base class of the OpenHands V0 runtimes."""

from __future__ import annotations

import asyncio
import codecs
import logging
import shlex
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from openhands.core.config.mcp_config import MCPConfig, MCPStdioServerConfig
from openhands.core.exceptions import AgentRuntimeUnavailableError
from openhands.events.action import (
    Action,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
)
from openhands.events.action.mcp import MCPAction
from openhands.events.event import FileEditSource
from openhands.events.observation import (
    CmdOutputObservation,
    ErrorObservation,
    Observation,
)
from openhands.events.serialization import event_to_dict, observation_from_dict
from openhands.mcp.utils import call_tool_mcp, create_mcp_clients
from openhands.runtime.base import Runtime
from openhands.runtime.plugins import JupyterRequirement
from openhands.runtime.runtime_status import RuntimeStatus
from openhands.runtime.utils.bash_constants import TIMEOUT_MESSAGE_TEMPLATE

from bascule.core.actions import CmdRun, ListDir
from bascule.core.contracts import OnProgress, OutputProgress
from bascule.core.errors import BasculeError, InternalError, UsageError
from bascule.core.observations import CmdOutput, DirListing
from bascule.core.observations import Observation as Seen
from bascule.runtime import SyncRuntime
from bascule.wire import decode_action, reply_envelope

logger = logging.getLogger(__name__)

_MAX_ENTRIES: Final = 100_000
"""Maximum entries of a directory listing. OpenHands cannot mark a listing as incomplete."""


class BasculeRuntime(Runtime):
    """Passes OpenHands' actions to a Bascule runtime and returns its observations.

    Every action gets an observation: if a runtime raised an error, OpenHands would give its agent
    no answer. The user's own files stay unchanged: variables are set in the shell, not in
    ~/.bashrc, and git's identity is set only for this shell, and only if git has no identity.
    """

    def __init__(self, *args: Any, headless_mode: bool = True, **keywords: Any) -> None:
        self._runtime: SyncRuntime | None = None
        self._shell = ""
        self._on_output: Callable[[str], None] | None = None
        super().__init__(*args, headless_mode=headless_mode, **keywords)

    @abstractmethod
    def _open(self) -> tuple[SyncRuntime, str]:
        """Open a connected runtime. Returns the runtime and the directory in which agents work."""

    async def connect(self) -> None:
        self.set_runtime_status(RuntimeStatus.STARTING_RUNTIME)
        try:
            self._runtime, directory = await asyncio.to_thread(self._open)
        except BasculeError as error:
            self.set_runtime_status(RuntimeStatus.ERROR, error.message, level="error")
            raise AgentRuntimeUnavailableError(error.message) from error
        self.config.workspace_mount_path_in_sandbox = directory
        await asyncio.to_thread(self.setup_initial_env)
        self._runtime_initialized = True
        self.set_runtime_status(RuntimeStatus.READY)

    def close(self) -> None:
        runtime, self._runtime = self._runtime, None
        self._runtime_initialized = False
        if runtime is not None:
            runtime.close()

    # Actions of agents --------------------------------------------------------------------

    def run_action(self, action: Action) -> Observation:
        try:
            seen: Observation = super().run_action(action)
        except Exception as error:  # a bug in Bascule or OpenHands: the agent still gets an answer
            logger.exception("the %s action failed unexpectedly", action.action)
            return ErrorObservation(
                f"The action failed unexpectedly: {type(error).__name__}: {error}",
                error_id=InternalError.code,
            )
        return seen

    async def _export_latest_git_provider_tokens(self, event: Action) -> None:
        """Log a git host's failure instead of raising, so that the agent gets an answer. Its
        command then fails with git's own message about the missing token."""
        try:
            await super()._export_latest_git_provider_tokens(event)
        except Exception:  # any failure of a git host
            logger.warning("the git host's token could not be renewed", exc_info=True)

    def run(self, action: CmdRunAction) -> Observation:
        return self._act(action)

    def run_ipython(self, action: IPythonRunCellAction) -> Observation:
        return self._act(action)

    def read(self, action: FileReadAction) -> Observation:
        return self._act(action)

    def write(self, action: FileWriteAction) -> Observation:
        return self._act(action)

    def edit(self, action: FileEditAction) -> Observation:
        if action.impl_source == FileEditSource.LLM_BASED_EDIT:
            return self.llm_based_edit(action)
        return self._act(action)

    def browse(self, action: BrowseURLAction) -> Observation:
        return self._act(action)

    def browse_interactive(self, action: BrowseInteractiveAction) -> Observation:
        return self._act(action)

    def _act(self, action: Action) -> Observation:
        if action.timeout is None:
            is_blocking = bool(getattr(action, "blocking", False))
            action.set_hard_timeout(self.config.sandbox.timeout, blocking=is_blocking)
        event = event_to_dict(action)
        event.pop("id", None)  # OpenHands' ids restart at 0 in each conversation; ours are unique
        try:
            bascule_action = decode_action(event)
            if isinstance(bascule_action, CmdRun):
                bascule_action = replace(bascule_action, shell=self._shell)
            seen = self._open_runtime.act(bascule_action, on_progress=self._progress())
        except BasculeError as error:
            logger.warning("the %s action failed: %s", action.action, error.message)
            return ErrorObservation(error.message, error_id=error.code)
        reply = reply_envelope(event, _with_openhands_advice(seen))
        if getattr(action, "hidden", False):
            reply.setdefault("extras", {})["hidden"] = True
        observation = observation_from_dict(reply)
        observation._cause = action.id
        return observation

    @property
    def _open_runtime(self) -> SyncRuntime:
        if self._runtime is None:
            raise UsageError("The runtime is not connected, or was closed")
        return self._runtime

    # MCP: the servers run where OpenHands runs, not in the runtime ----------------------------

    def get_mcp_config(
        self, extra_stdio_servers: list[MCPStdioServerConfig] | None = None
    ) -> MCPConfig:
        config = self.config.mcp
        for server in extra_stdio_servers or ():
            if server not in config.stdio_servers:
                config.stdio_servers.append(server)
        return config

    async def call_tool_mcp(self, action: MCPAction) -> Observation:
        config = self.get_mcp_config()
        try:
            clients = await create_mcp_clients(
                config.sse_servers, config.shttp_servers, self.sid, config.stdio_servers
            )
            if not clients:
                return ErrorObservation("No MCP server is configured, or none could be reached")
            return await call_tool_mcp(clients, action)
        except Exception as error:  # the agent gets an answer even if the MCP server fails
            logger.warning("the MCP tool %s failed", action.name, exc_info=True)
            return ErrorObservation(f"The MCP tool {action.name!r} failed: {error}")

    # Environment and identity -----------------------------------------------------------------

    def add_env_vars(self, env_vars: dict[str, str]) -> None:
        """Set variables in the shell, and in IPython if it is enabled. Writes no file."""
        variables = {key.upper(): value for key, value in env_vars.items()}
        if not variables:
            return
        if any(isinstance(plugin, JupyterRequirement) for plugin in self.plugins):
            lines = [f"os.environ[{key!r}] = {value!r}" for key, value in variables.items()]
            self.run_ipython(IPythonRunCellAction("\n".join(["import os", *lines])))
        words = " ".join(f"{key}={shlex.quote(value)}" for key, value in variables.items())
        seen = self.run(CmdRunAction(f"export {words}", hidden=True))
        if not isinstance(seen, CmdOutputObservation) or seen.exit_code != 0:
            names = ", ".join(variables)
            raise RuntimeError(f"The variables {names} could not be set: {seen.content}")

    def _setup_git_config(self) -> None:
        name = shlex.quote(self.config.git_user_name)
        email = shlex.quote(self.config.git_user_email)
        self.run(
            CmdRunAction(
                "git config user.email > /dev/null 2>&1 || "
                f"export GIT_AUTHOR_NAME={name} GIT_COMMITTER_NAME={name} "
                f"GIT_AUTHOR_EMAIL={email} GIT_COMMITTER_EMAIL={email}",
                hidden=True,
            )
        )

    # Files, addresses, streams ----------------------------------------------------------------

    def list_files(self, path: str | None = None) -> list[str]:
        """The names in a directory. Directories come first and end with a slash. Empty if the
        directory does not exist."""
        directory = str(self.workspace_root / (path or ""))
        seen = self._open_runtime.act(ListDir(directory, limit=_MAX_ENTRIES))
        found = seen.entries if isinstance(seen, DirListing) else ()
        return [f"{each.path}/" if each.type == "directory" else each.path for each in found]

    @property
    def vscode_url(self) -> str | None:
        return None

    def subscribe_to_shell_stream(self, callback: Callable[[str], None] | None = None) -> bool:
        """Call `callback` with output as it arrives, starting with the next command."""
        self._on_output = callback
        return True

    def _progress(self) -> OnProgress | None:
        callback = self._on_output
        if callback is None:
            return None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        def on_progress(progress: OutputProgress) -> None:
            if text := decoder.decode(progress.data):
                callback(text)

        return on_progress


def _with_openhands_advice(seen: Seen) -> Seen:
    """`seen` with OpenHands' own advice about a program that still runs."""
    if not isinstance(seen, CmdOutput) or not seen.metadata.timed_out:
        return seen
    why = seen.metadata.suffix.partition(" seconds.")[0]
    suffix = f"{why} seconds. {TIMEOUT_MESSAGE_TEMPLATE}]"
    return replace(seen, metadata=replace(seen.metadata, suffix=suffix))
