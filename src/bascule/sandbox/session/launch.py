"""The parameters a spawner passes to the sandbox it starts, as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from bascule.core.errors import InvalidSetting
from bascule.core.sessions import WIRE_FILE_LAYOUT, FileLayout

_CHECKPOINTS = "checkpoints"
"""Name of the checkpoint store in `state_dir`. The session's programs run as the same user, so the
store is safe from their mistakes, but not from malice (docs/decisions/0015)."""
CHECKPOINT_BYTES = 1 << 30
"""Maximum size of the store, which counts as disk space of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLaunch:
    """How to start a sandbox. All paths are paths inside the sandbox."""

    key: str = field(repr=False)
    """Required in the header `X-Session-API-Key` of requests."""
    working_dir: str
    """The workspace."""
    run_dir: str
    """Directory for the sandbox's sockets; the host has access to it."""
    state_dir: str
    """Directory for data that outlives the sandbox: state of tmux shells, VS Code's data."""
    environment: Mapping[str, str] = field(repr=False)
    """The whole environment of the session's programs."""
    shells: Literal["pty", "tmux"] = "pty"
    hub_socket: str = ""
    """Unix socket on which this session's own window reaches the hub; empty: none."""
    egress_socket: str = ""
    """Unix socket of the egress proxy; empty: none."""
    session_id: str = ""
    """Used in the URL paths of the session's apps; empty: apps have no path."""
    vscode: str = ""
    """Directory of the VS Code installation; empty: none."""
    vscode_extensions: str = ""
    """Directory of the extensions that all sessions share (`sandbox/vscode/shared.py`)."""
    browser: bool = True
    """Whether browser actions are enabled."""
    checkpoints: bool = False
    """Whether actions are recorded, in a checkpoint store in `state_dir`."""
    window_asks: bool = False
    """Whether VS Code asks before an agent runs a command without a rule."""
    file_layout: FileLayout = ""
    """Image whose paths the sandbox imitates (`openhands_image.py`)."""
    confine: bool = False
    """Install the system call filter (`seccomp.py`); False if the spawner has done so."""
    set_id_files: bool = True
    """Whether that filter allows the set-user-ID and set-group-ID bits on files."""
    is_isolated: bool = False
    """The session has its own PID and network namespaces, so all processes and ports in them belong
    to it. If False, only descendants of this process belong to the session."""

    @property
    def checkpoint_store(self) -> Path | None:
        """Directory of the checkpoint store; None if actions are not recorded."""
        return Path(self.state_dir, _CHECKPOINTS) if self.checkpoints else None

    def to_message(self) -> dict[str, Any]:
        """The JSON object of `to_json`."""
        message = asdict(self)
        message[WIRE_FILE_LAYOUT] = message.pop("file_layout")
        return message

    def to_json(self) -> bytes:
        return json.dumps(self.to_message()).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Parse the line. Ignores fields that this version does not know."""
        try:
            message = json.loads(line)
            if WIRE_FILE_LAYOUT in message:
                message["file_layout"] = message[WIRE_FILE_LAYOUT]
            known = {each.name: message[each.name] for each in fields(cls) if each.name in message}
            return cls(**known)
        except (ValueError, TypeError) as error:
            raise InvalidSetting(
                f"The launch parameters on standard input are invalid: {error}"
            ) from error
