"""Every kind of observation: what was seen after an action.

Kinds, extras and defaults are OpenHands' (V0, 0.62); the last section adds ours. A failure to do
an action is an `Error` observation whose `error_id` is the code of the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .actions import Source
from .identity import EventId, new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What all observations carry around their own extras."""

    kind: ClassVar[str] = ""

    content: str = ""
    id: EventId = field(default_factory=new_id)
    timestamp: str | None = None
    source: Source | None = "environment"
    cause: EventId | None = None
    """The id of the action that led to this."""
    tool_call_metadata: Mapping[str, Any] | None = None
    llm_metrics: Mapping[str, Any] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Extras a newer peer sent that this version does not know; sent on unchanged."""


# Work in a sandbox or window ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CmdMetadata:
    """The state of a shell when it answered. The part below `suffix` is ours."""

    exit_code: int = -1
    """-1 while the program is still running, or when nothing was run."""
    pid: int = -1
    """The last background job the shell started, else -1."""
    username: str | None = None
    hostname: str | None = None
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    prefix: str = ""
    """A note for the reader before the content, such as whose output it is."""
    suffix: str = ""
    """A note for the reader after the content: status, time-out, what can be done next."""

    shell: str = ""
    state: Literal["done", "running", "refused", "idle"] = "done"
    """done: ended, `exit_code` is its status. running: it goes on. refused: this command was not
    run because another one is running. idle: there was nothing to read from or type into."""
    timed_out: Literal["", "soft", "hard"] = ""
    """Why the answer came before the end: no new output (soft) or out of time (hard)."""
    new_shell: bool = False
    """This command is the first of a new shell: variables and jobs of an earlier one are gone."""
    shell_ended: bool = False
    """The shell itself ended with this command; the next one gets a new shell."""
    background: str = ""
    """What background jobs printed since the last command, before this one started."""
    output_bytes: int = 0
    """Bytes the command printed for this answer, left-out part included."""
    left_out_bytes: int = 0
    """How many of those are not in `content`; the log has them."""
    log_start: int = 0
    """Where this answer's output starts in the shell's log, in bytes since the log began."""
    log_end: int = 0
    log_path: str | None = None
    duration: float = 0.0
    """Seconds from sending the command to this answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CmdOutput(Observation):
    """What a shell showed while a command ran; the text is decoded and otherwise untouched."""

    kind: ClassVar[str] = "run"

    command: str
    metadata: CmdMetadata = field(default_factory=CmdMetadata)
    hidden: bool = False

    @property
    def exit_code(self) -> int:
        """-1 while the program is still running."""
        return self.metadata.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMetadata:
    """How a cell went and the state of its kernel then. All of it is ours."""

    state: Literal["done", "failed", "running", "input", "died", "refused", "idle"] = "done"
    """done: it ended. failed: it raised `error_name`. running: it was interrupted and goes on all
    the same. input: it asks and waits for an answer. died: the kernel did. refused: this cell was
    not run because another one does not end. idle: no cell waits for this answer."""
    error_name: str = ""
    """The class of what was raised, `ZeroDivisionError`."""
    error_value: str = ""
    timed_out: bool = False
    """The cell was out of time and was interrupted."""
    new_kernel: bool = False
    """This cell is the first of a new kernel: variables and imports of an earlier one are gone."""
    execution_count: int | None = None
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    output_bytes: int = 0
    """Bytes the cell printed for this answer, left-out part included."""
    left_out_bytes: int = 0
    """How many of those are not in `content`; the log has them."""
    log_start: int = 0
    """Where this answer's output starts in the kernel's log, in bytes since the log began."""
    log_end: int = 0
    log_path: str | None = None
    duration: float = 0.0
    """Seconds from giving the cell to this answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IPythonOutput(Observation):
    """What a cell printed, returned and raised, as text; pictures come as data URLs."""

    kind: ClassVar[str] = "run_ipython"

    code: str
    image_urls: Sequence[str] | None = None
    metadata: CellMetadata = field(default_factory=CellMetadata)

    @property
    def succeeded(self) -> bool:
        """The cell ran to its end and raised nothing."""
        return self.metadata.state == "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent(Observation):
    """The lines asked for; images, PDF and video come as a data URL."""

    kind: ClassVar[str] = "read"

    path: str
    impl_source: Literal["default", "oh_aci"] = "default"
    error_id: str = ""
    """Ours: the code of the error when the editor's `view` failed and `content` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWritten(Observation):
    kind: ClassVar[str] = "write"

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdited(Observation):
    kind: ClassVar[str] = "edit"

    path: str = ""
    prev_exist: bool = False
    old_content: str | None = None
    new_content: str | None = None
    impl_source: Literal["llm_based_edit", "oh_aci"] = "llm_based_edit"
    diff: str | None = None
    _diff_cache: str | None = None
    error_id: str = ""
    """Ours: the code of the error when the edit failed and `content` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOutput(Observation):
    kind: ClassVar[str] = "browse"

    url: str
    trigger_by_action: str
    screenshot: str = ""
    screenshot_path: str | None = None
    set_of_marks: str = ""
    error: bool = False
    goal_image_urls: Sequence[str] = ()
    open_pages_urls: Sequence[str] = ()
    active_page_index: int = -1
    dom_object: Mapping[str, Any] = field(default_factory=dict)
    axtree_object: Mapping[str, Any] = field(default_factory=dict)
    extra_element_properties: Mapping[str, Any] = field(default_factory=dict)
    last_browser_action: str = ""
    last_browser_action_error: str = ""
    focused_element_bid: str = ""
    filter_visible_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Error(Observation):
    """The action failed; `content` says why, `error_id` is the error's code."""

    kind: ClassVar[str] = "error"

    error_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDownloaded(Observation):
    kind: ClassVar[str] = "download"

    file_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpResult(Observation):
    kind: ClassVar[str] = "mcp"

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


