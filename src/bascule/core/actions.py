"""Every kind of action: one thing to do, said as data.

Kinds, fields and defaults are OpenHands' (V0, 0.62); the last section adds ours. All are frozen;
the first field is positional, the envelope's are keywords: `CmdRun("make", timeout=60)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .identity import EventId, new_id

Source = Literal["agent", "user", "environment"]
Confirmation = Literal["confirmed", "rejected", "awaiting_confirmation"]
SecurityRisk = Literal[-1, 0, 1, 2]
"""Unknown, low, medium, high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What all actions carry around their own arguments."""

    kind: ClassVar[str] = ""

    id: EventId = field(default_factory=new_id)
    timestamp: str | None = None
    source: Source | None = None
    timeout: float | None = None
    """Seconds the action may take; it travels with the action. None: the runtime's default."""
    tool_call_metadata: Mapping[str, Any] | None = None
    llm_metrics: Mapping[str, Any] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Arguments a newer peer sent that this version does not know; sent on unchanged."""


# Work in a sandbox or window ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CmdRun(Action):
    """Run a command in a shell, read on from a running one (''), or type into it (`is_input`)."""

    kind: ClassVar[str] = "run"

    command: str
    is_input: bool = False
    """Type `command` into the running program; `C-c`, `C-d`, … are keys, other text gets Enter
    unless it ends with one (a lone newline is just Enter)."""
    thought: str = ""
    blocking: bool = False
    """Do not answer early when no new output comes; only the hard time-out applies."""
    is_static: bool = False
    """Run in a throw-away shell started in `cwd`, apart from every other one."""
    cwd: str | None = None
    """Where to run it: a shell goes there first, and stays; a static command starts there."""
    hidden: bool = False
    confirmation_state: Confirmation = "confirmed"
    security_risk: SecurityRisk = -1
    shell: str = ""
    """Ours: the name of the shell to use; empty is the default one. Made when first named."""
    output_limit: int | None = None
    """Ours: characters of output to return, head and tail kept. 0: all of it. None: the default."""
    queue: bool = False
    """Ours: wait for the shell to be free instead of being refused while a program runs."""


@dataclass(frozen=True, slots=True)
class IPythonRun(Action):
    """Run a cell in the IPython kernel, or answer what the running one asks (`is_input`)."""

    kind: ClassVar[str] = "run_ipython"

    code: str
    thought: str = ""
    include_extra: bool = True
    """End `content` with the kernel's directory and interpreter."""
    confirmation_state: Confirmation = "confirmed"
    security_risk: SecurityRisk = -1
    kernel_init_code: str = ""
    """Run first, once in every kernel."""
    is_input: bool = False
    """Ours: `code` is the answer to a cell that asks for input."""
    output_limit: int | None = None
    """Ours: characters of output to return, head and tail kept. 0: all of it. None: the default."""


@dataclass(frozen=True, slots=True)
class FileRead(Action):
    """Read a file: lines `start` to `end` (0-based, -1: to the end), or `view_range` (1-based)."""

    kind: ClassVar[str] = "read"

    path: str
    start: int = 0
    end: int = -1
    thought: str = ""
    security_risk: SecurityRisk = -1
    impl_source: Literal["default", "oh_aci"] = "default"
    view_range: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class FileWrite(Action):
    """Write a file, or replace its lines `start` to `end`."""

    kind: ClassVar[str] = "write"

    path: str
    content: str
    start: int = 0
    end: int = -1
    thought: str = ""
    security_risk: SecurityRisk = -1


@dataclass(frozen=True, slots=True)
class FileEdit(Action):
    """Edit a file by command: `view`, `create`, `str_replace`, `insert` or `undo_edit`."""

    kind: ClassVar[str] = "edit"

    path: str
    command: str = ""
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | str | None = None
    content: str = ""
    start: int = 1
    end: int = -1
    thought: str = ""
    security_risk: SecurityRisk = -1
    impl_source: Literal["oh_aci", "llm_based_edit"] = "oh_aci"
    view_range: Sequence[int] | None = None
    """Ours: for `view`; OpenHands sends ranges with `read`."""


