"""Settings of the spawner of kind `local` and its warden."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from bascule.core.errors import InvalidSetting
from bascule.runtime.spawn.vscode import SharedVSCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Settings from the process that starts the warden. The warden checks the hub's requests
    against these settings."""

    sessions_dir: Path
    """Contains the directories that the hub creates for sessions. The warden accepts no other
    directory as a session's directory. Only the workspace may be elsewhere (`workspace_roots`)."""
    run_dir: Path
    """Contains the run directories of sessions and the sockets of the egress proxy."""
    state_dir: Path
    """The warden's own data: records of running sandboxes, and logs of their servers."""
    workspace_roots: tuple[Path, ...] = ()
    """A folder of the host can be a workspace if it is in one of these directories."""
    visible: tuple[Path, ...] = ()
    """Paths that every sandbox may read besides the system and our own Python, such as tools."""
    vscode: SharedVSCode | None = None
    """VS Code of the sessions; None: sessions have no VS Code."""
    open_networks: tuple[str, ...] = ()
    """Networks that are not public but that sessions with egress `open` may reach."""
    max_terminals: int = 128
    """Maximum number of pseudoterminals of one session; the machine has some thousand in total."""
    first_uid: int = 70_000
    uid_count: int = 20_000
    """Number of UIDs, from `first_uid` on, that a warden with root's rights leases to sessions. No
    other user may have these UIDs."""
    leases_dir: Path = Path("/run/bascule-uids")
    """Records of the leased UIDs: one directory for all hubs of a machine."""
    hub_uid: int | None = None
    """User that may connect to a warden's socket, besides root; None: the warden's own user."""
    socket_gid: int | None = None
    """The group that may connect to a session's sockets; None: the hub's own group. nginx's
    worker has to be in this group."""
    cgroup: str = "bascule"
    """Prefix of the names of our cgroups."""
    allow_root: bool = False
    """Allow workspaces that are folders of root. The session does not run as root, but on the host,
    the files that it creates in the workspace belong to root."""
    allow_unisolated: bool = False
    """Start sandboxes even without isolation. Any session can then do everything that the warden
    can."""
    start_timeout: float = 30.0
    """Maximum seconds from the request to start a sandbox until its action server answers."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), default=str).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        try:
            values: Mapping[str, Any] = json.loads(line)
            known = {each.name: values[each.name] for each in fields(cls) if each.name in values}
            for name in ("sessions_dir", "run_dir", "state_dir", "leases_dir"):
                if name in known:
                    known[name] = Path(known[name])
            for name in ("workspace_roots", "visible"):
                known[name] = tuple(map(Path, known.get(name, ())))
            known["open_networks"] = tuple(known.get("open_networks", ()))
            if known.get("vscode") is not None:
                known["vscode"] = SharedVSCode.from_json(known["vscode"])
            return cls(**known)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidSetting(f"The warden got invalid settings: {error!r}") from error
