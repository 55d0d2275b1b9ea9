"""The parameters a spawner passes to the sandbox it starts, as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Literal, Self

from bascule.core.errors import InvalidSetting
from bascule.core.sessions import Likeness


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLaunch:
    """How to start a sandbox. All paths are as the sandbox sees them."""

    key: str = field(repr=False)
    """What requests have to bring in `X-Session-API-Key`."""
    working_dir: str
    """The workspace."""
    run_dir: str
    """Where the sandbox makes its sockets; the host sees the same directory."""
    state_dir: str
    """For what a next sandbox of this session should find: shells of tmux, VS Code's data."""
    environment: Mapping[str, str] = field(repr=False)
    """The whole environment of what runs in it."""
    shells: Literal["pty", "tmux"] = "pty"
    hub_socket: str = ""
    """Where the hub answers this session's own window; empty: nowhere."""
    egress_socket: str = ""
    """Where a proxy to the network answers; empty: there is none."""
    session_id: str = ""
    """For the addresses of its apps; empty: they are not known."""
    vscode: str = ""
    """Where VS Code is installed; empty: there is none."""
    vscode_extensions: str = ""
    """The extensions all sessions share (`sandbox/vscode/shared.py`), ours among them."""
    browser: bool = True
    """Whether actions may browse."""
    likeness: Likeness = ""
    """Whose paths there are besides ours (`openhands_image.py`)."""
    confine: bool = False
    """Hold itself to the filter of system calls (`seccomp.py`), unless its spawner has done so."""
    set_id_files: bool = True
    """Whether files can then be given the set-user-ID and set-group-ID bits."""
    is_isolated: bool = False
    """It has a PID and a network namespace to itself, so all that is there is the session's. If
    not, the session is what this process started."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Fields this version does not know are left out."""
        try:
            given = json.loads(line)
            known = {each.name: given[each.name] for each in fields(cls) if each.name in given}
            return cls(**known)
        except (ValueError, TypeError) as error:
            raise InvalidSetting(
                f"The launch parameters on standard input are invalid: {error}"
            ) from error
