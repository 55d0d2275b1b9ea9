"""Runtimes, which run actions: on this machine, in a remote sandbox, in a hub's session or in VS
Code.

async with LocalRuntime("project") as runtime:
    seen = await runtime.run("make test")
    print(seen.exit_code, seen.content)

Names are imported on first use. This package also contains the program that starts sandboxes as
root, which should import as few modules as possible. `Verbs` is the base class of the runtimes: it
has a method for each kind of action.
"""

from typing import TYPE_CHECKING

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .cloud import CloudRuntime
    from .local import LocalRuntime
    from .remote import RemoteRuntime
    from .sync import SyncRuntime
    from .sync_window import SyncWindowRuntime
    from .verbs import Verbs
    from .vscode import VSCodeRuntime

__all__ = [
    "CloudRuntime",
    "LocalRuntime",
    "RemoteRuntime",
    "SyncRuntime",
    "SyncWindowRuntime",
    "VSCodeRuntime",
    "Verbs",
]

_HOMES = {
    "CloudRuntime": "cloud",
    "LocalRuntime": "local",
    "RemoteRuntime": "remote",
    "SyncRuntime": "sync",
    "SyncWindowRuntime": "sync_window",
    "Verbs": "verbs",
    "VSCodeRuntime": "vscode",
}

__getattr__ = lazy_exports(__name__, _HOMES)
