"""Kinds of actions of editor windows. Sandboxes execute those about code with language servers.

Import it only where they are used: `kinds` loads it on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal

from .actions import Action
from .agent_test_actions import AGENT_TEST_ACTIONS
from .event_class import event_class
from .git_events import GIT_ACTIONS
from .notebook_events import NOTEBOOK_ACTIONS
from .task_events import TASK_ACTIONS
from .view_events import VIEW_ACTIONS


@event_class()
class Diagnostics(Action):
    """List the problems that language servers report, for one file or for all files."""

    kind: ClassVar[str] = "diagnostics"

    path: str | None = None
    severity: Literal["error", "warning", "information", "hint"] = "hint"
    """Return problems of this severity and above."""
    limit: int = 200
    thought: str = ""
    settle: bool = False
    """Wait until the current text of this file has been checked, or of all files that agents
    changed."""


@event_class()
class Symbols(Action):
    """List the symbols of a file, or search the workspace for symbols by name."""

    kind: ClassVar[str] = "symbols"

    path: str | None = None
    query: str = ""
    limit: int = 200
    thought: str = ""


LookupKind = Literal[
    "definition",
    "type_definition",
    "implementations",
    "references",
    "hover",
    "call_hierarchy",
    "workspace_symbols",
    "code_actions",
]


@event_class()
class LanguageLookup(Action):
    """Look something up with language servers. Changes nothing.

    A place is named by `path`, `line` and the `symbol`'s text, because models count columns badly.
    """

    kind: ClassVar[str] = "language"

    what: LookupKind
    path: str | None = None
    """Required, except for `workspace_symbols`."""
    line: int | None = None
    """Line number, from 1. Required, except for `workspace_symbols`."""
    symbol: str = ""
    """Text in the line. Only `code_actions` accepts none: then they are for the whole line."""
    occurrence: int = 1
    """Which occurrence of the symbol in the line, from 1. Only whole words count."""
    query: str = ""
    """`workspace_symbols`: part of the name. `code_actions`: only this kind, such as `refactor`."""
    direction: Literal["incoming", "outgoing"] = "incoming"
    """`call_hierarchy`: `incoming` lists the callers of the symbol, `outgoing` what it calls."""
    end_line: int | None = None
    """`code_actions`: the last line, if they are for several lines."""
    offset: int = 0
    """How many results to skip, to read the next part of a long list."""
    limit: int = 100
    thought: str = ""


@event_class()
class RenameSymbol(Action):
    """Rename a symbol in all files that use it, and save them. A window undoes it in one step."""

    kind: ClassVar[str] = "rename_symbol"

    path: str
    line: int
    symbol: str
    new_name: str
    occurrence: int = 1
    thought: str = ""


@event_class()
class ApplyCodeAction(Action):
    """Apply a quick fix or refactoring that `code_actions` lists for the same place."""

    kind: ClassVar[str] = "apply_code_action"

    path: str
    line: int
    title: str
    """Exactly as listed."""
    symbol: str = ""
    occurrence: int = 1
    end_line: int | None = None
    thought: str = ""


@event_class()
class FormatFile(Action):
    """Format a file with the formatter for its language, and save it."""

    kind: ClassVar[str] = "format"

    path: str
    thought: str = ""


@event_class()
class OrganizeImports(Action):
    """Sort the imports of a file and remove unused ones, and save it."""

    kind: ClassVar[str] = "organize_imports"

    path: str
    thought: str = ""


@event_class()
class ListDebugConfigurations(Action):
    """List the launch configurations of the workspace and the types of debugger."""

    kind: ClassVar[str] = "debug_configurations"

    thought: str = ""


@event_class()
class SetBreakpoints(Action):
    """Add, remove and list breakpoints. Without arguments it only lists them."""

    kind: ClassVar[str] = "set_breakpoints"

    path: str | None = None
    """The file of `add` and `remove`, and whose breakpoints are listed. None: all files."""
    add: Sequence[Mapping[str, Any]] = ()
    """Each: line, and optionally condition, hit_condition and log_message (which does not stop).
    A breakpoint in the same line is replaced."""
    remove: Sequence[int] = ()
    """Lines whose breakpoints are removed."""
    clear: bool = False
    """First remove the breakpoints that agents set, in the file or everywhere."""
    exceptions: Sequence[str] | None = None
    """Stop at these exceptions: names of filters of the debugger, such as `uncaught`. They apply to
    debug sessions of this agent. None: no change."""
    thought: str = ""


@event_class()
class DebugStart(Action):
    """Start a program in the debugger. Answers when it stops or ends, or after `timeout`."""

    kind: ClassVar[str] = "debug_start"

    name: str = ""
    """A launch configuration, as `debug_configurations` lists it."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """An own configuration instead: `type`, `request` and what the debugger needs."""
    folder: str = ""
    """Name or path of the workspace folder. Empty: the one that has the configuration."""
    thought: str = ""


@event_class()
class DebugContinue(Action):
    """Let the program run until it stops or ends. If it runs already, only wait for that."""

    kind: ClassVar[str] = "debug_continue"

    thread: int | None = None
    """None: the thread that stopped last."""
    thought: str = ""


@event_class()
class DebugStep(Action):
    """Execute one line: `over` calls, `into` a call, or `out` of the function."""

    kind: ClassVar[str] = "debug_step"

    step: Literal["over", "into", "out"] = "over"
    thread: int | None = None
    """None: the thread that stopped last."""
    thought: str = ""


@event_class()
class DebugPause(Action):
    """Stop the program where it is."""

    kind: ClassVar[str] = "debug_pause"

    thread: int | None = None
    """None: any thread."""
    thought: str = ""


@event_class()
class DebugState(Action):
    """Return threads, stack, variables and new output without changing anything."""

    kind: ClassVar[str] = "debug_state"

    thread: int | None = None
    """None: the thread that stopped last."""
    frame: int = 0
    """Whose source lines and variables: 0 is the top of the stack."""
    thought: str = ""


@event_class()
class DebugEvaluate(Action):
    """Evaluate an expression in the program, which may change it."""

    kind: ClassVar[str] = "debug_evaluate"

    expression: str
    frame: int = 0
    """In this frame of the stack: 0 is the top."""
    thread: int | None = None
    """None: the thread that stopped last."""
    thought: str = ""


@event_class()
class DebugSetVariable(Action):
    """Assign a new value to a variable of the stopped program."""

    kind: ClassVar[str] = "debug_set_variable"

    name: str
    value: str
    """An expression in the language of the program."""
    frame: int = 0
    thread: int | None = None
    """None: the thread that stopped last."""
    thought: str = ""


@event_class()
class DebugStop(Action):
    """End the program that the agent debugs, or start it again."""

    kind: ClassVar[str] = "debug_stop"

    restart: bool = False
    """Start it again with the same configuration, and answer as `debug_start` does."""
    thought: str = ""


@event_class()
class Selection(Action):
    """Return the user's selection in the active editor."""

    kind: ClassVar[str] = "selection"

    thought: str = ""