# Talk between agent and user ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(Observation):
    kind: ClassVar[str] = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Success(Observation):
    kind: ClassVar[str] = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRejected(Observation):
    kind: ClassVar[str] = "user_rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condensed(Observation):
    kind: ClassVar[str] = "condense"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought(Observation):
    kind: ClassVar[str] = "think"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopDetected(Observation):
    kind: ClassVar[str] = "loop_detection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated(Observation):
    kind: ClassVar[str] = "delegate"

    outputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStateChanged(Observation):
    kind: ClassVar[str] = "agent_state_changed"

    agent_state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled(Observation):
    kind: ClassVar[str] = "recall"

    recall_type: Literal["workspace_context", "knowledge"]
    repo_name: str = ""
    repo_directory: str = ""
    repo_branch: str = ""
    repo_instructions: str = ""
    runtime_hosts: Mapping[str, int] = field(default_factory=dict)
    additional_agent_instructions: str = ""
    date: str = ""
    custom_secrets_descriptions: Mapping[str, str] = field(default_factory=dict)
    conversation_instructions: str = ""
    working_dir: str = ""
    microagent_knowledge: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksTracked(Observation):
    kind: ClassVar[str] = "task_tracking"

    command: str = ""
    task_list: Sequence[Mapping[str, Any]] = ()


# Ours -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DirMade(Observation):
    kind: ClassVar[str] = "mkdir"

    path: str
    created: bool = True
    """False when it was there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirRemoved(Observation):
    kind: ClassVar[str] = "rmdir"

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemoved(Observation):
    kind: ClassVar[str] = "rm"

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirEntry:
    path: str
    """Relative to the directory listed."""
    type: Literal["file", "directory", "link", "other"]
    size: int = 0
    modified: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DirListing(Observation):
    """Directories first, each group by name; `content` has one per line, directories with `/`."""

    kind: ClassVar[str] = "list"

    path: str
    entries: Sequence[DirEntry] = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobResult(Observation):
    kind: ClassVar[str] = "glob"

    path: str
    pattern: str
    paths: Sequence[str] = ()
    """Absolute, newest first."""
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepMatch:
    path: str
    line: int
    """1-based."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepResult(Observation):
    kind: ClassVar[str] = "grep"

    path: str
    pattern: str
    matches: Sequence[GrepMatch] = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(Observation):
    kind: ClassVar[str] = "interrupt"

    shell: str = ""
    was_running: bool = True
    """False when there was nothing to interrupt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed(Observation):
    kind: ClassVar[str] = "diagnostics"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: path, line, column, end_line, end_column, severity, message, source, code."""
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolsFound(Observation):
    kind: ClassVar[str] = "symbols"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: name, kind, container, path, line, column."""
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected(Observation):
    kind: ClassVar[str] = "selection"

    path: str | None = None
    start_line: int = 0
    start_column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOpened(Observation):
    kind: ClassVar[str] = "open_file"

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffShown(Observation):
    kind: ClassVar[str] = "show_diff"

    path: str
    outcome: Literal["shown", "accepted", "rejected"] = "shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAnswered(Observation):
    """`content` is the answer."""

    kind: ClassVar[str] = "ask_user"

    question: str = ""
    answered: bool = True
    """False when the user dismissed the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VscodeCommandDone(Observation):
    kind: ClassVar[str] = "vscode_command"

    command: str
    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeAnswered(Observation):
    kind: ClassVar[str] = "bridge"

    request: str
    result: Any = None
    error: Mapping[str, Any] | None = None
    """`code`, `message` and `detail`, in place of a result."""


OBSERVATIONS: Mapping[str, type[Observation]] = {
    cls.kind: cls
    for cls in (
        *(CmdOutput, IPythonOutput, FileContent, FileWritten, FileEdited, BrowserOutput, Error),
        *(FileDownloaded, McpResult, Nothing, Success, UserRejected, Condensed, Thought),
        *(LoopDetected, Delegated, AgentStateChanged, Recalled, TasksTracked),
        *(DirMade, DirRemoved, FileRemoved, DirListing, GlobResult, GrepResult, Interrupted),
        *(Diagnosed, SymbolsFound, Selected, FileOpened, DiffShown, UserAnswered),
        *(VscodeCommandDone, BridgeAnswered),
    )
}
"""Every observation class by its `kind`."""
