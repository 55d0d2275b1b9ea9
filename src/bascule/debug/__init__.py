"""The debug adapter for nets: requests of the debug adapter protocol in, steps of a net out.

`adapter` speaks with the editor. The net runs in a process of its own, the debuggee, so that
nothing it prints can get between the adapter's messages; `control` is what the two say to each
other. Net-level stops are made by `gate` in the debuggee; stops inside the Python of a net by
debugpy, which `python` asks.
"""

from .adapter import Adapter
from .debuggee import Debuggee

__all__ = ["Adapter", "Debuggee"]
