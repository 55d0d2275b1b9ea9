"""Messages of a sandbox, validated: other programs of the session could send them.

Such programs run as the same user and can replace the sandbox's socket by their own. The hub stores
messages, shows them to people and calculates with them, so it checks their form and size.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from bascule.core.errors import SandboxUnreachable

Short = Annotated[str, Field(max_length=4096)]
Timestamp = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, lt=1 << 31)]
_MessageT = TypeVar("_MessageT", bound="_Message")


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not Base64: {error}") from None
    return text


class _Message(BaseModel):
    """Ignores fields that a newer sandbox adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SandboxActivity(_Message):
    """Unix times of the last action and of the last keystroke, and the CPU time used so far."""

    last_action: Timestamp | None = None
    last_keystroke: Timestamp | None = None
    cpu_seconds: Timestamp


class WorkspaceState(_Message):
    """Whether the workspace is empty, being filled, ready or failed."""

    state: Literal["empty", "filling", "ready", "failed"]


class MergeResult(_Message):
    """The merge result of one path that a fork changed."""

    path: Annotated[str, Field(max_length=4 * 4096)]
    """Each byte that is not UTF-8 is escaped as four characters."""
    outcome: Literal["taken", "merged", "same", "conflict", "kept"]
    reason: Short = ""
    lines: Annotated[list[tuple[Number, Number]], Field(max_length=100_000)] = []
    """Ranges of lines in conflict."""


class MergeResults(_Message):
    results: list[MergeResult]
    checkpoint: Number | None = None


class FileEntryMessage(_Message):
    """A file or directory, with its properties."""

    name: Short
    path: Annotated[str, Field(max_length=4 * 4096)]
    type: Literal["file", "directory", "other", "missing"]
    """For a link, the type of its target."""
    target: Short | None = None
    """Where a link leads."""
    size: Annotated[int, Field(ge=0, lt=1 << 63)]
    mode: Number
    permissions: Annotated[str, Field(max_length=20)]
    owner: Short
    group: Short
    modified: Annotated[float, Field(allow_inf_nan=False, ge=-(2.0**40), le=2.0**37)]


class FileEntryList(_Message):
    entries: Annotated[list[FileEntryMessage], Field(max_length=10_000)]


class FileChangeMessage(_Message):
    """A change in a watched directory."""

    path: Annotated[str, Field(max_length=4 * 4096)]
    """Relative to the directory."""
    type: Literal["create", "write", "remove", "rename", "chmod"]


class CodeContextMessage(_Message):
    """A context: a kernel for cells with rich results."""

    id: Annotated[str, Field(max_length=64)]
    cwd: Short


class CodeContextList(_Message):
    contexts: Annotated[list[CodeContextMessage], Field(max_length=1000)]


class CellEndMessage(_Message):
    """The end of a cell: its execution count, and why it did not run to its end."""

    count: Number | None = None
    error: str = ""


class Port(_Message):
    """An app that listens on a port."""

    n: Annotated[int, Field(ge=0, lt=100)]
    """Number of the app in its URL."""
    port: Annotated[int, Field(ge=1, lt=1 << 16)]
    command: Short = ""


class DeclaredPort(_Message):
    """A port whose URL is fixed before an app listens on it."""

    n: Annotated[int, Field(ge=0, lt=100)]
    port: Annotated[int, Field(ge=1, lt=1 << 16)]


class PortList(_Message):
    ports: Annotated[list[Port], Field(max_length=1000)]
    declared: Annotated[list[DeclaredPort], Field(max_length=100)] = []


class _PortClosed(_Message):
    n: Number
    port: Number


class _Progress(_Message):
    stage: Short
    percent: Annotated[int, Field(ge=0, le=100)]


class _Filled(_Message):
    commit: Short = ""


class _FillFailed(_Message):
    cause: Short


class _Notice(_Message):
    text: Short


class _Started(_Message):
    pid: Number


class _VSCode(_Message):
    running: bool


class _CommandPart(_Message):
    text: Short
    verdict: Literal["allow", "ask", "deny"]
    reason: Short


class _Proposal(_Message):
    rule: Annotated[list[Short], Field(min_length=1, max_length=100)]
    text: Short


