"""/openhands/v0 on a hub: the endpoints that the unmodified `RemoteRuntime` of OpenHands V0 calls.

/openhands/v0/{session}/… is the runtime's own server. This module answers two of its endpoints
itself: actions, so that they are recorded like all other actions, and the token for VS Code, which
is the client's API key. The module forwards other requests to the session's action server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    InternalError,
    InvalidRequest,
    SandboxStartFailed,
)
from bascule.core.sessions import SessionId
from bascule.hub import Hub, Identity
from bascule.hub.mounts import Mount, identity_of
from bascule.hub.proxy.endpoints import EndpointPath, SessionEndpoint
from bascule.hub.replies import ERRORS
from bascule.serving.asgi import ClientDisconnected, Receive, Scope, Send, read_body, send_json
from bascule.serving.refusals import Refused
from bascule.wire import from_json, to_json

from ._actions import act_in_session
from ._runtimes import PREFIX, Runtimes
from ._start import read_start

logger = logging.getLogger(__name__)

_INSIDE: Final = re.compile(rb"%s/([a-z0-9]{25})(/[^?]*)?(\?.*)?" % PREFIX.encode())
_ACTION: Final = "/execute_action"
_VSCODE: Final = (b"/vscode", b"/vscode/")
_VSCODE_TOKEN: Final = "/vscode/connection_token"  # noqa: S105  # a path
_SESSION_KEY: Final = b"x-session-api-key"
_SCOPES: Final = ("agent", "admin")


class OpenHandsV0Mount(Mount):
    """Each runtime is a session of the hub and belongs to the owner of the API key."""

    prefix = PREFIX

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._runtimes = Runtimes(hub)

    async def aclose(self) -> None:
        """Does nothing: this mount holds no resources."""

    def proxied_path(self, target: bytes) -> EndpointPath | str | None:
        found = _INSIDE.fullmatch(target)
        if found is None:
            return None
        session_id, rest, query = found[1].decode(), found[2] or b"", found[3] or b""
        if rest in _VSCODE:
            return f"{SessionEndpoint('vscode', session_id).path}/{query.decode('latin-1')}"
        if rest.decode("latin-1") in (_ACTION, _VSCODE_TOKEN):
            return None
        return EndpointPath(
            SessionEndpoint("sandbox", session_id), f"{PREFIX}/{session_id}", rest + query
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, answer = 200, await self._answer(scope, receive)
        except ClientDisconnected:
            return
        except Refused as refused:
            status, answer = refused.status, _error_body(refused.error)
        except BasculeError as error:
            status, answer = ERRORS.status_of(error), _error_body(error)
        except Exception:  # the edge of a request; the log has it
            logger.exception("%s %s failed", scope["method"], scope["path"])
            status, answer = (
                500,
                _error_body(InternalError("The hub failed; its log has the cause")),
            )
        await send_json(send, to_json(answer), status)

    async def _answer(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        who = identity_of(scope)
        inside = _INSIDE.fullmatch(scope["path"].encode())
        if inside is not None:
            session_id, rest = inside[1].decode(), (inside[2] or b"").decode()
            return await self._serve_session(scope, receive, SessionId(session_id), rest)
        if who.scope not in _SCOPES:
            raise AccessDenied(
                f"This call needs a token of scope agent, not one of scope {who.scope}"
            )
        endpoint, _, rest = scope["path"].removeprefix(f"{PREFIX}/").partition("/")
        match scope["method"], endpoint:
            case "GET", "sessions":
                return await self._runtimes.show(who, rest)
            case "GET", "runtime":
                return self._runtimes.pod(who, rest)
            case "GET", "list":
                return await self._runtimes.every(who)
            case "GET", "registry_prefix":
                return {"registry_prefix": "bascule"}
            case "GET", "image_exists":
                return _image(scope)
            case "POST", "start":
                return await self._runtimes.start(who, read_start(await _body(receive)))
            case "POST", "pause" | "resume" | "stop":
                return await self._change(who, endpoint, await _body(receive))
            case "POST", "build":
                raise InvalidRequest("Nothing is built here: a session starts without an image")
        raise Refused(404, InvalidRequest(f"There is nothing at {scope['path']!r} on this hub"))

    async def _change(self, who: Identity, verb: str, body: object) -> Mapping[str, Any]:
        runtime_id = body.get("runtime_id") if isinstance(body, dict) else None
        if not isinstance(runtime_id, str):
            raise InvalidRequest('The body must be {"runtime_id": text}')
        match verb:
            case "pause":
                return await self._runtimes.pause(who, runtime_id)
            case "resume":
                return await self._runtimes.resume(who, runtime_id)
            case _:
                return await self._runtimes.stop(who, runtime_id)

    async def _serve_session(
        self, scope: Scope, receive: Receive, session_id: SessionId, rest: str
    ) -> Mapping[str, Any]:
        who = identity_of(scope)
        if who.scope == "window":
            raise AccessDenied("A token of scope window may not make this call")
        self._hub.sessions.get(who, session_id)
        if rest == _VSCODE_TOKEN:
            key = dict(scope["headers"]).get(_SESSION_KEY, b"").decode("latin-1")
            return {"token": key or None}
        if (scope["method"], rest) != ("POST", _ACTION):
            raise Refused(404, InvalidRequest(f"There is nothing at {scope['path']!r}"))
        body = await _body(receive)
        if not isinstance(body, dict) or not isinstance(body.get("action"), dict):
            raise InvalidRequest('The body must be {"action": {…}}')
        try:
            await self._runtimes.wake(who, session_id)
        except SandboxStartFailed as error:
            raise Refused(502, error) from error
        return await act_in_session(self._hub.sessions, who, session_id, body["action"])


def _image(scope: Scope) -> Mapping[str, Any]:
    """Reports every image as existing, since a session does not use OpenHands' images."""
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("image", [""])[0]
    return {
        "exists": True,
        "image": {"name": asked, "upload_time": "1970-01-01T00:00:00Z", "image_size_bytes": 0},
    }


def _error_body(error: BasculeError) -> Mapping[str, Any]:
    """The body of an error response. OpenHands' client shows only `detail`."""
    return {"code": error.code, "message": error.message, "detail": error.message}


async def _body(receive: Receive) -> Any:
    return from_json(await read_body(receive))
