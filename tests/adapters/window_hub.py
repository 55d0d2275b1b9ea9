"""A hub with a window, on an event loop in its own thread, because OpenHands blocks its thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bascule.core.actions import Action
from bascule.core.agent_test_actions import AGENT_TEST_ACTIONS
from bascule.core.contracts import OnProgress
from bascule.core.editor_actions import (
    ApplyCodeAction,
    AskUser,
    DebugContinue,
    DebugEvaluate,
    DebugPause,
    DebugSetVariable,
    DebugStart,
    DebugState,
    DebugStep,
    DebugStop,
    Diagnostics,
    FormatFile,
    LanguageLookup,
    ListDebugConfigurations,
    OpenFile,
    OrganizeImports,
    RenameSymbol,
    Selection,
    SetBreakpoints,
    ShowDiff,
    Symbols,
    VscodeCommand,
)
from bascule.core.editor_observations import (
    BreakpointList,
    CodeChanged,
    DebugConfigurationList,
    DebugSnapshot,
    DebugValue,
    Diagnosed,
    DiffShown,
    FileOpened,
    LanguageFound,
    Selected,
    SymbolsFound,
    UserAnswered,
    VscodeCommandDone,
)
from bascule.core.notebook_events import EditCells, NotebookCells, ReadCells, RunCells
from bascule.core.observations import Observation
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from tests.hub.serving import RunningHub

from .agent_test_answers import agent_test_answer
from .workbench_answers import WORKBENCH_KINDS, workbench_answer

T = TypeVar("T")


class EditorSandbox(Sandbox):
    """A sandbox that also executes editor actions: records them, and answers questions."""

    def __init__(self, settings: SandboxSettings) -> None:
        super().__init__(settings)
        self.shown: list[Action] = []
        self.answer: str | None = "blue"
        self.was_asked = threading.Event()

    @property
    def capabilities(self) -> frozenset[str]:
        shows: tuple[type[Action], ...] = (
            *(AskUser, Diagnostics, OpenFile, Selection, ShowDiff, Symbols, VscodeCommand),
            *(LanguageLookup, RenameSymbol, ApplyCodeAction, FormatFile, OrganizeImports),
            *(ListDebugConfigurations, SetBreakpoints, DebugStart, DebugContinue, DebugStep),
            *(DebugPause, DebugState, DebugEvaluate, DebugSetVariable, DebugStop),
            *AGENT_TEST_ACTIONS,
            *(ReadCells, EditCells, RunCells),
        )
        return super().capabilities | {kind.kind for kind in shows} | WORKBENCH_KINDS

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        self.shown.append(action)
        if answer := agent_test_answer(action) or workbench_answer(action):
            return answer
        match action:
            case AskUser():
                self.was_asked.set()
                if self.answer is None:
                    await asyncio.Event().wait()
                return UserAnswered(
                    content=self.answer or "", question=action.question, cause=action.id
                )
            case Diagnostics():
                text = f"{action.path}:1: error: undefined name"
                return Diagnosed(content=text, cause=action.id)
            case Symbols():
                return SymbolsFound(content=f"add: function in {action.path}", cause=action.id)
            case LanguageLookup():
                items = [{"path": action.path, "line": 1}]
                text = f"{action.path}:1: {action.what} of {action.symbol or action.query}"
                return LanguageFound(
                    content=text, what=action.what, items=items, total=1, cause=action.id
                )
            case RenameSymbol():
                done = f"Renamed {action.symbol!r} to {action.new_name!r}"
                return CodeChanged(content=done, files=[{"path": action.path}], cause=action.id)
            case ApplyCodeAction():
                return CodeChanged(content=f"Applied {action.title!r}", cause=action.id)
            case FormatFile():
                return CodeChanged(content=f"Formatted {action.path}", cause=action.id)
            case OrganizeImports():
                return CodeChanged(content=f"Organized {action.path}", cause=action.id)
            case ListDebugConfigurations():
                return DebugConfigurationList(content="Main: node, launch", cause=action.id)
            case SetBreakpoints():
                lines = [f"{action.path}:{each['line']}" for each in action.add]
                return BreakpointList(content="\n".join(lines), cause=action.id)
            case DebugStart() | DebugContinue() | DebugStep() | DebugPause() | DebugState():
                text = f"Stopped by {action.kind} at sums.py:2 in add"
                return DebugSnapshot(content=text, state="stopped", line=2, cause=action.id)
            case DebugStop():
                return DebugSnapshot(content="'Main' has ended", state="ended", cause=action.id)
            case DebugEvaluate(expression=text):
                return DebugValue(content=f"{text} = 3", expression=text, cause=action.id)
            case DebugSetVariable(name=name, value=value):
                return DebugValue(content=f"{name} = {value}", expression=name, cause=action.id)
            case ReadCells() | EditCells() | RunCells():
                text = f"{action.kind} of {action.path}"
                return NotebookCells(content=text, path=action.path, cause=action.id)
            case VscodeCommand():
                arguments = list(action.arguments)
                return VscodeCommandDone(command=action.command, result=arguments, cause=action.id)
            case Selection():
                return Selected(content="return a - b", path="sums.py", cause=action.id)
            case OpenFile():
                return FileOpened(path=action.path, cause=action.id)
            case ShowDiff():
                return DiffShown(path=action.path, cause=action.id)
        return await super().act(action, on_progress=on_progress)


class EditorWindow(FakeWindow):
    editor_sandbox: EditorSandbox

    async def connect(self) -> None:
        self._sandbox = self.editor_sandbox = await asyncio.to_thread(EditorSandbox, self._settings)
        await self._socket.connect()


class HubWithWindow:
    """A hub and its only window, with the URL and token for `use_bascule`."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._hub = RunningHub()
        self._folder = folder
        self.window: EditorWindow
        self.url = self._hub.url
        self.token = ""

    def open(self) -> None:
        self._thread.start()
        self.wait(self._open())

    def close(self) -> None:
        self.wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._runner.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> None:
        await self._hub.__aenter__()
        self.token = self._hub.agent
        settings = SandboxSettings(shells=ShellSettings(working_dir=self._folder))
        self.window = EditorWindow(self.url, self._hub.window, settings, name="desk")
        await self.window.connect()

    async def _close(self) -> None:
        await self.window.aclose()
        await self._hub.hub.aclose()


@contextmanager
def open_hub_with_window(folder: Path) -> Iterator[HubWithWindow]:
    hub = HubWithWindow(folder)
    hub.open()
    try:
        yield hub
    finally:
        hub.close()
