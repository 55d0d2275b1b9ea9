"""The VS Code installation of this machine, as spawners share it with sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class SharedVSCode:
    """A VS Code installation that all sessions can read and none can write."""

    home: Path
    """The installation."""
    extensions: Path
    """Extensions that all sessions share (`sandbox/vscode/shared.py`); a directory in `home`."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(Path(data["home"]), Path(data["extensions"]))

    def seen_at(self, path: str) -> tuple[str, str]:
        """The paths of the installation and its extensions, for a session that sees `home` at
        `path`."""
        return path, str(Path(path, self.extensions.relative_to(self.home)))
