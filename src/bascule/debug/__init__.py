"""The debug adapter for nets: requests of the debug adapter protocol in, steps of a net out.

`adapter` talks to the editor. The net runs in a separate process, the debuggee, so that nothing it
prints can get between the adapter's messages; `control` is the protocol between the two.
`step_controller` halts the net between firings, in the debuggee; debugpy, controlled by `python`,
halts it inside its Python code.
"""

from .adapter import Adapter
from .debuggee import Debuggee

__all__ = ["Adapter", "Debuggee"]
