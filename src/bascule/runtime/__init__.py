"""Runtimes, which run actions: on this machine, in a remote sandbox, in a hub's session or in VS
Code.

async with LocalRuntime("project") as runtime:
    seen = await runtime.run("make test")
    print(seen.exit_code, seen.content)

A name is imported when it is first used: the process that starts sandboxes with the rights of
root lives in this room too, and is to load little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cloud import CloudRuntime
    from .local import LocalRuntime
    from .remote import RemoteRuntime
    from .sync import SyncRuntime
    from .verbs import Verbs
    from .vscode import VSCodeRuntime

__all__ = ["CloudRuntime", "LocalRuntime", "RemoteRuntime", "SyncRuntime", "VSCodeRuntime", "Verbs"]

_HOMES = {
    "CloudRuntime": "cloud",
    "LocalRuntime": "local",
    "RemoteRuntime": "remote",
    "SyncRuntime": "sync",
    "Verbs": "verbs",
    "VSCodeRuntime": "vscode",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
