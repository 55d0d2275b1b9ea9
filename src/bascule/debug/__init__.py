"""The debug adapter for nets: translates the debug adapter protocol into steps of a net.

`dap_server` talks to the editor, and `adapter` implements its requests. The net runs in a
separate process, the debuggee, so that the output of the net cannot get between the adapter's
messages. `control` is the protocol between adapter and debuggee. In the debuggee, `step_controller`
halts the net between firings. debugpy, controlled by `python`, halts the net inside its Python
code.
"""

from .adapter import Adapter
from .debuggee import Debuggee

__all__ = ["Adapter", "Debuggee"]