class _Question(_Message):
    """A question about an action. Its id is part of a path."""

    id: Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
    cause: Short
    digest: Short
    kind: Short
    summary: Short
    detail: Annotated[str, Field(max_length=100_000)]
    is_whole: bool
    detail_length: Number
    parts: Annotated[list[_CommandPart], Field(max_length=100)]
    proposals: Annotated[list[_Proposal], Field(max_length=100)]
    choices: Annotated[list[Literal["once", "always", "deny"]], Field(max_length=3)]
    expires: Short


class RuleUse(_Message):
    """A rule for commands as a sandbox knows it, and what it decided there."""

    verdict: Literal["allow", "ask", "deny"]
    rule: Short
    owner: Literal["person", "workspace"]
    why: Short = ""
    origin: Short = ""
    count: Number
    last_time: Annotated[float | None, Field(ge=0, le=1e11, allow_inf_nan=False)] = None
    last_command: Short = ""


class RuleUses(_Message):
    rules: Annotated[list[RuleUse], Field(max_length=200)]


class RuleVerdict(_Message):
    """What the rules say about one command."""

    verdict: Literal["allow", "ask", "deny"]
    reason: Short = ""


class _Settled(_Message):
    id: Short


class _State(_Message):
    """The first event of a stream: the current state, for the hub only."""

    vscode: _VSCode = _VSCode(running=False)
    approvals: Annotated[list[_Question], Field(max_length=100)] = []


class TimelineBegin(_Message):
    """The first message of a sandbox's timeline."""

    epoch: Short = ""
    """Changes when the sandbox restarts and numbers its entries from 1 again."""
    working_dir: Short = ""


class TimelinePosition(_Message):
    """The newest position in a sandbox's timeline."""

    epoch: Short
    n: Annotated[int, Field(ge=0, le=1 << 53)]


class FileNames(_Message):
    """Names in a directory."""

    names: Annotated[list[Short], Field(max_length=100_000)]


class SandboxInfo(_Message):
    """Properties that a sandbox reports about itself."""

    working_dir: Short


class TerminalState(_Message):
    """An open terminal. The sandbox buffers its output from byte `start` to byte `end`."""

    name: Short = ""
    start: Annotated[int, Field(ge=0, le=1 << 53)]
    end: Annotated[int, Field(ge=0, le=1 << 53)]


class TerminalOutput(_Message):
    """A chunk of a terminal's output."""

    offset: Annotated[int, Field(ge=0, le=1 << 53)]
    data: Annotated[str, AfterValidator(_base64)]


class SandboxEntry(_Message):
    """An entry of a sandbox's timeline."""

    n: Annotated[int, Field(ge=0, le=1 << 53)]
    """Number of the entry in its epoch; 0: output, which is not kept."""
    kind: Literal["action", "observation", "failed", "output"]
    time: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
    event: dict[str, Any] = {}
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    checkpoint: Annotated[int | None, Field(ge=1, le=1 << 53)] = None
    cause: Short = ""
    message: str = ""
    data: Annotated[str, AfterValidator(_base64)] = ""

    def contents(self) -> dict[str, Any]:
        """The fields that entries of this kind have, without number, kind and time."""
        found = {name: getattr(self, name) for name in _CONTENTS[self.kind]}
        if self.checkpoint is not None and self.kind == "observation":
            found["checkpoint"] = self.checkpoint
        return found


_CONTENTS: Final[Mapping[str, Sequence[str]]] = {
    "action": ("event",),
    "observation": ("event", "seconds"),
    "failed": ("cause", "seconds", "message"),
    "output": ("cause", "data"),
}

_EVENTS: Final[Mapping[str, type[_Message]]] = {
    "state": _State,
    "port.opened": Port,
    "port.closed": _PortClosed,
    "workspace.progress": _Progress,
    "workspace.ready": _Filled,
    "workspace.failed": _FillFailed,
    "checkpoints.notice": _Notice,
    "vscode.started": _Started,
    "vscode.stopped": _Message,
    "approval.requested": _Question,
    "approval.settled": _Settled,
}
"""The known events of a sandbox. The hub's own events have other names."""


def parse_message(kind: type[_MessageT], value: object) -> _MessageT:
    """Validate a message. Raises `SandboxUnreachable` if it is invalid: no sandbox sent it."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise SandboxUnreachable(
            f"The sandbox sent an invalid answer: {where}: {first['msg']}"
        ) from None


def parse_event(name: str, data: object) -> Mapping[str, Any] | None:
    """The validated fields of an event; None for an unknown kind."""
    kind = _EVENTS.get(name)
    return None if kind is None else parse_message(kind, data).model_dump()
