"""Settings of the spawner of kind `docker`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule import __version__
from bascule.runtime.spawn.session_paths import WORKSPACE

IMAGE: Final = f"bascule/sandbox:{__version__}"
"""Ours, as `make image` names it."""
ENGINE: Final = "unix:///var/run/docker.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """Settings. Spawners with the same `sessions_dir` and engine share their sandboxes."""

    sessions_dir: Path
    """Directories of sessions lie directly in it, each named by its session."""
    run_dir: Path
    """Where the run directories of sessions lie, and the sockets of the egress proxy."""
    engine: str = ENGINE
    """A unix socket: files and sockets are shared with containers, so it has to be this machine."""
    image: str = IMAGE
    """For sessions that name none. One that the engine does not have is pulled."""
    command: tuple[str, ...] = ("/opt/bascule/bin/python", "-m", "bascule.sandbox.session")
    """The first process of every sandbox, as the image has it."""
    workspace: str = WORKSPACE
    """Where a session sees its workspace."""
    workspace_roots: tuple[Path, ...] = ()
    """A folder of the host can be a workspace if it is in one of these."""
    network: str = "bascule"
    """Of sessions whose egress is `open`. Made when needed, and such that none reaches another."""
    open_networks: tuple[str, ...] = ()
    """Networks that are not public and that sessions whose egress is `open` reach all the same."""
    first_uid: int = 70_000
    uid_count: int = 20_000
    """The UIDs that sessions run as, where we are root. Nobody else's."""
    socket_gid: int | None = None
    """The group that may connect to a session's sockets, the hub's and nginx's; None: our own."""
    allow_root: bool = False
    """Let a session work in a folder of root, for which it has to be root in its container."""
    shared_memory: int = 1 << 30
    """Bytes of `/dev/shm`, most of them for browsers; they count as the session's memory."""
    start_timeout: float = 60.0
    """Seconds from the start of the container to the first answer of the action server."""

    kept_for: float = 600.0
    """Seconds after which a container that does not run, and that nobody stopped, is removed."""

    @property
    def lent_uids(self) -> range:
        return range(self.first_uid, self.first_uid + self.uid_count)

    @property
    def scope(self) -> str:
        """A label that separates the containers of several hubs on one engine."""
        return hashlib.sha256(str(self.sessions_dir.absolute()).encode()).hexdigest()[:12]
