"""Sandboxes as processes of this machine, kept apart by bubblewrap, UIDs and cgroups.

A name is imported when it is first used: the processes that make sandboxes are in this package
too, and each loads what it needs and no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import start_warden
    from .settings import LocalSettings
    from .spawner import LocalSpawner

__all__ = ["LocalSettings", "LocalSpawner", "start_warden"]

_HOMES = {"LocalSettings": "settings", "LocalSpawner": "spawner", "start_warden": "client"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
