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
    """Set by whoever starts the warden, which checks the hub's requests against them."""

    sessions_dir: Path
    """Directories of sessions lie directly in it; no other directory is ever given to one."""
    run_dir: Path
    """Where the run directories of sessions lie, and the sockets of the egress proxy."""
    state_dir: Path
    """The warden's own: which sandboxes run, which UIDs are lent, what servers said last."""
    workspace_roots: tuple[Path, ...] = ()
    """A folder of the host can be a workspace if it is in one of these."""
    visible: tuple[Path, ...] = ()
    """What every sandbox may read besides the system and our own Python: tools."""
    vscode: SharedVSCode | None = None
    """What sessions have as their VS Code; None: they have none."""
    open_networks: tuple[str, ...] = ()
    """Networks that are not public and that sessions whose egress is `open` reach all the same."""
    max_terminals: int = 128
    """Pseudoterminals that one session may have; the machine has some thousand for all."""
    first_uid: int = 70_000
    uid_count: int = 20_000
    """The UIDs that sessions are lent, one each, where the warden is root. Nobody else's."""
    leases_dir: Path = Path("/run/bascule-uids")
    """Which of them are lent: one place for all hubs of a machine."""
    hub_uid: int | None = None
    """Who may ask a warden on a socket; None: whoever it runs as."""
    socket_gid: int | None = None
    """The group that may connect to a session's sockets; None: the hub's own. nginx's worker has
    to be in it."""
    cgroup: str = "bascule"
    """Limits are kept in cgroups whose names begin so."""
    allow_root: bool = False
    """Let sessions work in folders of root, where what they make is root's. No session is root."""
    allow_unisolated: bool = False
    """Start sandboxes also where nothing keeps them apart. Any session can then do what we can."""
    start_timeout: float = 30.0
    """Seconds from the order to the first answer of the action server."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), default=str).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        try:
            given: Mapping[str, Any] = json.loads(line)
            known = {each.name: given[each.name] for each in fields(cls) if each.name in given}
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
