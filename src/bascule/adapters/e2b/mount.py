"""/e2b on a hub: the calls that the unmodified clients of E2B make.

The control plane manages sandboxes, with a token of the hub in `X-API-KEY`. The data plane serves
the contents of one sandbox, named by the header `E2b-Sandbox-Id`, with the key of this sandbox.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    InternalError,
    InvalidRequest,
    NotSupported,
)
from bascule.core.sessions import SessionId
from bascule.hub import Hub, Identity
from bascule.hub.guard import PathRules
from bascule.hub.mounts import HostRequest, Mount, identity_of
from bascule.hub.origins import SESSION_ID
from bascule.hub.proxy.signed_cookies import secret_of
from bascule.serving.asgi import ClientDisconnected, Receive, Scope, Send, read_body
from bascule.serving.refusals import Refused
from bascule.wire import from_json

from ._connect import STREAM, unary_error
from ._errors import rest_status, send_rest_error
from ._files import download, upload
from ._filesystem import FilesystemService
from ._interpreter import Interpreter
from ._keys import SandboxKeys
from ._processes import ProcessService
from ._sandbox import OpenSandbox
from ._sandboxes import E2BSandboxes, ensure_may_manage, read_query, timeout_of
from ._templates import find_template, refuse_build
from ._watchers import Watchers

logger = logging.getLogger(__name__)

PREFIX: Final = "/e2b"
_FILES: Final = "/files"
_PROCESS: Final = "/process.Process/"
_FILESYSTEM: Final = "/filesystem.Filesystem/"
_SANDBOX_PATH: Final = "/-sandbox"
"""Prefix of the path of a request to a sandbox's host name. Without it, the path of an app could
look like a path of the control plane."""
_API_LABEL: Final = "api"
_PORT_LABEL: Final = re.compile(rf"([1-9][0-9]{{0,4}})-({SESSION_ID})")
_OWN_PORTS: Final = ("", "49983", "49999")
"""Ports of the data plane and of the code interpreter."""
_CONTROL: Final = ("sandboxes", "templates", "v2", "v3", "default-templates", "snapshots")
"""First parts of the paths of the control plane."""
_BODY_TYPES: Final = frozenset({b"application/json", STREAM.encode()})
_FILE_TYPES: Final = frozenset({b"multipart/form-data", b"application/octet-stream"})
_KEY_HEADERS: Final = (b"x-access-token", b"e2b-traffic-access-token")
_SCOPES: Final = ("agent", "admin", "member")


class E2BMount(Mount):
    """Serves E2B's control plane and data plane below one prefix."""

    prefix = PREFIX

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._keys = SandboxKeys(hub.tokens, secret_of(hub.settings.admin_token, "e2b"))
        self._sandboxes = E2BSandboxes(hub, self._keys, hub.settings.e2b_domain)
        self._watchers = Watchers(hub.leases, hub.sessions)
        self._processes = ProcessService()
        self._filesystem = FilesystemService(self._watchers)
        self._interpreter = Interpreter()

    async def aclose(self) -> None:
        await self._watchers.aclose()
        await self._processes.aclose()

    def request_at_host(self, host: str) -> HostRequest | None:
        name = host.partition(":")[0]
        domain = self._hub.settings.e2b_domain.lower().partition(":")[0]
        if not domain or not name.endswith(f".{domain}"):
            return None
        label = name.removesuffix(f".{domain}")
        if label == _API_LABEL:
            return HostRequest(PREFIX)
        found = _PORT_LABEL.fullmatch(label)
        if found is None:
            return None
        return HostRequest(
            PREFIX + _SANDBOX_PATH,
            ((b"e2b-sandbox-id", found[2].encode()), (b"e2b-sandbox-port", found[1].encode())),
        )

    def rules_at(self, path: str) -> PathRules:
        rest = _rest(path)
        is_files = rest == _FILES
        return PathRules(
            identify=self._identify_manager if _is_control(path) else self._identify_user,
            errors=send_rest_error,
            body_types=_FILE_TYPES if is_files else _BODY_TYPES,
            takes_files=is_files or rest == f"{_PROCESS}StreamInput",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, rest = Request(scope, receive), _rest(scope["path"])
        try:
            response = await self._answer(request, rest)
            await response(scope, receive, send)
        except ClientDisconnected:
            return
        except Refused as refused:
            await send_rest_error(scope, send, refused.error, refused.status)
        except BasculeError as error:
            await send_rest_error(scope, send, error, rest_status(error))
        except Exception:  # the edge of a request; the log has it
            logger.exception("%s %s failed", scope["method"], scope["path"])
            failure = InternalError("The hub failed; its log has the cause")
            await send_rest_error(scope, send, failure, 500)

    async def _answer(self, request: Request, rest: str) -> Response:
        if not _is_control(request.scope["path"]):
            return await self._answer_in_sandbox(request, rest)
        who, words = identity_of(request.scope), rest.strip("/").split("/")
        ensure_may_manage(who)
        if words[0] in ("v2", "v3") and len(words) > 1:
            version, *words = words
        else:
            version = "v1"
        if words[0] == "sandboxes":
            return await self._control(request, who, version, words[1:])
        return self._templates(request, words)

    # Control plane --------------------------------------------------------------------------

    async def _control(
        self, request: Request, who: Identity, version: str, words: list[str]
    ) -> Response:
        sandboxes = self._sandboxes
        match request.method, words:
            case "POST", []:
                key = request.headers.get("idempotency-key", "")
                return JSONResponse(await sandboxes.create(who, await _body(request), key), 201)
            case "GET", []:
                query = read_query(request.query_params, all_states=version == "v2")
                page, next_token = sandboxes.list_sandboxes(who, query)
                headers = {"X-Next-Token": next_token} if next_token else {}
                return JSONResponse(page, headers=headers)
            case "GET", [sandbox_id]:
                return JSONResponse(sandboxes.describe(who, sandbox_id))
            case "DELETE", [sandbox_id]:
                await sandboxes.kill(who, sandbox_id)
            case "GET", [sandbox_id, "metrics"]:
                return JSONResponse(await sandboxes.metrics(who, sandbox_id))
            case "GET", [sandbox_id, "logs"]:
                sandboxes.get(who, sandbox_id)
                return JSONResponse({"logs": [], "logEntries": []})
            case "POST", [sandbox_id, "connect"]:
                is_resumed, found = await sandboxes.connect(who, sandbox_id, await _body(request))
                return JSONResponse(found, 201 if is_resumed else 200)
            case "POST", [sandbox_id, "resume"]:
                found = await sandboxes.resume(who, sandbox_id, await _body(request))
                return JSONResponse(found, 201)
            case "POST", [sandbox_id, "pause"]:
                await sandboxes.pause(who, sandbox_id)
            case "POST", [sandbox_id, "timeout"]:
                seconds = timeout_of(await _body(request))
                await sandboxes.set_timeout(who, sandbox_id, seconds)
            case "POST", [sandbox_id, "refreshes"]:
                seconds = timeout_of(await _body(request), "duration")
                await sandboxes.set_timeout(who, sandbox_id, seconds, shortens=False)
            case "PUT", [sandbox_id, "network"]:
                sandboxes.change_network(who, sandbox_id, await _body(request))
            case "POST", [sandbox_id, "snapshots" | "fork"]:
                sandboxes.get(who, sandbox_id)
                raise NotSupported(
                    "This hub makes no snapshots of running processes; pause the sandbox, or fork "
                    "the session's workspace with `bascule session fork`"
                )
            case _:
                raise _nothing(request)
        return Response(status_code=204)

    def _templates(self, request: Request, words: list[str]) -> Response:
        match request.method, words:
            case "GET", ["templates", "aliases", *name]:
                template = find_template("/".join(name), self._hub.sessions.spawners)
                return JSONResponse({"templateID": template.name, "public": True})
            case "GET", ["templates"] | ["default-templates"] | ["snapshots"]:
                return JSONResponse([])
            case _, ["templates", *_]:
                raise refuse_build()
        raise _nothing(request)

    # Data plane -----------------------------------------------------------------------------

    async def _answer_in_sandbox(self, request: Request, rest: str) -> Response:
        who = identity_of(request.scope)
        row = self._sandboxes.get_running(who, _sandbox_id(request))
        if (port := request.headers.get("e2b-sandbox-port", "")) not in _OWN_PORTS:
            return await self._redirect_to_app(request, who, row.id, port, rest)
        sandbox = OpenSandbox(self._hub, who, row)
        for prefix, service in ((_PROCESS, self._processes), (_FILESYSTEM, self._filesystem)):
            if rest.startswith(prefix):
                if request.method != "POST":
                    raise Refused(405, InvalidRequest("Calls of this service are POST requests"))
                try:
                    found = await service.answer(rest.removeprefix(prefix), sandbox, request)
                except Refused:
                    raise
                except BasculeError as error:
                    return unary_error(error)
                return found or unary_error(NotSupported(f"There is no call {rest.strip('/')!r}"))
        match request.method, rest:
            case "GET", "/health":
                return Response(status_code=204)
            case "GET", "/metrics":
                found_metrics = await self._sandboxes.metrics(who, row.id)
                return JSONResponse(_envd_metrics(found_metrics))
            case "GET", "/files":
                return await download(sandbox, request)
            case "POST", "/files":
                return await upload(sandbox, request, limit=self._hub.settings.max_upload)
        answer = await self._interpreter.answer(sandbox, request, rest)
        if answer is None:
            raise _nothing(request)
        return answer

    async def _redirect_to_app(
        self, request: Request, who: Identity, session_id: SessionId, port: str, rest: str
    ) -> Response:
        """Redirect to the address at which the hub serves an app of the sandbox.

        The token is checked there.
        """
        for each in await self._hub.sessions.ports(who, session_id):
            if str(each.port) == port:
                address = self._hub.addresses.app(session_id, each.n).rstrip("/")
                query = f"?{request.url.query}" if request.url.query else ""
                return RedirectResponse(f"{address}{quote(rest)}{query}", 307)
        raise Refused(502, InvalidRequest(f"The port is not open: {port}"))

    # Identities -----------------------------------------------------------------------------

    async def _identify_manager(self, _path: str, headers: dict[bytes, bytes]) -> Identity:
        token = _token_in(headers)
        who = await self._hub.tokens.identify(token) if token else None
        if who is None:
            problem = "is unknown or has expired" if token else "is missing"
            raise Refused(401, AccessDenied(f"The token of this hub in `X-API-KEY` {problem}"))
        return who

    async def _identify_user(self, path: str, headers: dict[bytes, bytes]) -> Identity:
        """The identity behind a key of the sandbox, or behind a token of the hub."""
        sandbox_id = headers.get(b"e2b-sandbox-id", b"").decode("latin-1")
        given = [headers[name].decode("latin-1") for name in _KEY_HEADERS if headers.get(name)]
        for key in given:
            who = await self._keys.identify(key, sandbox_id)
            if who is not None and who.scope in _SCOPES:
                return who
        if not given and _token_in(headers):
            return await self._identify_manager(path, headers)
        problem = "is not valid for this sandbox" if given else "is missing"
        raise Refused(401, AccessDenied(f"The key of the sandbox in `X-Access-Token` {problem}"))


def _rest(path: str) -> str:
    """The path as E2B's clients know it."""
    return path.removeprefix(PREFIX).removeprefix(_SANDBOX_PATH)


def _is_control(path: str) -> bool:
    """Whether a path of the hub belongs to the control plane."""
    return path.removeprefix(PREFIX).strip("/").partition("/")[0] in _CONTROL


def _sandbox_id(request: Request) -> str:
    sandbox_id = request.headers.get("e2b-sandbox-id", "")
    if not sandbox_id:
        raise InvalidRequest("The header `E2b-Sandbox-Id` is missing")
    return sandbox_id


def _token_in(headers: dict[bytes, bytes]) -> str:
    token = headers.get(b"x-api-key", b"").decode("latin-1").strip()
    kind, _, bearer = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token or (bearer.strip() if kind.lower() == "bearer" else "")


async def _body(request: Request) -> dict[str, Any]:
    value = from_json(await read_body(request.receive) or b"{}")
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object")
    return value


def _envd_metrics(found: Any) -> dict[str, Any]:
    latest = found[-1] if found else {}
    return {
        "ts": latest.get("timestampUnix", 0),
        "cpu_count": latest.get("cpuCount", 0),
        "cpu_used_pct": latest.get("cpuUsedPct", 0.0),
        "mem_total": latest.get("memTotal", 0),
        "mem_used": latest.get("memUsed", 0),
        "disk_used": latest.get("diskUsed", 0),
        "disk_total": latest.get("diskTotal", 0),
    }


def _nothing(request: Request) -> Refused:
    path = request.url.path
    return Refused(404, InvalidRequest(f"There is nothing at {request.method} {path!r} here"))
