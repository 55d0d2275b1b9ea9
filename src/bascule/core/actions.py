"""The kinds of actions: a request to a runtime, as data. `editor_actions` has those for editors.

Kinds, fields and defaults are those of OpenHands (V0, 0.62); the last section adds Bascule's own.
All classes are frozen. Fields of a class may be positional, those of `Action` are keywords only:
`CmdRun("make", timeout=60)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal

from .event_class import EventBase, event_class
from .identity import EventId, new_id

Source = Literal["agent", "user", "environment"]
Confirmation = Literal["confirmed", "rejected", "awaiting_confirmation"]
SecurityRisk = Literal[-1, 0, 1, 2]
"""Unknown, low, medium, high."""


@event_class(kw_only=True)
class Action(EventBase):
    """The fields that all actions have."""

    kind: ClassVar[str] = ""

    id: EventId = field(default_factory=new_id)
    timestamp: str | None = None
    source: Source | None = None
    timeout: float | None = None
    """Seconds the action may take; sent with the action. None: the runtime's default."""
    tool_call_metadata: Mapping[str, Any] | None = None
    llm_metrics: Mapping[str, Any] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Arguments from a newer peer that this version does not know; passed on unchanged."""


# Work in a sandbox or window ------------------------------------------------------------


@event_class()
class CmdRun(Action):
    """Run a command in a shell. An empty `command` reads more output of the running command, and
    `is_input` types into it."""

    kind: ClassVar[str] = "run"

    command: str
    is_input: bool = False
    """Type `command` into the running program. `C-c`, `C-d`, … are keys. Other text is followed by
    Enter unless it ends with a newline (a single newline is Enter alone)."""
    thought: str = ""
    blocking: bool = False
    """Do not answer early if there is no new output; only the hard timeout applies."""
    is_static: bool = False
    """Run in a temporary shell that starts in `cwd` and is separate from all other shells."""
    cwd: str | None = None
    """Directory to run the command in. A shell changes to it first and stays there; a static
    command starts in it."""
    hidden: bool = False
    confirmation_state: Confirmation = "confirmed"
    security_risk: SecurityRisk = -1
    shell: str = ""
    """Bascule's own: name of the shell to use; empty: the default shell. A shell is created when
    its name is first used."""
    output_limit: int | None = None
    """Bascule's own: characters of output to return, from its start and its end. 0: all output.
    None: the default."""
    queue: bool = False
    """Bascule's own: wait until the shell is free, instead of being refused while a program
    runs."""


@event_class()
class IPythonRun(Action):
    """Run a cell in the IPython kernel, or send input to the running cell (`is_input`)."""

    kind: ClassVar[str] = "run_ipython"

    code: str
    thought: str = ""
    include_extra: bool = True
    """Append the kernel's working directory and interpreter to `content`."""
    confirmation_state: Confirmation = "confirmed"
    security_risk: SecurityRisk = -1
    kernel_init_code: str = ""
    """Code to run before the first cell of every kernel."""
    is_input: bool = False
    """Bascule's own: `code` is the answer to a cell that waits for input."""
    output_limit: int | None = None
    """Bascule's own: characters of output to return, from its start and its end. 0: all output.
    None: the default."""


@event_class()
class FileRead(Action):
    """Read a file: lines `start` to `end` (from 0; -1: to the end), or `view_range` (from 1)."""

    kind: ClassVar[str] = "read"

    path: str
    start: int = 0
    end: int = -1
    thought: str = ""
    security_risk: SecurityRisk = -1
    impl_source: Literal["default", "oh_aci"] = "default"
    view_range: Sequence[int] | None = None


@event_class()
class FileWrite(Action):
    """Write a file, or replace its lines `start` to `end`."""

    kind: ClassVar[str] = "write"

    path: str
    content: str
    start: int = 0
    end: int = -1
    thought: str = ""
    security_risk: SecurityRisk = -1


@event_class()
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
    """Bascule's own, for `view`; OpenHands sends line ranges with `read`."""


@event_class()
class Browse(Action):
    """Open a page in the browser and return its text."""

    kind: ClassVar[str] = "browse"

    url: str
    thought: str = ""
    security_risk: SecurityRisk = -1
    return_axtree: bool = False


@event_class()
class BrowseInteractive(Action):
    """Act in the browser with BrowserGym calls such as `click('12')`."""

    kind: ClassVar[str] = "browse_interactive"

    browser_actions: str
    thought: str = ""
    browsergym_send_msg_to_user: str = ""
    security_risk: SecurityRisk = -1
    return_axtree: bool = False


@event_class()
class McpCall(Action):
    """Call a tool of an MCP server."""

    kind: ClassVar[str] = "call_tool_mcp"

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""
    security_risk: SecurityRisk = -1


# Talk between agent and user; nothing to execute ----------------------------------------


@event_class()
class Null(Action):
    kind: ClassVar[str] = "null"


@event_class()
class Message(Action):
    kind: ClassVar[str] = "message"

    content: str
    file_urls: Sequence[str] | None = None
    image_urls: Sequence[str] | None = None
    wait_for_response: bool = False
    security_risk: SecurityRisk = -1


@event_class()
class SystemMessage(Action):
    kind: ClassVar[str] = "system"

    content: str
    tools: Sequence[Any] | None = None
    openhands_version: str | None = None
    agent_class: str | None = None


@event_class()
class Think(Action):
    kind: ClassVar[str] = "think"

    thought: str = ""


@event_class()
class Finish(Action):
    kind: ClassVar[str] = "finish"

    final_thought: str = ""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


@event_class()
class Reject(Action):
    kind: ClassVar[str] = "reject"

    outputs: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


