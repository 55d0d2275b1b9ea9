"""Sandboxes as processes of this machine, kept apart by bubblewrap, UIDs and cgroups."""

from .client import start_warden
from .settings import LocalSettings
from .spawner import LocalSpawner

__all__ = ["LocalSettings", "LocalSpawner", "start_warden"]
