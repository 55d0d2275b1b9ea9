"""Runtimes for OpenHands V0, which loads them by dotted path: a sandbox and a VS Code window.

`RUNTIME=bascule.adapters.openhands_v0.SandboxRuntime`, or `.VSCodeRuntime` with BASCULE_HUB,
BASCULE_TOKEN and, if there are several windows, BASCULE_WINDOW. Written for openhands-ai 0.62.
"""

from . import _requirements  # noqa: F401  # isort: skip  # first: checks the installation
from ._sandbox import SandboxRuntime
from ._vscode import VSCodeRuntime

__all__ = ["SandboxRuntime", "VSCodeRuntime"]
