"""Sessions as workspaces of OpenHands V1: the endpoints that its `RemoteWorkspace` calls.

`Workspace(host="https://hub.example/openhands/v1/SESSION", api_key=TOKEN, working_dir=…)` runs
commands, moves files and reads git in a session of a hub. Made after the routes of
openhands-agent-server 1.58; nothing of OpenHands is imported.
"""

from .mount import WorkspaceMount

__all__ = ["WorkspaceMount"]
