"""Settings of the spawner of kind `docker`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule import __version__
from bascule.runtime.spawn.session_paths import WORKSPACE

IMAGE: Final = f"bascule/sandbox:{__version__}"
"""Our image, as `make image` names it."""
ENGINE: Final = "unix:///var/run/docker.sock"
COMMAND: Final = ("/opt/bascule/bin/python", "-m", "bascule.sandbox.session")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """Settings of a Docker spawner. Spawners with the same `sessions_dir` and engine share their
    sandboxes."""

    sessions_dir: Path
    """Contains the directory of each session, named by the session's id."""
    run_dir: Path
    """Contains the run directories of sessions and the sockets of the egress proxy."""
    engine: str = ENGINE
    """Unix socket of the engine: it must be on this machine, to share files with containers."""
    image: str = IMAGE
    """Image for sessions that name none. It is pulled if the engine does not have it."""
    command: tuple[str, ...] = COMMAND
    """Command of the first process of every sandbox, with its path in the image."""
    portable_dir: Path | None = None
    """Contains the copies of this Python that run in images without `command`; None: `portable`
    beside `sessions_dir`. A copy takes about 200 MB, and one is made for each version."""
    workspace: str = WORKSPACE
    """Path of the workspace inside a session."""
    workspace_roots: tuple[Path, ...] = ()
    """A folder of the host can be a workspace if it is in one of these directories."""
    network: str = "bascule"
    """Docker network of sessions with egress `open`. Sessions in it cannot reach each other."""
    open_networks: tuple[str, ...] = ()
    """Networks that are not public but that sessions with egress `open` may reach."""
    first_uid: int = 70_000
    uid_count: int = 20_000
    """Number of UIDs from `first_uid` on, as which sessions run if this process is root. No other
    user may have these UIDs."""
    socket_gid: int | None = None
    """The group of hub and nginx, which may connect to a session's sockets; None: our own group."""
    allow_root: bool = False
    """Allow sessions in folders of root; such a session is root in its container."""
    shared_memory: int = 1 << 30
    """Bytes of `/dev/shm`, mainly for browsers. Used bytes count as the session's memory."""
    max_terminals: int = 128
    """Maximum number of pseudoterminals of one session; the machine has some thousand in total."""
    start_timeout: float = 60.0
    """Seconds from the start of the container to the first answer of the action server."""

    kept_for: float = 600.0
    """Seconds after which a container that has ended or never started is removed."""

    @property
    def lent_uids(self) -> range:
        return range(self.first_uid, self.first_uid + self.uid_count)

    @property
    def portable_copies(self) -> Path:
        return self.portable_dir or self.sessions_dir.parent / "portable"

    @property
    def scope(self) -> str:
        """A label that separates the containers of several hubs on one engine."""
        return hashlib.sha256(str(self.sessions_dir.absolute()).encode()).hexdigest()[:12]