@dataclass(frozen=True, slots=True)
class Browse(Action):
    """Open a page and read it."""

    kind: ClassVar[str] = "browse"

    url: str
    thought: str = ""
    security_risk: SecurityRisk = -1
    return_axtree: bool = False


@dataclass(frozen=True, slots=True)
class BrowseInteractive(Action):
    """Act in the browser with BrowserGym calls such as `click('12')`."""

    kind: ClassVar[str] = "browse_interactive"

    browser_actions: str
    thought: str = ""
    browsergym_send_msg_to_user: str = ""
    security_risk: SecurityRisk = -1
    return_axtree: bool = False


@dataclass(frozen=True, slots=True)
class McpCall(Action):
    """Call a tool of an MCP server."""

    kind: ClassVar[str] = "call_tool_mcp"

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""
    security_risk: SecurityRisk = -1


# Talk between agent and user; nothing to execute ----------------------------------------


@dataclass(frozen=True, slots=True)
class Null(Action):
    kind: ClassVar[str] = "null"


@dataclass(frozen=True, slots=True)
class Message(Action):
    kind: ClassVar[str] = "message"

    content: str
    file_urls: Sequence[str] | None = None
    image_urls: Sequence[str] | None = None
    wait_for_response: bool = False
    security_risk: SecurityRisk = -1


@dataclass(frozen=True, slots=True)
class SystemMessage(Action):
    kind: ClassVar[str] = "system"

    content: str
    tools: Sequence[Any] | None = None
    openhands_version: str | None = None
    agent_class: str | None = None


@dataclass(frozen=True, slots=True)
class Think(Action):
    kind: ClassVar[str] = "think"

    thought: str = ""


@dataclass(frozen=True, slots=True)
class Finish(Action):
    kind: ClassVar[str] = "finish"

    final_thought: str = ""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Reject(Action):
    kind: ClassVar[str] = "reject"

    outputs: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Delegate(Action):
    kind: ClassVar[str] = "delegate"

    agent: str
    inputs: Mapping[str, Any]
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Recall(Action):
    kind: ClassVar[str] = "recall"

    recall_type: Literal["workspace_context", "knowledge"]
    query: str = ""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class ChangeAgentState(Action):
    kind: ClassVar[str] = "change_agent_state"

    agent_state: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Condensation(Action):
    """Forget events: either a list of ids or a range; a summary needs its offset."""

    kind: ClassVar[str] = "condensation"

    forgotten_event_ids: Sequence[int | str] | None = None
    forgotten_events_start_id: int | str | None = None
    forgotten_events_end_id: int | str | None = None
    summary: str | None = None
    summary_offset: int | None = None


@dataclass(frozen=True, slots=True)
class CondensationRequest(Action):
    kind: ClassVar[str] = "condensation_request"


@dataclass(frozen=True, slots=True)
class TaskTracking(Action):
    kind: ClassVar[str] = "task_tracking"

    command: Literal["view", "plan"] = "view"
    task_list: Sequence[Mapping[str, Any]] = ()
    thought: str = ""


@dataclass(frozen=True, slots=True)
class LoopRecovery(Action):
    kind: ClassVar[str] = "loop_recovery"

    option: Literal[1, 2, 3] = 1


