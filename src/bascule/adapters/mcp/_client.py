"""The state of one MCP client: the runtime in which it acts, and its long results."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from bascule.core.actions import CmdRun
from bascule.core.contracts import OnProgress, Runtime
from bascule.core.editor_actions import OpenFile
from bascule.core.errors import BasculeError, NotSupported
from bascule.core.windows import Window

from ._pages import Pages
from ._results import ToolResult, error_result, result_of, reword
from ._sessions import SessionSummary
from ._targets import ToolTargets
from ._tool import Arguments, Tool

_CLOSE_TIMEOUT: Final = 2.0
"""Seconds for a shell to end when its client disconnects or switches to another runtime."""


class ClientState:
    """One client's state from its first call to its last. Calls may overlap.

    In a sandbox each client has its own shell, so that a `cd` of one client does not affect others
    in the same session. The shell ends when the client leaves the runtime. A program that still
    runs in the shell continues, and so do background jobs. In a window, clients share the window's
    terminal, because ending a terminal would need the user's approval for each client.
    """

    def __init__(self, targets: ToolTargets) -> None:
        self.targets = targets
        self._shell = f"mcp-{secrets.token_hex(4)}"
        self._has_shell = False
        self.pages = Pages()
        self._runtime: Runtime | None = None
        self._lock = asyncio.Lock()

    async def capabilities(self) -> frozenset[str] | None:
        """The action kinds that the current runtime supports; None if no runtime can be opened."""
        try:
            return (await self._current()).capabilities
        except BasculeError:
            return None

    async def do(
        self, tool: Tool, arguments: Arguments, on_progress: OnProgress | None
    ) -> ToolResult:
        """Run a tool. Every failure becomes a result."""
        try:
            runtime = await self._current()
            if tool.kind.kind not in runtime.capabilities:
                raise NotSupported(f"{tool.name} is not available here", kind=tool.kind.kind)
            is_window = OpenFile.kind in runtime.capabilities
            if "shell" in tool.properties and not arguments.get("shell") and not is_window:
                arguments = {**arguments, "shell": self._shell}
                self._has_shell = self._has_shell or tool.kind is CmdRun
            result = result_of(await runtime.act(tool.action(arguments), on_progress=on_progress))
        except BasculeError as error:
            result = error_result(error)
        return reword(result, tool.reword_error) if result.is_error else result

    async def read_more(self, arguments: Arguments) -> ToolResult:
        try:
            return ToolResult(text=self.pages.read(arguments["answer"], arguments["offset"]))
        except BasculeError as error:
            return error_result(error)

    async def list_windows(self, _: Arguments) -> ToolResult:
        try:
            windows = await self.targets.windows()
        except BasculeError as error:
            return error_result(error)
        rows = [_window_facts(each) for each in windows]
        return ToolResult(
            text="\n".join(map(_window_line, windows)) or "No window is connected to the hub",
            facts={"windows": rows},
        )

    async def use_window(self, arguments: Arguments) -> ToolResult:
        return await self._move(
            "window", self.targets.window(arguments["window"]), arguments["window"]
        )

    async def list_sessions(self, _: Arguments) -> ToolResult:
        try:
            sessions = await self.targets.sessions()
        except BasculeError as error:
            return error_result(error)
        lines = "\n".join(map(_session_line, sessions))
        rows = [asdict(each) for each in sessions]
        return ToolResult(text=lines or "There are no sessions", facts={"sessions": rows})

    async def use_session(self, arguments: Arguments) -> ToolResult:
        return await self._move(
            "session", self.targets.session(arguments["session"]), arguments["session"]
        )

    async def aclose(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await self._leave(runtime)

    async def _move(self, kind: str, opening: Awaitable[Runtime], name: str) -> ToolResult:
        """Switch to another runtime. The old runtime is closed only after the new runtime is
        open."""
        try:
            async with self._lock:
                new = await opening
                old, self._runtime = self._runtime, new
            if old is not None:
                await self._leave(old)
        except BasculeError as error:
            return error_result(error)
        return ToolResult(text=f"From now on tools act in the {kind} {name}")

    async def _leave(self, runtime: Runtime) -> None:
        """Close a runtime and this client's shell. A failure to end the shell is ignored, because
        the sandbox or window may be gone. There is a timeout, because a runtime would wait a minute
        for a window to return."""
        try:
            if self._has_shell:
                self._has_shell = False
                end = CmdRun("exit", shell=self._shell, hidden=True, timeout=_CLOSE_TIMEOUT)
                with suppress(BasculeError, TimeoutError):
                    async with asyncio.timeout(_CLOSE_TIMEOUT):
                        await runtime.act(end)
        finally:
            await runtime.aclose()

    async def _current(self) -> Runtime:
        async with self._lock:
            if self._runtime is None:
                self._runtime = await self.targets.first()
            return self._runtime


def _window_facts(window: Window) -> dict[str, Any]:
    return {
        "id": window.id,
        "name": window.name,
        "folders": [folder.path for folder in window.folders],
        "status": window.status,
    }


def _window_line(window: Window) -> str:
    folders = ", ".join(folder.path for folder in window.folders) or "no folder"
    return f"{window.id}  {window.name}  {folders}  {window.status}"


def _session_line(session: SessionSummary) -> str:
    return f"{session.id}  {session.name}  {session.state}"
