"""Sandboxes as processes of this machine, kept apart by bubblewrap, UIDs and cgroups.

Names are imported on first use. This package also contains the programs that create sandboxes, and
each of them should import only the modules that it needs.
"""

from typing import TYPE_CHECKING

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .client import start_warden
    from .settings import LocalSettings
    from .spawner import LocalSpawner

__all__ = ["LocalSettings", "LocalSpawner", "start_warden"]

_HOMES = {"LocalSettings": "settings", "LocalSpawner": "spawner", "start_warden": "client"}

__getattr__ = lazy_exports(__name__, _HOMES)
