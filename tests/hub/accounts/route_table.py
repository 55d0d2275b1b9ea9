"""Every REST call of a hub: who may make it, and a valid body.

`test_routes` fails for a route that is missing here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

DIGEST: Final = "a" * 64

Kind = Literal["open", "own", "session", "window", "token", "creates", "person", "admin"]
"""`open`: needs no token. `own`: concerns only what the caller owns. `session`, `window`, `token`:
concerns the one in the path. `creates`: starts something for members and agents.
`person`: admins and members only. `admin`: admins only."""


@dataclass(frozen=True, slots=True)
class Rule:
    kind: Kind
    needs: Literal["view", "act", "own"] = "act"
    """For `session`: the access that a user needs with whom the session is shared."""
    body: Any = None
    query: str = ""


_RUN: Final = {"action": "run", "args": {"command": "true"}}
_PLACE: Final = {"session_id": "{session_id}"}
_CALL: Final = "7d8f4c8e-3f0e-4b8e-9a57-0a3b8f5d7c13"
_SESSION: Final = "/api/sessions/{session_id}"
_VSCODE: Final = "/api/vscode"
_REVIEW: Final = "/api/windows/{window_id}/review"

ROUTES: Final[dict[tuple[str, str], Rule]] = {
    ("GET", "/openapi.json"): Rule("open"),
    ("GET", "/health"): Rule("open"),
    ("GET", "/docs"): Rule("open"),
    ("POST", f"{_VSCODE}/pair/{{code}}"): Rule("open"),
    ("GET", "/metrics"): Rule("own"),
    ("GET", "/api/me"): Rule("own"),
    ("POST", "/api/sign-in"): Rule("own", body={}),
    # Windows
    ("POST", f"{_VSCODE}/register"): Rule(
        "window",
        body={
            "nonce": "n",
            "window_id": "{window_id}",
            "window_key": "k" * 40,
            "host_id": "7d8f4c8e-3f0e-4b8e-9a57-0a3b8f5d7c11",
            "name": "n",
        },
    ),
    ("GET", f"{_VSCODE}/instances"): Rule("own"),
    ("GET", f"{_VSCODE}/registry/stats"): Rule("own"),
    ("GET", f"{_VSCODE}/instance/{{window_id}}"): Rule("window"),
    ("POST", f"{_VSCODE}/instance/{{window_id}}/actions"): Rule(
        "window", body={**_RUN, "id": "7d8f4c8e-3f0e-4b8e-9a57-0a3b8f5d7c12"}
    ),
    ("POST", f"{_VSCODE}/heartbeat/{{window_id}}"): Rule("window"),
    ("DELETE", f"{_VSCODE}/unregister/{{window_id}}"): Rule("window"),
    ("GET", "/api/windows/{window_id}/timeline.jsonl"): Rule("window"),
    # Agents beside a window or in a session
    ("POST", "/api/agent/verdicts"): Rule("session", body={**_PLACE, "command": "true"}),
    ("POST", "/api/agent/questions"): Rule(
        "session", body={**_PLACE, "cause": _CALL, "title": "t", "detail": "d"}
    ),
    ("POST", "/api/agent/tool-calls"): Rule("session", body={**_PLACE, "id": _CALL, "name": "t"}),
    ("GET", _REVIEW): Rule("window"),
    ("POST", _REVIEW): Rule(
        "window",
        body={"answer": "keep", "files": [{"file": DIGEST, "version": DIGEST}]},
    ),
    ("GET", _REVIEW + "/{file}"): Rule("window", query=f"?version={DIGEST}"),
    # Tokens, users and the audit log
    ("POST", f"{_VSCODE}/pair"): Rule("person"),
    ("GET", "/api/tokens"): Rule("own"),
    ("POST", "/api/tokens"): Rule("admin", body={"name": "new", "scope": "agent", "owner": "ada"}),
    ("DELETE", "/api/tokens/{name}"): Rule("token"),
    ("GET", "/api/users"): Rule("admin"),
    ("PUT", "/api/users/{name}"): Rule("admin", body={"role": "admin"}),
    ("GET", "/api/audit"): Rule("admin"),
    ("GET", "/api/audit.jsonl"): Rule("admin"),
    ("GET", "/api/checks"): Rule("admin"),
    ("GET", "/api/rules"): Rule("admin"),
    ("GET", "/api/approvals"): Rule("own"),
    ("POST", "/api/approvals/{place_id}/{question_id}"): Rule("window", body={"answer": "once"}),
    # Sessions
    ("POST", "/api/sessions"): Rule("creates", body={}),
    ("GET", "/api/sessions"): Rule("own"),
    ("POST", "/api/archives"): Rule("creates"),
    ("GET", _SESSION): Rule("session", "view"),
    ("DELETE", _SESSION): Rule("session", "own"),
    ("POST", f"{_SESSION}/pause"): Rule("session"),
    ("POST", f"{_SESSION}/resume"): Rule("session", "own", body={"shells": "tmux"}),
    ("POST", f"{_SESSION}/stop"): Rule("session"),
    ("POST", f"{_SESSION}/window"): Rule("session"),
    ("GET", f"{_SESSION}/ports"): Rule("session", "view"),
    ("GET", f"{_SESSION}/events"): Rule("session", "view"),
    ("GET", f"{_SESSION}/logs"): Rule("session", "view"),
    ("POST", f"{_SESSION}/actions"): Rule("session", body=_RUN),
    ("GET", f"{_SESSION}/checkpoints"): Rule("session"),
    ("GET", f"{_SESSION}/checkpoints/{{number}}"): Rule("session"),
    ("POST", f"{_SESSION}/checkpoints/{{number}}/restore"): Rule("session"),
    ("GET", f"{_SESSION}/timeline.jsonl"): Rule("session", "view"),
    ("GET", f"{_SESSION}/files"): Rule("session", query="?path=/"),
    ("GET", f"{_SESSION}/file"): Rule("session", query="?path=/etc/hostname"),
    ("GET", f"{_SESSION}/forks"): Rule("session"),
    ("POST", f"{_SESSION}/forks"): Rule("session", "own", body={"secrets": True}),
    ("POST", f"{_SESSION}/merge"): Rule("session"),
    ("GET", f"{_SESSION}/rules"): Rule("admin"),
    ("GET", f"{_SESSION}/shares"): Rule("session", "own"),
    ("PUT", f"{_SESSION}/shares/{{user}}"): Rule("session", "own", body={"access": "act"}),
    ("DELETE", f"{_SESSION}/shares/{{user}}"): Rule("session", "own"),
    ("GET", "/api/demo"): Rule("own"),
    ("POST", "/api/demo"): Rule("creates"),
    ("POST", "/api/demo/skip"): Rule("creates"),
    ("DELETE", "/api/demo"): Rule("creates"),
}
