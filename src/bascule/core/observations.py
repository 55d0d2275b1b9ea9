"""Every kind of observation: the result of an action, as data.

Kinds, extras and defaults are those of OpenHands (V0, 0.62); the last section adds Bascule's own.
An action that fails results in an `Error` observation whose `error_id` is the code of the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .actions import Source
from .event_class import EventBase, event_class
from .identity import EventId, new_id


@event_class(kw_only=True)
class Observation(EventBase):
    """The fields that all observations have."""

    kind: ClassVar[str] = ""

    content: str = ""
    id: EventId = field(default_factory=new_id)
    timestamp: str | None = None
    source: Source | None = "environment"
    cause: EventId | None = None
    """The id of the action that this observation answers."""
    tool_call_metadata: Mapping[str, Any] | None = None
    llm_metrics: Mapping[str, Any] | None = None
    note: str | None = None
    """Something that the agent should know besides the result, such as which of its changes the
    user took back."""
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Extras from a newer peer that this version does not know; passed on unchanged."""


# Work in a sandbox or window ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CmdMetadata:
    """The state of a shell when it answered. OpenHands knows the fields up to `suffix`; Bascule
    adds the rest."""

    exit_code: int = -1
    """-1 while the program is still running, or if no command was run."""
    pid: int = -1
    """Process id of the last background job the shell started; -1 if there is none."""
    username: str | None = None
    hostname: str | None = None
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    prefix: str = ""
    """A note for the agent before the content, such as which command printed it."""
    suffix: str = ""
    """A note for the agent after the content: exit code, timeout, possible next steps."""

    shell: str = ""
    state: Literal["done", "running", "refused", "idle"] = "done"
    """done: the command ended with `exit_code`. running: it still runs. refused: this command was
    not run because another one is running. idle: no command runs that could be read from or typed
    into."""
    timed_out: Literal["", "soft", "hard"] = ""
    """Why the answer was sent before the command ended: no new output (soft), or the timeout was
    reached (hard)."""
    new_shell: bool = False
    """This command is the first of a new shell: variables and jobs of the shell before are lost."""
    shell_ended: bool = False
    """The shell itself ended with this command; the next command gets a new shell."""
    background: str = ""
    """Output that background jobs printed between the last command and this one."""
    output_bytes: int = 0
    """Bytes of output since the last answer, including the part that `content` leaves out."""
    left_out_bytes: int = 0
    """How many of those bytes are not in `content`; the log has them."""
    log_start: int = 0
    """Position of this answer's output in the shell's log, in bytes from the start of the log."""
    log_end: int = 0
    log_path: str | None = None
    duration: float = 0.0
    """Seconds from sending the command to this answer."""


@event_class(kw_only=True)
class CmdOutput(Observation):
    """The output of a shell command, as decoded text; otherwise unchanged."""

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
    """The outcome of a cell and the state of its kernel. OpenHands has none of these fields."""

    state: Literal["done", "failed", "running", "input", "died", "refused", "idle"] = "done"
    """done: the cell ended. failed: it raised `error_name`. running: it was interrupted but still
    runs. input: it waits for input from the user. died: the kernel died. refused: this cell was
    not run because another one still runs. idle: no cell waits for input."""
    error_name: str = ""
    """The class of the exception, for example `ZeroDivisionError`."""
    error_value: str = ""
    timed_out: bool = False
    """The cell reached its timeout and was interrupted."""
    new_kernel: bool = False
    """This cell is the first of a new kernel: variables and imports of the kernel before are
    lost."""
    execution_count: int | None = None
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    output_bytes: int = 0
    """Bytes of output since the last answer, including the part that `content` leaves out."""
    left_out_bytes: int = 0
    """How many of those bytes are not in `content`; the log has them."""
    log_start: int = 0
    """Position of this answer's output in the kernel's log, in bytes from the start of the log."""
    log_end: int = 0
    log_path: str | None = None
    duration: float = 0.0
    """Seconds from sending the cell to this answer."""


@event_class(kw_only=True)
class IPythonOutput(Observation):
    """The output, result and exception of a cell as text, and its images as data URLs."""

    kind: ClassVar[str] = "run_ipython"

    code: str
    image_urls: Sequence[str] | None = None
    metadata: CellMetadata = field(default_factory=CellMetadata)

    @property
    def succeeded(self) -> bool:
        """Whether the cell ran to its end without an exception."""
        return self.metadata.state == "done"


@event_class(kw_only=True)
class FileContent(Observation):
    """The requested lines of a file; a data URL for images, PDF and video."""

    kind: ClassVar[str] = "read"

    path: str
    impl_source: Literal["default", "oh_aci"] = "default"
    error_id: str = ""
    """Bascule's own: the error code if the editor's `view` failed; `content` has the reason."""


@event_class(kw_only=True)
class FileWritten(Observation):
    kind: ClassVar[str] = "write"

    path: str


@event_class(kw_only=True)
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
    """Bascule's own: the error code if the edit failed; `content` has the reason."""


@event_class(kw_only=True)
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


@event_class(kw_only=True)
class Error(Observation):
    """The action failed; `content` has the reason, `error_id` is the code of the error."""

    kind: ClassVar[str] = "error"

    error_id: str = ""


