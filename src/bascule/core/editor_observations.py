"""Observations for the actions in `editor_actions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from .agent_test_observations import AGENT_TEST_OBSERVATIONS
from .event_class import event_class
from .git_events import GIT_OBSERVATIONS
from .notebook_events import NOTEBOOK_OBSERVATIONS
from .observations import Observation
from .task_events import TASK_OBSERVATIONS
from .view_events import VIEW_OBSERVATIONS


@event_class(kw_only=True)
class Diagnosed(Observation):
    kind: ClassVar[str] = "diagnostics"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: path, line, column, end_line, end_column, severity, message, source, code."""
    truncated: bool = False
    settled: bool | None = None
    """Whether the problems belong to the current text. None: the action did not ask for this."""


@event_class(kw_only=True)
class SymbolsFound(Observation):
    kind: ClassVar[str] = "symbols"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: name, kind, container, path, line, column."""
    truncated: bool = False


@event_class(kw_only=True)
class LanguageFound(Observation):
    """The results of a lookup. `content` has one line for each, with `path:line`."""

    kind: ClassVar[str] = "language"

    what: str
    items: Sequence[Mapping[str, Any]] = ()
    """Each: path, line, column, end_line, end_column, text (of the line; empty outside the
    workspace). Symbols and calls also have name, kind and container; calls have `lines`. A hover
    has only text. Code actions have title, kind, is_preferred and disabled."""
    total: int = 0
    """All results, also those left out by `offset` and `limit`."""
    truncated: bool = False
    waited: float = 0.0
    """Seconds of waiting for a language server that was still starting."""


@event_class(kw_only=True)
class CodeChanged(Observation):
    """Files were changed by a rename, a code action or a formatter. They are saved."""

    kind: ClassVar[str] = "code_changed"

    files: Sequence[Mapping[str, Any]] = ()
    """Each: path, lines (numbers of the changed lines, from 1, at most 100)."""
    diff: str = ""
    truncated: bool = False
    """Whether the diff was too long and lacks its end."""
    waited: float = 0.0
    """Seconds of waiting for a language server that was still starting."""


@event_class(kw_only=True)
class DebugConfigurationList(Observation):
    """The launch configurations of the workspace. `content` has one line for each."""

    kind: ClassVar[str] = "debug_configurations"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: name, type, request, folder, configuration (as in launch.json). A compound has the type
    `compound`."""
    types: Sequence[str] = ()
    """The types of debugger that the window has, for `debug_start` with a `configuration`."""


@event_class(kw_only=True)
class BreakpointList(Observation):
    """The breakpoints of the window. `content` has one line for each, with `path:line`."""

    kind: ClassVar[str] = "breakpoints"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: path, line, enabled, condition, hit_condition, log_message, by ("agent" or "user")."""
    exceptions: Sequence[str] = ()
    """The filters for exceptions of this agent's debug sessions."""


@event_class(kw_only=True)
class DebugSnapshot(Observation):
    """Where a program in the debugger is. `content` has the same as text."""

    kind: ClassVar[str] = "debug_state"

    state: Literal["stopped", "running", "ended"]
    name: str = ""
    """The name of the debug session."""
    reason: str = ""
    """Why it stopped, such as `breakpoint`, `step`, `exception`, `pause`."""
    description: str = ""
    """More about the reason, such as the text of the exception."""
    exit_code: int | None = None
    path: str | None = None
    line: int | None = None
    thread: int | None = None
    threads: Sequence[Mapping[str, Any]] = ()
    """Each: id, name, stopped."""
    frames: Sequence[Mapping[str, Any]] = ()
    """The stack from its top. Each: frame, name, path, line."""
    lines: Sequence[Mapping[str, Any]] = ()
    """The source lines around the place. Each: line, text."""
    variables: Sequence[Mapping[str, Any]] = ()
    """Local variables of the frame. Each: scope, name, value, type."""
    output: str = ""
    """What the program printed since the last answer; at most 16000 characters, the last ones."""
    truncated: bool = False
    """Whether frames, variables or output were left out."""
    taken_over: bool = False
    """Whether the user controlled the program since the last answer."""


@event_class(kw_only=True)
class DebugValue(Observation):
    """The value of an expression or variable in the debugger. `content` has it as text."""

    kind: ClassVar[str] = "debug_evaluate"

    expression: str
    value: str = ""
    type: str = ""
    children: Sequence[Mapping[str, Any]] = ()
    """Its parts. Each: name, value, type."""
    output: str = ""
    """What the program printed since the last answer."""
    truncated: bool = False


@event_class(kw_only=True)
class Selected(Observation):
    kind: ClassVar[str] = "selection"

    path: str | None = None
    start_line: int = 0
    start_column: int = 0
    end_line: int = 0
    end_column: int = 0


@event_class(kw_only=True)
class FileOpened(Observation):
    kind: ClassVar[str] = "open_file"

    path: str


@event_class(kw_only=True)
class DiffShown(Observation):
    kind: ClassVar[str] = "show_diff"

    path: str
    outcome: Literal["shown", "accepted", "rejected"] = "shown"


@event_class(kw_only=True)
class UserAnswered(Observation):
    """The user's answer, in `content`."""

    kind: ClassVar[str] = "ask_user"

    question: str = ""
    answered: bool = True
    """False if the user dismissed the question."""


@event_class(kw_only=True)
class VscodeCommandDone(Observation):
    kind: ClassVar[str] = "vscode_command"

    command: str
    result: Any = None
    """As JSON. Values such as `Uri` and `Range` have the forms of `VscodeCommand.arguments`."""


@event_class(kw_only=True)
class BridgeAnswered(Observation):
    kind: ClassVar[str] = "bridge"

    request: str
    result: Any = None
    error: Mapping[str, Any] | None = None
    """`code`, `message` and `detail` of a failure, instead of a result."""


EDITOR_OBSERVATIONS: Sequence[type[Observation]] = (
    *(Diagnosed, SymbolsFound, LanguageFound, CodeChanged, Selected, FileOpened, DiffShown),
    *(DebugConfigurationList, BreakpointList, DebugSnapshot, DebugValue),
    *AGENT_TEST_OBSERVATIONS,
    *(UserAnswered, VscodeCommandDone, BridgeAnswered),
    *NOTEBOOK_OBSERVATIONS,
    *TASK_OBSERVATIONS,
    *GIT_OBSERVATIONS,
    *VIEW_OBSERVATIONS,
)
"""Every observation class for actions of editors."""