@event_class()
class OpenFile(Action):
    """Open a file in the user's editor, at a line."""

    kind: ClassVar[str] = "open_file"

    path: str
    line: int | None = None
    column: int | None = None
    preview: bool = True
    thought: str = ""


@event_class()
class ShowDiff(Action):
    """Show the user a diff between a file and its proposed content."""

    kind: ClassVar[str] = "show_diff"

    path: str
    content: str
    title: str = ""
    thought: str = ""


@event_class()
class AskUser(Action):
    """Ask the user a question. The answer is free text, or one of `options`."""

    kind: ClassVar[str] = "ask_user"

    question: str
    options: Sequence[str] = ()
    default: str = ""
    thought: str = ""


@event_class()
class VscodeCommand(Action):
    """Run a VS Code command by id."""

    kind: ClassVar[str] = "vscode_command"

    command: str
    arguments: Sequence[Any] = ()
    """JSON values. The objects `{"$uri": …}`, `{"$position": …}`, `{"$range": …}`,
    `{"$selection": …}` and `{"$location": …}`, at any depth, become VS Code's `Uri`, `Position`,
    `Range`, `Selection` and `Location`."""
    thought: str = ""


@event_class()
class BridgeRequest(Action):
    """Send a bridge request to a window, as a script started in the window would.

    Partial results are sent as progress, one JSON document per line.
    """

    kind: ClassVar[str] = "bridge"

    request: str
    """Type of the request, such as `vscode/chat`. `$/progress` sends another `value` to the running
    request `id`."""
    params: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


EDITOR_ACTIONS: Sequence[type[Action]] = (
    *(Diagnostics, Symbols, LanguageLookup, RenameSymbol, ApplyCodeAction, FormatFile),
    *(OrganizeImports, ListDebugConfigurations, SetBreakpoints, DebugStart, DebugContinue),
    *(DebugStep, DebugPause, DebugState, DebugEvaluate, DebugSetVariable, DebugStop),
    *AGENT_TEST_ACTIONS,
    *(Selection, OpenFile, ShowDiff, AskUser, VscodeCommand, BridgeRequest),
    *NOTEBOOK_ACTIONS,
    *TASK_ACTIONS,
    *GIT_ACTIONS,
    *VIEW_ACTIONS,
)
"""Every action class of editor windows, also those that sandboxes execute too."""
