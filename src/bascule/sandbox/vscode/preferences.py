"""The default settings of VS Code windows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

Preferences = Mapping[str, Any]

DEFAULTS: Final[Preferences] = {
    "chat.disableAIFeatures": True,  # a process of 120 MB, for a service nobody is signed in to
    "extensions.autoCheckUpdates": False,
    "git.openRepositoryInParentFolders": "never",  # a workspace in a clone would be asked about it
    "remote.autoForwardPorts": False,  # each port a program listens on would be announced
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.initialHint": False,  # about suggestions, in every first terminal
    "window.autoDetectColorScheme": True,  # light or dark, as all else in that browser
    "window.confirmBeforeClose": "never",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.welcomePage.walkthroughs.openOnInstall": False,
}
"""A quiet start. What a person sets in the window afterwards goes over it and is kept."""


def write_preferences(
    data: Path, *, user: Preferences, machine: Preferences, defaults: Preferences = DEFAULTS
) -> None:
    """Put settings where VS Code reads them; `user` and `machine` go over what is there.

    Those that only the machine may set are read from one file, all others from the other.
    """
    for scope, ours, first in (("User", user, defaults), ("Machine", machine, {})):
        file = data / scope / "settings.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = _read(file)
        if kept is not None:
            file.write_text(json.dumps({**first, **kept, **ours}, indent=2))


def _read(file: Path) -> Preferences | None:
    """None for a file with comments: it is somebody's own and left as it is."""
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
