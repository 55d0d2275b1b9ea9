"""Sessions as servers of SWE-ReX: the endpoints that its `RemoteRuntime` calls.

`RemoteRuntime(host="https://hub.example/swerex/SESSION", auth_token=TOKEN)` runs commands and
copies files in a session of a hub. The routes are those of swe-rex 1.4. This package imports
nothing from SWE-ReX.
"""

from .mount import SweRexMount

__all__ = ["SweRexMount"]
