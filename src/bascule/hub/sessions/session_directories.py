"""The directories of sessions on this machine: files and sockets. All functions block."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule.core.errors import InvalidSetting, PathOutsideRoots
from bascule.core.sessions import SandboxPlan, SessionId
from bascule.hub.settings import HubSettings
from bascule.runtime.spawn import trees

from .rows import SessionRow
from .vault import Secrets

_MAX_SOCKET_PATH: Final = 107
"""Maximum bytes of the path of a unix socket on Linux."""
HUB_SOCKETS: Final = ".doors"
"""Directory of the sockets on which the hub listens for sessions."""
_SUBDIRECTORIES: Final = ("workspace", "home", "state")


@dataclass(frozen=True, slots=True)
class SessionDirectories:
    """The directories of all sessions."""

    sessions: Path
    """Contains `{id}/` with `workspace/`, `home/` and `state/` for each session."""
    run: Path
    """Contains `{id}/` with the sockets of each session."""
    secrets: Path
    archives: Path
    bases: Path
    """Contains the snapshots from which forks were made."""
    reserve: Path
    """The file that reserves disk space."""

    @classmethod
    def of(cls, settings: HubSettings) -> SessionDirectories | None:
        """The directories for these settings; None without a `state_dir`: the hub then has no
        sessions."""
        state = settings.state_dir
        if state is None:
            return None
        run = settings.run_dir or state / "run"
        return cls(
            sessions=state / "sessions",
            run=run,
            secrets=state / "secrets",
            archives=state / "archives",
            bases=state / "bases",
            reserve=state / "reserve",
        )

    def open(self) -> None:
        longest = self.hub_socket(SessionId("x" * 25))  # as long as a session id
        if len(os.fsencode(longest)) > _MAX_SOCKET_PATH:
            raise InvalidSetting(
                f"{self.run} is too long for a directory of sockets; set `run_dir` to a shorter "
                "path"
            )
        self.sessions.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.run.mkdir(mode=0o711, parents=True, exist_ok=True)
        (self.run / HUB_SOCKETS).mkdir(mode=0o711, exist_ok=True)
        for each in (self.secrets, self.archives, self.bases):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)

    def plan(self, row: SessionRow, secrets: Secrets) -> SandboxPlan:
        """Create the session's directories and return the plan for the spawner."""
        directory, run_dir = self.sessions / row.id, self.run / row.id
        for part in _SUBDIRECTORIES:
            (directory / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        run_dir.mkdir(mode=0o750, parents=True, exist_ok=True)
        spec = row.spec
        folder = Path(spec.workspace.folder) if spec.workspace.kind == "folder" else None
        return SandboxPlan(
            session_id=row.id,
            directory=directory,
            run_dir=run_dir,
            folder=folder,
            key=secrets.key,
            environment={**spec.environment, **secrets.values},
            shells=spec.shells,
            limits=spec.limits,
            egress=spec.egress,
            image=spec.image,
            user=spec.user,
            browser=spec.browser,
            checkpoints=spec.checkpoints,
            window_asks=spec.window_asks,
            file_layout=spec.file_layout,
            hub_socket=self.hub_socket(row.id),
        )

    def hub_socket(self, session_id: SessionId) -> Path:
        """Path of the hub's socket for this session, apart from sockets that the sandbox creates.

        The socket has its own directory, and the sandbox mounts the directory. So the new socket of
        a restarted hub appears in the sandbox; a mounted socket file would stay the old one.
        """
        return self.run / HUB_SOCKETS / session_id / "hub.sock"

    def socket(self, session_id: SessionId, name: str = "sandbox") -> Path:
        return self.run / session_id / f"{name}.sock"

    def remove_hub_socket(self, session_id: SessionId) -> None:
        """Remove the socket, also if a killed hub left it."""
        self.hub_socket(session_id).unlink(missing_ok=True)

    def remove(self, session_id: SessionId) -> None:
        """Remove all files of the session, except a host folder that was its workspace."""
        self.remove_run(session_id)
        trees.remove(self.sessions / session_id)

    def remove_run(self, session_id: SessionId) -> None:
        """Remove the session's sockets and the files beside them."""
        trees.remove(self.hub_socket(session_id).parent)
        trees.remove(self.run / session_id)


def ensure_folder(folder: str, roots: tuple[Path, ...]) -> str:
    """The resolved path of a host folder. Raises `PathOutsideRoots` if sessions may not use it."""
    real = Path(folder).expanduser().resolve()
    allowed = [root.expanduser().resolve() for root in roots]
    if not any(real.is_relative_to(root) for root in allowed):
        named = ", ".join(map(str, roots)) or "none"
        raise PathOutsideRoots(
            f"{folder} is not below any of the folders that sessions may use, which the setting "
            f"`workspace_roots` lists: {named}"
        )
    if not real.is_dir():
        raise PathOutsideRoots(f"{folder} is not a directory on the hub's machine")
    return str(real)
