"""Sessions as workspaces of OpenHands V1: the endpoints that its `RemoteWorkspace` calls.

`Workspace(host="https://hub.example/openhands/v1/SESSION", api_key=TOKEN, working_dir=…)` runs
commands, copies files and reads git in a session of a hub. The routes are those of
openhands-agent-server 1.58. This package imports nothing from OpenHands.
"""

from .mount import WorkspaceMount

__all__ = ["WorkspaceMount"]