@event_class()
class Delegate(Action):
    kind: ClassVar[str] = "delegate"

    agent: str
    inputs: Mapping[str, Any]
    thought: str = ""


@event_class()
class Recall(Action):
    kind: ClassVar[str] = "recall"

    recall_type: Literal["workspace_context", "knowledge"]
    query: str = ""
    thought: str = ""


@event_class()
class ChangeAgentState(Action):
    kind: ClassVar[str] = "change_agent_state"

    agent_state: str
    thought: str = ""


@event_class()
class Condensation(Action):
    """Forget events: either a list of ids or a range; a summary needs its offset."""

    kind: ClassVar[str] = "condensation"

    forgotten_event_ids: Sequence[int | str] | None = None
    forgotten_events_start_id: int | str | None = None
    forgotten_events_end_id: int | str | None = None
    summary: str | None = None
    summary_offset: int | None = None


@event_class()
class CondensationRequest(Action):
    kind: ClassVar[str] = "condensation_request"


@event_class()
class TaskTracking(Action):
    kind: ClassVar[str] = "task_tracking"

    command: Literal["view", "plan"] = "view"
    task_list: Sequence[Mapping[str, Any]] = ()
    thought: str = ""


@event_class()
class LoopRecovery(Action):
    kind: ClassVar[str] = "loop_recovery"

    option: Literal[1, 2, 3] = 1


# Bascule's own --------------------------------------------------------------------------


@event_class()
class MakeDir(Action):
    """Create a directory and its parents; no error if it exists already."""

    kind: ClassVar[str] = "mkdir"

    path: str
    thought: str = ""


@event_class()
class RemoveDir(Action):
    """Remove an empty directory; with `recursive`, also a directory with contents."""

    kind: ClassVar[str] = "rmdir"

    path: str
    recursive: bool = False
    thought: str = ""


@event_class()
class Remove(Action):
    """Remove a file or symbolic link (the link itself, not its target)."""

    kind: ClassVar[str] = "rm"

    path: str
    thought: str = ""


@event_class()
class ListDir(Action):
    kind: ClassVar[str] = "list"

    path: str = "."
    depth: int = 1
    include_hidden: bool = True
    limit: int = 1000
    thought: str = ""


@event_class()
class Glob(Action):
    """Find files by pattern (`**/*.py`), most recently modified first, without ignored files."""

    kind: ClassVar[str] = "glob"

    pattern: str
    path: str = "."
    include_ignored: bool = False
    limit: int = 100
    thought: str = ""


@event_class()
class Grep(Action):
    """Find lines by regular expression, without ignored and binary files."""

    kind: ClassVar[str] = "grep"

    pattern: str
    path: str = "."
    include: str = ""
    """Search only files whose name matches this glob, such as `*.py`."""
    ignore_case: bool = False
    literal: bool = False
    include_ignored: bool = False
    limit: int = 100
    thought: str = ""


@event_class()
class Interrupt(Action):
    """Interrupt the running program of a shell, or the running cell of the kernel, as Ctrl-C would.
    With `kill`, kill it."""

    kind: ClassVar[str] = "interrupt"

    shell: str = ""
    """Name of the shell; `ipython` for the kernel. Killing the kernel loses its variables, and the
    next cell gets a new kernel."""
    kill: bool = False
    thought: str = ""


@event_class()
class ListCheckpoints(Action):
    """List the checkpoints of the workspace: what each action changed in it."""

    kind: ClassVar[str] = "checkpoints"

    thought: str = ""


@event_class()
class ShowCheckpoint(Action):
    """Show which paths one action changed, and the changes as a diff."""

    kind: ClassVar[str] = "checkpoint"

    checkpoint: int
    paths: Sequence[str] = ()
    """Only these files and directories, relative to the workspace; empty: all of them."""
    thought: str = ""


@event_class()
class RestoreCheckpoint(Action):
    """Undo what one action changed, or everything since then.

    Paths that somebody changed since are not restored, but reported. The restore gets its own
    checkpoint, so that it can be undone in the same way.
    """

    kind: ClassVar[str] = "restore"

    checkpoint: int
    paths: Sequence[str] = ()
    """Only these files and directories, relative to the workspace; empty: all of them."""
    since: bool = False
    """Also undo every later checkpoint."""
    dry_run: bool = False
    """Only report what would be restored."""
    thought: str = ""


BASE_ACTIONS: Sequence[type[Action]] = (
    *(CmdRun, IPythonRun, FileRead, FileWrite, FileEdit, Browse, BrowseInteractive, McpCall),
    *(Null, Message, SystemMessage, Think, Finish, Reject, Delegate, Recall, ChangeAgentState),
    *(Condensation, CondensationRequest, TaskTracking, LoopRecovery),
    *(MakeDir, RemoveDir, Remove, ListDir, Glob, Grep, Interrupt),
    *(ListCheckpoints, ShowCheckpoint, RestoreCheckpoint),
)
"""Every action class of this module; `kinds.ACTIONS` also has those for editors."""

CHECKPOINT_ACTIONS = (ListCheckpoints, ShowCheckpoint, RestoreCheckpoint)
"""Actions on the checkpoints of a workspace. A sandbox that records checkpoints executes them."""

NOT_EXECUTABLE: frozenset[str] = frozenset(
    cls.kind
    for cls in (
        *(Null, Message, SystemMessage, Think, Finish, Reject, Delegate, Recall, ChangeAgentState),
        *(Condensation, CondensationRequest, TaskTracking, LoopRecovery),
    )
)
"""Kinds that only carry information; a runtime does nothing for them."""
