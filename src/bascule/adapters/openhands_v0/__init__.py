"""OpenHands V0 in a sandbox or in a VS Code window: runtimes it takes by their dotted path.

`RUNTIME=bascule.adapters.openhands_v0.SandboxRuntime`, or `.VSCodeRuntime` with BASCULE_HUB,
BASCULE_TOKEN and, where there are several windows, BASCULE_WINDOW. Made for openhands-ai 0.62.
"""

from . import _requirements  # noqa: F401  # isort: skip  # says what is missing, before all else
from ._sandbox import SandboxRuntime
from ._vscode import VSCodeRuntime

__all__ = ["SandboxRuntime", "VSCodeRuntime"]