@event_class(kw_only=True)
class FileDownloaded(Observation):
    kind: ClassVar[str] = "download"

    file_path: str


@event_class(kw_only=True)
class McpResult(Observation):
    kind: ClassVar[str] = "mcp"

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


# Talk between agent and user ------------------------------------------------------------


@event_class(kw_only=True)
class Nothing(Observation):
    kind: ClassVar[str] = "null"


@event_class(kw_only=True)
class Success(Observation):
    kind: ClassVar[str] = "success"


@event_class(kw_only=True)
class UserRejected(Observation):
    kind: ClassVar[str] = "user_rejected"


@event_class(kw_only=True)
class Condensed(Observation):
    kind: ClassVar[str] = "condense"


@event_class(kw_only=True)
class Thought(Observation):
    kind: ClassVar[str] = "think"


@event_class(kw_only=True)
class LoopDetected(Observation):
    kind: ClassVar[str] = "loop_detection"


@event_class(kw_only=True)
class Delegated(Observation):
    kind: ClassVar[str] = "delegate"

    outputs: Mapping[str, Any]


@event_class(kw_only=True)
class AgentStateChanged(Observation):
    kind: ClassVar[str] = "agent_state_changed"

    agent_state: str
    reason: str = ""


@event_class(kw_only=True)
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


@event_class(kw_only=True)
class TasksTracked(Observation):
    kind: ClassVar[str] = "task_tracking"

    command: str = ""
    task_list: Sequence[Mapping[str, Any]] = ()


# Bascule's own --------------------------------------------------------------------------


@event_class(kw_only=True)
class DirMade(Observation):
    kind: ClassVar[str] = "mkdir"

    path: str
    created: bool = True
    """False if the directory existed already."""


@event_class(kw_only=True)
class DirRemoved(Observation):
    kind: ClassVar[str] = "rmdir"

    path: str


@event_class(kw_only=True)
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


@event_class(kw_only=True)
class DirListing(Observation):
    """Directories first, then files, each sorted by name. `content` has one entry per line;
    directories end with `/`."""

    kind: ClassVar[str] = "list"

    path: str
    entries: Sequence[DirEntry] = ()
    truncated: bool = False


@event_class(kw_only=True)
class GlobResult(Observation):
    kind: ClassVar[str] = "glob"

    path: str
    pattern: str
    paths: Sequence[str] = ()
    """Absolute paths, most recently modified first."""
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepMatch:
    path: str
    line: int
    """Line number, from 1."""
    text: str


@event_class(kw_only=True)
class GrepResult(Observation):
    kind: ClassVar[str] = "grep"

    path: str
    pattern: str
    matches: Sequence[GrepMatch] = ()
    truncated: bool = False


@event_class(kw_only=True)
class Interrupted(Observation):
    kind: ClassVar[str] = "interrupt"

    shell: str = ""
    was_running: bool = True
    """False if no program was running."""


@event_class(kw_only=True)
class CheckpointList(Observation):
    """The checkpoints of the workspace, oldest first. `content` has one line for each."""

    kind: ClassVar[str] = "checkpoints"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: id, agent, title, began, ended, is_interrupted, notes, files."""
    removed_up_to: int = 0
    """Checkpoints up to this id were removed to save space."""
    not_kept: Sequence[Mapping[str, Any]] = ()
    """Files and directories that cannot be restored. Each: path, size, reason."""


@event_class(kw_only=True)
class CheckpointDetail(Observation):
    """The changes of one action. `content` is a unified diff."""

    kind: ClassVar[str] = "checkpoint"

    checkpoint: Mapping[str, Any]
    """As in `CheckpointList.items`."""
    changes: Sequence[Mapping[str, Any]] = ()
    """Each: path, change (`added`, `modified` or `deleted`)."""
    truncated: bool = False
    """Whether the diff was too long and lacks its end."""


@event_class(kw_only=True)
class CheckpointRestored(Observation):
    """The result of a restore. `content` has one line for each path."""

    kind: ClassVar[str] = "restore"

    checkpoint: int | None = None
    """The restore's own checkpoint; restoring it undoes the restore. None if nothing changed."""
    restored: Sequence[str] = ()
    """Paths with their earlier contents again. With `dry_run`, paths that would be restored."""
    removed: Sequence[str] = ()
    """Paths that an agent had created, and that the restore removed."""
    conflicts: Sequence[Mapping[str, Any]] = ()
    """Paths that were not changed. Each: path, reason."""
    dry_run: bool = False


BASE_OBSERVATIONS: Sequence[type[Observation]] = (
    *(CmdOutput, IPythonOutput, FileContent, FileWritten, FileEdited, BrowserOutput, Error),
    *(FileDownloaded, McpResult, Nothing, Success, UserRejected, Condensed, Thought),
    *(LoopDetected, Delegated, AgentStateChanged, Recalled, TasksTracked),
    *(DirMade, DirRemoved, FileRemoved, DirListing, GlobResult, GrepResult, Interrupted),
    *(CheckpointList, CheckpointDetail, CheckpointRestored),
)
"""Every observation class of this module; `kinds.OBSERVATIONS` also has those for editors."""
