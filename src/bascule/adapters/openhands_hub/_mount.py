"""/openhands/v0 on a hub: the endpoints that the unmodified `RemoteRuntime` of OpenHands V0 calls.

Of a runtime's own server, at /openhands/v0/{session}/…, two endpoints are answered here: actions,
so that they are recorded as any other way's are, and the token for VS Code, which is the key the
client was given. The rest is carried to the session's action server.
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
from bascule.hub.replies import Receive, Refused, Scope, Send, status_of
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
        """Nothing of its own is left to close."""

    def carried(self, target: bytes) -> EndpointPath | str | None:
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
        except Refused as refused:
            status, answer = refused.status, _told(refused.error)
        except BasculeError as error:
            status, answer = status_of(error), _told(error)
        except Exception:  # the edge of a request; the log has it
            logger.exception("%s %s failed", scope["method"], scope["path"])
            status, answer = 500, _told(InternalError("The hub failed; its log has the cause"))
        body = to_json(answer)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        who = identity_of(scope)
        inside = _INSIDE.fullmatch(scope["path"].encode())
        if inside is not None:
            rest = (inside[2] or b"").decode()
            return await self._inside(scope, receive, SessionId(inside[1].decode()), rest)
        if who.scope not in _SCOPES:
            raise AccessDenied(
                f"A token of scope {who.scope} may not do this; one of scope agent may"
            )
        word, _, rest = scope["path"].removeprefix(f"{PREFIX}/").partition("/")
        match scope["method"], word:
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
                return await self._change(who, word, await _body(receive))
            case "POST", "build":
                raise InvalidRequest("Nothing is built here: a session starts without an image")
        raise Refused(404, InvalidRequest(f"There is nothing at {scope['path']!r} on this hub"))

    async def _change(self, who: Identity, verb: str, body: object) -> Mapping[str, Any]:
        runtime_id = body.get("runtime_id") if isinstance(body, dict) else None
        if not isinstance(runtime_id, str):
            raise InvalidRequest('The body has to be {"runtime_id": text}')
        match verb:
            case "pause":
                return await self._runtimes.pause(who, runtime_id)
            case "resume":
                return await self._runtimes.resume(who, runtime_id)
            case _:
                return await self._runtimes.stop(who, runtime_id)

    async def _inside(
        self, scope: Scope, receive: Receive, session_id: SessionId, rest: str
    ) -> Mapping[str, Any]:
        who = identity_of(scope)
        if who.scope == "window":
            raise AccessDenied("A token of scope window may not do this")
        self._hub.sessions.get(who, session_id)
        if rest == _VSCODE_TOKEN:
            key = dict(scope["headers"]).get(_SESSION_KEY, b"").decode("latin-1")
            return {"token": key or None}
        if (scope["method"], rest) != ("POST", _ACTION):
            raise Refused(404, InvalidRequest(f"There is nothing at {scope['path']!r}"))
        body = await _body(receive)
        if not isinstance(body, dict) or not isinstance(body.get("action"), dict):
            raise InvalidRequest('The body has to be {"action": {…}}')
        try:
            await self._runtimes.wake(who, session_id)
        except SandboxStartFailed as error:
            raise Refused(502, error) from error
        return await act_in_session(self._hub.sessions, who, session_id, body["action"])


def _image(scope: Scope) -> Mapping[str, Any]:
    """Whatever is asked for is there, since a session needs none of it."""
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("image", [""])[0]
    return {
        "exists": True,
        "image": {"name": asked, "upload_time": "1970-01-01T00:00:00Z", "image_size_bytes": 0},
    }


def _told(error: BasculeError) -> Mapping[str, Any]:
    """Its client shows `detail`, and nothing else of an error."""
    return {"code": error.code, "message": error.message, "detail": error.message}


async def _body(receive: Receive) -> Any:
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise InvalidRequest("The client disconnected before its request was complete")
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return from_json(b"".join(parts))
