"""Runs `probe.py` in a session and holds what it gained against what such a session may gain."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bascule.runtime.remote import RemoteRuntime

PROBE = Path(__file__).with_name("probe.py")

SET_ID = ("chmod", "fchmod", "open", "mknod", "creat", "O_TMPFILE", "openat2", "fchmodat2")
"""Ways to a file with the set-user-ID bit; all of them are open where the UID is a leased one."""


@dataclass(frozen=True)
class Report:
    attacks: Mapping[str, Sequence[str]]
    """By attack: what it gained."""
    seen: Mapping[str, Any]

    def gained(self, *allowed: str) -> dict[str, Sequence[str]]:
        """All that was gained by attacks other than the `allowed` ones."""
        return {name: what for name, what in self.attacks.items() if what and name not in allowed}


async def attacked(runtime: RemoteRuntime, mark: str) -> Report:
    await runtime.write(".probe.py", PROBE.read_text())
    done = await runtime.run(f"python3 .probe.py {shlex.quote(mark)}; rm .probe.py", timeout=120)
    assert done.content.startswith("{"), done.content
    return Report(**json.loads(done.content.splitlines()[0]))
