"""A window whose user has decided nothing yet: nobody is admitted, everything is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .rig import EditorWindow, Rig

ASKS = {"bascule.consent": {}, "bascule.allowedCommands": ["*"]}


@contextmanager
def undecided_window(rig: Rig, folder: Path) -> Iterator[EditorWindow]:
    """Trusted and connected by its settings."""
    server = rig.wait(rig.serve(folder.name, ASKS))
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))