# Ours -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakeDir(Action):
    """Make a directory and its parents; one that exists already is fine."""

    kind: ClassVar[str] = "mkdir"

    path: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class RemoveDir(Action):
    """Remove an empty directory, or with `recursive` all that is in it."""

    kind: ClassVar[str] = "rmdir"

    path: str
    recursive: bool = False
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Remove(Action):
    """Remove a file or link (the link, not what it points to)."""

    kind: ClassVar[str] = "rm"

    path: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class ListDir(Action):
    kind: ClassVar[str] = "list"

    path: str = "."
    depth: int = 1
    include_hidden: bool = True
    limit: int = 1000
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Glob(Action):
    """Find files by pattern (`**/*.py`), newest first; ignored files are left out."""

    kind: ClassVar[str] = "glob"

    pattern: str
    path: str = "."
    include_ignored: bool = False
    limit: int = 100
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Grep(Action):
    """Find lines by regular expression; ignored and binary files are left out."""

    kind: ClassVar[str] = "grep"

    pattern: str
    path: str = "."
    include: str = ""
    """Only files whose name fits this glob, `*.py`."""
    ignore_case: bool = False
    literal: bool = False
    include_ignored: bool = False
    limit: int = 100
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Interrupt(Action):
    """Interrupt the program a shell runs, or the cell the kernel does; `kill` ends it by force."""

    kind: ClassVar[str] = "interrupt"

    shell: str = ""
    """`ipython` is the kernel; killing it loses its variables, and the next cell gets a new one."""
    kill: bool = False
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostics(Action):
    """Problems the editor knows of, for one file or all."""

    kind: ClassVar[str] = "diagnostics"

    path: str | None = None
    severity: Literal["error", "warning", "information", "hint"] = "hint"
    """The least severe that is still wanted."""
    limit: int = 200
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Symbols(Action):
    """Symbols of a file, or by name across the workspace."""

    kind: ClassVar[str] = "symbols"

    path: str | None = None
    query: str = ""
    limit: int = 200
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Selection(Action):
    """What the user has selected in the active editor."""

    kind: ClassVar[str] = "selection"

    thought: str = ""


@dataclass(frozen=True, slots=True)
class OpenFile(Action):
    """Show a file to the user, at a line."""

    kind: ClassVar[str] = "open_file"

    path: str
    line: int | None = None
    column: int | None = None
    preview: bool = True
    thought: str = ""


@dataclass(frozen=True, slots=True)
class ShowDiff(Action):
    """Show the user a proposed content of a file beside the present one."""

    kind: ClassVar[str] = "show_diff"

    path: str
    content: str
    title: str = ""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class AskUser(Action):
    """Ask the user a question; free text, or one of `options`."""

    kind: ClassVar[str] = "ask_user"

    question: str
    options: Sequence[str] = ()
    default: str = ""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class VscodeCommand(Action):
    """Run a VS Code command by id."""

    kind: ClassVar[str] = "vscode_command"

    command: str
    arguments: Sequence[Any] = ()
    thought: str = ""


@dataclass(frozen=True, slots=True)
class BridgeRequest(Action):
    """Ask a window what its own scripts ask it, from elsewhere. Pieces come as lines of JSON."""

    kind: ClassVar[str] = "bridge"

    request: str
    """Its type, `vscode/chat` and others; `$/progress` adds `value` to the request `id`."""
    params: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


ACTIONS: Mapping[str, type[Action]] = {
    cls.kind: cls
    for cls in (
        *(CmdRun, IPythonRun, FileRead, FileWrite, FileEdit, Browse, BrowseInteractive, McpCall),
        *(Null, Message, SystemMessage, Think, Finish, Reject, Delegate, Recall, ChangeAgentState),
        *(Condensation, CondensationRequest, TaskTracking, LoopRecovery),
        *(MakeDir, RemoveDir, Remove, ListDir, Glob, Grep, Interrupt),
        *(Diagnostics, Symbols, Selection, OpenFile, ShowDiff, AskUser, VscodeCommand),
        BridgeRequest,
    )
}
"""Every action class by its `kind`."""

NOT_EXECUTABLE: frozenset[str] = frozenset(
    cls.kind
    for cls in (
        *(Null, Message, SystemMessage, Think, Finish, Reject, Delegate, Recall, ChangeAgentState),
        *(Condensation, CondensationRequest, TaskTracking, LoopRecovery),
    )
)
"""Kinds that only tell; a runtime has nothing to do for them."""
