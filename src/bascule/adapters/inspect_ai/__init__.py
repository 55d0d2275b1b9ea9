"""Sessions of a hub as sandboxes of Inspect AI: `inspect eval TASK --sandbox bascule`.

Inspect imports this package through the entry point `bascule` of the group `inspect_ai`. The hub is
BASCULE_HUB, with the token BASCULE_TOKEN.
"""

from . import _requirements as _requirements
from ._config import SessionConfig
from ._sandbox import BasculeSandboxEnvironment

__all__ = ["BasculeSandboxEnvironment", "SessionConfig"]
