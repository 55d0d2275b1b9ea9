"""Ways to get an action done: here, in a sandbox far away, in a session of a hub or in VS Code.

async with LocalRuntime("project") as runtime:
    seen = await runtime.run("make test")
    print(seen.exit_code, seen.content)
"""

from .cloud import CloudRuntime
from .local import LocalRuntime
from .remote import RemoteRuntime
from .sync import SyncRuntime
from .verbs import Verbs
from .vscode import VSCodeRuntime

__all__ = ["CloudRuntime", "LocalRuntime", "RemoteRuntime", "SyncRuntime", "VSCodeRuntime", "Verbs"]
