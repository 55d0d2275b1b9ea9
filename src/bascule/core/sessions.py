"""A session: a workspace with its sandbox, its VS Code and its apps."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NewType

SessionId = NewType("SessionId", str)
"""Random, of `[a-z0-9]` alone: it stands in paths and host names, before a `-`."""

SessionState = Literal["starting", "ready", "paused", "stopping", "stopped", "failed"]
"""stopped: no process, the workspace is kept. failed: the same, and `cause` says why."""

RuntimeKind = Literal["sandbox", "vscode"]
"""Where a session's actions are done: by its action server, or in its own VS Code window."""

WorkspaceKind = Literal["empty", "folder", "git", "archive"]

EgressMode = Literal["off", "proxy", "open"]
"""off: nothing leaves. proxy: HTTP to the domains listed. open: whatever the machine reaches."""

Likeness = Literal["", "openhands"]
"""Whose paths a sandbox has besides ours. openhands: those of OpenHands' own images, which its
agents and tests name, and a `sudo` where the spawner can give one."""

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
    """What to clone: https or ssh."""
    ref: str = ""
    """A branch, a tag or a commit; empty: the remote's own choice."""
    archive: str = ""
    """The id of an uploaded archive."""


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
    """For `proxy`: names, and `*.example.org` for all below one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    """Settings of an app, given before it starts."""

    keeps_prefix: bool = False
    """It puts its base path before all its paths and wants to be asked by them; others are asked
    as if they were at the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """The settings a session was created with."""

    name: str = ""
    """For people; need not be unique."""
    spawner: str = "local"
    runtime: RuntimeKind = "sandbox"
    shells: Literal["pty", "tmux"] = "pty"
    workspace: WorkspaceSource = field(default_factory=WorkspaceSource)
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """In the environment too, and masked wherever what happened is recorded."""
    limits: SessionLimits = field(default_factory=SessionLimits)
    egress: Egress = field(default_factory=Egress)
    image: str = ""
    """For spawners that start from one; empty: ours."""
    user: str = ""
    """What its user is called inside; empty: bascule. `root`, which the spawner `local` alone can
    give, has the number 0 there, and outside no more rights than any other session."""
    browser: bool = True
    """Whether its actions may browse."""
    likeness: Likeness = ""
    apps: Sequence[AppSpec] = ()
    """Of those that listen on `APP_PORT_1` and `APP_PORT_2`, in that order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """Everything a spawner needs to start a sandbox, also again after a stop.

    `directory` is the session's own on the host, made by whoever asks and theirs to remove:
    `workspace/` (unless the workspace is a folder of the host), `home/`, `state/`.
    """

    session_id: SessionId
    directory: Path
    run_dir: Path
    """Where the sandbox's sockets appear on the host: `sandbox.sock`, `vscode.sock`, `app0.sock`.
    Short, since a socket's path has at most 107 bytes."""
    folder: Path | None = None
    """A folder of the host that is the workspace, in place of `workspace/`."""
    key: str = field(repr=False)
    """What the action server wants in `X-Session-API-Key`."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of its shells, secrets included."""
    shells: Literal["pty", "tmux"] = "pty"
    limits: SessionLimits = field(default_factory=SessionLimits)
    egress: Egress = field(default_factory=Egress)
    image: str = ""
    user: str = ""
    browser: bool = True
    likeness: Likeness = ""
    hub_socket: Path | None = None
    """The hub's socket for this session, which the sandbox's own window connects to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSandbox:
    """A running sandbox, started by this or an earlier hub process."""

    session_id: SessionId
    is_paused: bool = False
    uid: int | None = None
    """As whom its servers run on the host, where the host can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resources a sandbox uses, of all its processes."""

    cpu_seconds: float
    """Since it started."""
    memory_bytes: int
    processes: int
