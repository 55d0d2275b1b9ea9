"""A session: a workspace with its sandbox, its VS Code and its apps."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NewType

SessionId = NewType("SessionId", str)
"""A random id of characters `[a-z0-9]` only. It is used in paths, and in host names before a
`-`."""

SessionState = Literal["starting", "ready", "paused", "stopping", "stopped", "failed"]
"""stopped: no process runs, the workspace is kept. failed: the same as stopped, and the session's
`cause` holds the reason."""

RuntimeKind = Literal["sandbox", "vscode"]
"""Where a session's actions run: in its action server, or in its own VS Code window."""

WorkspaceKind = Literal["empty", "folder", "git", "archive", "fork"]

EgressMode = Literal["off", "proxy", "open"]
"""off: no network access. proxy: HTTP(S) to the listed domains only. open: everything that the
machine can reach."""

FileLayout = Literal["", "openhands", "e2b"]
"""Another product whose file layout a sandbox imitates. openhands: the paths of OpenHands' own
images, which its agents and tests use, and `sudo` if the spawner can provide it. e2b: the workspace
is also at `/home/user`, the home directory in E2B's sandboxes."""

WIRE_FILE_LAYOUT: Final = "likeness"
"""The name of the field `file_layout` in the database and in messages, kept for sandboxes and
databases of earlier versions."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def new_session_id() -> SessionId:
    """A random id, as hard to guess as a UUID."""
    return SessionId("".join(secrets.choice(_DIGITS) for _ in range(25)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSource:
    """The initial contents of a workspace."""

    kind: WorkspaceKind = "empty"
    folder: str = ""
    """A folder of the host, used as it is and never removed."""
    url: str = ""
    """URL of the git repository to clone: https or ssh."""
    ref: str = ""
    """Branch, tag or commit to check out; empty: the default branch of the remote."""
    archive: str = ""
    """The id of an uploaded archive."""
    fork_of: str = ""
    """The id of the session whose workspace a fork copied, and to which its changes return."""
    base: str = ""
    """The id of the snapshot from which a fork was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Resource limits of a session. None: no limit."""

    memory: int | None = 2 << 30
    """Bytes."""
    cpus: float | None = 2.0
    processes: int | None = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """The parts of the network that a session can reach."""

    mode: EgressMode = "off"
    domains: Sequence[str] = ()
    """Domains the session may reach with mode `proxy`; `*.example.org` matches subdomains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    """Settings of an app, given before it starts."""

    keeps_prefix: bool = False
    """True: the app serves its pages below its base path, so requests keep that prefix. False:
    the app serves from the root, so the proxy removes the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpiry:
    """When the lifetime of a session ends, and what happens then."""

    at: float
    """Unix time."""
    action: Literal["remove", "pause"] = "remove"
    is_over: bool = False
    """Whether the session was paused because its lifetime is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """The settings a session was created with."""

    name: str = ""
    """Display name; need not be unique."""
    spawner: str = "local"
    runtime: RuntimeKind = "sandbox"
    shells: Literal["pty", "tmux"] = "pty"
    workspace: WorkspaceSource = field(default_factory=WorkspaceSource)
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables too, but their values are masked in records and timelines."""
    limits: SessionLimits = field(default_factory=SessionLimits)
    egress: Egress = field(default_factory=Egress)
    image: str = ""
    """Container image, for spawners that use one; empty: Bascule's own image."""
    user: str = ""
    """Name of the user inside the sandbox; empty: `bascule`. Only the spawner `local` supports
    `root`: that user has uid 0 in the sandbox, and on the host no more rights than the user of
    any other session."""
    browser: bool = True
    """Whether the session supports browser actions."""
    checkpoints: bool = True
    """Whether the session records what actions change in the workspace, so that it can be
    restored."""
    window_asks: bool = False
    """Whether the session's VS Code window asks before an agent runs a command without a rule.
    False: everything that no rule asks about or denies runs there."""
    file_layout: FileLayout = ""
    """Image whose users and paths the sandbox imitates. Stored and sent as `WIRE_FILE_LAYOUT`."""
    apps: Sequence[AppSpec] = ()
    """Settings of the apps that listen on `APP_PORT_1` and `APP_PORT_2`, in that order."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Texts that a client attached to the session, by name. They have no effect."""
    expiry: SessionExpiry | None = None
    """The end of the session's lifetime; None: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """Everything a spawner needs to start a sandbox, or to restart it after a stop.

    `directory` is the session's directory on the host. It contains `workspace/` (unless the
    workspace is a folder of the host), `home/` and `state/`. The caller of the spawner creates and
    removes it.
    """

    session_id: SessionId
    directory: Path
    run_dir: Path
    """Directory of the sandbox's sockets on the host: `sandbox.sock`, `vscode.sock`, `app0.sock`.
    Keep it short: Linux limits the path of a socket to 107 bytes."""
    folder: Path | None = None
    """Folder of the host to use as the workspace, instead of `workspace/`."""
    key: str = field(repr=False)
    """The key that the action server expects in the header `X-Session-API-Key`."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables of the shells, including secrets."""
    shells: Literal["pty", "tmux"] = "pty"
    limits: SessionLimits = field(default_factory=SessionLimits)
    egress: Egress = field(default_factory=Egress)
    image: str = ""
    user: str = ""
    browser: bool = True
    checkpoints: bool = True
    window_asks: bool = False
    file_layout: FileLayout = ""
    hub_socket: Path | None = None
    """The hub's socket for this session. The VS Code window in the sandbox connects to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSandbox:
    """A running sandbox, started by this or an earlier hub process."""

    session_id: SessionId
    is_paused: bool = False
    uid: int | None = None
    """The user id of its servers on the host; None if the spawner cannot determine it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resources that all processes of a sandbox use together."""

    cpu_seconds: float
    """CPU time since the sandbox started."""
    memory_bytes: int
    processes: int
