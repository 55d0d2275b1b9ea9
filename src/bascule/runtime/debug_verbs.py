"""Convenience methods for the debugger of a VS Code window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bascule.core.editor_actions import (
    DebugContinue,
    DebugEvaluate,
    DebugPause,
    DebugSetVariable,
    DebugStart,
    DebugState,
    DebugStep,
    DebugStop,
    ListDebugConfigurations,
    SetBreakpoints,
)
from bascule.core.editor_observations import (
    BreakpointList,
    DebugConfigurationList,
    DebugSnapshot,
    DebugValue,
)

from .verbs import Verbs


class DebugVerbs(Verbs):
    """`Verbs`, and methods that debug one program at a time with any debugger of the window.

    `debug_start`, `debug_continue`, `debug_step` and `debug_pause` return when the program stops or
    ends. After `timeout` they return too, with the program still running. The user may take over
    the debugger at any time; the next observation says so.
    """

    async def debug_configurations(self) -> DebugConfigurationList:
        """The launch configurations of the workspace."""
        return await self._do(ListDebugConfigurations(), DebugConfigurationList)

    async def set_breakpoints(
        self,
        path: str | None = None,
        *,
        add: Sequence[Mapping[str, Any]] = (),
        remove: Sequence[int] = (),
        clear: bool = False,
        exceptions: Sequence[str] | None = None,
    ) -> BreakpointList:
        """Change breakpoints and list them. `clear` first removes the breakpoints that agents set.

        Each item of `add` has a `line`, and optionally `condition`, `hit_condition`, `log_message`.
        """
        action = SetBreakpoints(path, add=add, remove=remove, clear=clear, exceptions=exceptions)
        return await self._do(action, BreakpointList)

    async def debug_start(
        self,
        name: str = "",
        *,
        configuration: Mapping[str, Any] | None = None,
        folder: str = "",
        timeout: float | None = None,
    ) -> DebugSnapshot:
        """Start the launch configuration `name` of the workspace, or the given `configuration`."""
        action = DebugStart(name, configuration or {}, folder, timeout=timeout)
        return await self._do(action, DebugSnapshot)

    async def debug_continue(
        self, *, thread: int | None = None, timeout: float | None = None
    ) -> DebugSnapshot:
        """Continue a stopped program. If the program is running already, only wait for its next
        stop."""
        return await self._do(DebugContinue(thread, timeout=timeout), DebugSnapshot)

    async def debug_step(
        self,
        step: Literal["over", "into", "out"] = "over",
        *,
        thread: int | None = None,
        timeout: float | None = None,
    ) -> DebugSnapshot:
        return await self._do(DebugStep(step, thread, timeout=timeout), DebugSnapshot)

    async def debug_pause(
        self, *, thread: int | None = None, timeout: float | None = None
    ) -> DebugSnapshot:
        return await self._do(DebugPause(thread, timeout=timeout), DebugSnapshot)

    async def debug_state(self, *, thread: int | None = None, frame: int = 0) -> DebugSnapshot:
        """Where the program is now, with the variables of a frame (0: the top of the stack)."""
        return await self._do(DebugState(thread, frame), DebugSnapshot)

    async def debug_evaluate(
        self, expression: str, *, frame: int = 0, thread: int | None = None
    ) -> DebugValue:
        return await self._do(DebugEvaluate(expression, frame, thread), DebugValue)

    async def debug_set_variable(
        self, name: str, value: str, *, frame: int = 0, thread: int | None = None
    ) -> DebugValue:
        """Assign the value of an expression to a variable."""
        return await self._do(DebugSetVariable(name, value, frame, thread), DebugValue)

    async def debug_stop(
        self, *, restart: bool = False, timeout: float | None = None
    ) -> DebugSnapshot:
        """End the program, or start it again."""
        return await self._do(DebugStop(restart, timeout=timeout), DebugSnapshot)
