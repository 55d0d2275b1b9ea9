"""The default settings of VS Code windows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

Preferences = Mapping[str, Any]

DEFAULTS: Final[Preferences] = {
    "chat.disableAIFeatures": True,  # saves a process of 120 MB for a service without a sign-in
    "extensions.autoCheckUpdates": False,
    "git.openRepositoryInParentFolders": "never",  # no question for a workspace inside a clone
    "remote.autoForwardPorts": False,  # no notification for each listening port
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.initialHint": False,  # no hint about suggestions in each first terminal
    "window.autoDetectColorScheme": True,  # light or dark, like the browser
    "window.confirmBeforeClose": "never",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.welcomePage.walkthroughs.openOnInstall": False,
}
"""Defaults for a quiet start. Settings that a person changes in the window override them."""


def write_preferences(
    data: Path, *, user: Preferences, machine: Preferences, defaults: Preferences = DEFAULTS
) -> None:
    """Write the settings files of VS Code; `user` and `machine` override existing values.

    VS Code reads machine-scoped settings from one file and all others from the other.
    """
    for scope, ours, first in (("User", user, defaults), ("Machine", machine, {})):
        file = data / scope / "settings.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = _read(file)
        if kept is not None:
            file.write_text(json.dumps({**first, **kept, **ours}, indent=2))


def _read(file: Path) -> Preferences | None:
    """Read a settings file; None for a file with comments, which a person wrote and we keep."""
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
