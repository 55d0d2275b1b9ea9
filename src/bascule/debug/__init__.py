"""The debug adapter for nets: translates the debug adapter protocol into steps of a net.

`dap_server` talks to the editor, and `adapter` implements its requests. The net runs in a
separate process, the debuggee, so that nothing it prints can get between the adapter's messages;
`control` is the protocol between the two.
`step_controller` halts the net between firings, in the debuggee; debugpy, controlled by `python`,
halts it inside its Python code.
"""

from .adapter import Adapter
from .debuggee import Debuggee

__all__ = ["Adapter", "Debuggee"]
