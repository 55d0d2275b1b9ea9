"""A window whose user has allowed nothing yet, so that every action asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .rig import EditorWindow, Rig

NO_CONSENT = {"bascule.consent": {}, "bascule.allowedCommands": ["*"]}


@contextmanager
def window_without_consent(rig: Rig, folder: Path) -> Iterator[EditorWindow]:
    """Trusted and connected by its settings."""
    server = rig.wait(rig.serve(folder.name, NO_CONSENT))
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))
