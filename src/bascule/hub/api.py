"""The hub's REST calls."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Body, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

import bascule
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    InvalidRequest,
    LinkError,
    OutcomeUnknown,
)
from bascule.core.windows import Window, WindowId
from bascule.link.socketio import PROTOCOL
from bascule.serving.refusals import Refused
from bascule.wire import decode_action, error_to_wire, reply_envelope
from bascule.wire.windows import encode_window

from .accounts.audit_log import AuditLog
from .disconnects import disconnect_of
from .docs_page import docs_page
from .guard import IDENTITY
from .identity import Identity
from .inprocess_windows import InProcessWindows
from .leases import TokenLeases
from .messages import (
    HealthAnswer,
    MessageAnswer,
    PairingCodeAnswer,
    PairingTokenAnswer,
    RegisterAnswer,
    RegisterBody,
    SignInAnswer,
    SignInBody,
    StatsAnswer,
    TokenAnswer,
    TokenBody,
    TokenReport,
)
from .metrics import CONTENT_TYPE
from .one_time_codes import PairingCodes, SignInCodes
from .peers import peer_uid
from .registry import Registry
from .replies import ERRORS
from .settings import HubSettings
from .sign_in import local_path
from .sockets import Sockets
from .store import Store
from .tokens import Tokens, hash_of

_RECENT: Final = 60.0
"""Seconds after a heartbeat in which a window counts as recently active."""
_DEFAULT_TIMEOUT: Final = 120.0
"""Timeout in seconds of an action over HTTP that sets none."""

_MEMBERS_SCOPES: Final = ("agent", "window")
"""The scopes of tokens that a member may create."""
_RESERVED_NAMES: Final = ("session ", "sign-in ")
"""Beginnings of the names of tokens that the hub itself creates."""


class Api:
    """All REST calls of the hub, on one FastAPI application."""

    def __init__(
        self,
        settings: HubSettings,
        *,
        store: Store,
        audit: AuditLog,
        tokens: Tokens,
        leases: TokenLeases,
        registry: Registry,
        sockets: Sockets,
        metrics: Callable[[], Awaitable[bytes]],
        sign_in_codes: SignInCodes,
        url: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._store = store
        self._audit = audit
        self._tokens = tokens
        self._leases = leases
        self._registry = registry
        self._sockets = sockets
        self._metrics = metrics
        self._sign_in_codes = sign_in_codes
        self._url = url
        self._codes = PairingCodes(settings.pairing_lifetime)
        self.app = FastAPI(
            title="Bascule hub",
            version=bascule.__version__,
            docs_url=None,
            redoc_url=None,
            # FastAPI's spans would contain requests, and would double those of `traced_requests`.
            telemetry={"tracing": False, "metrics": False, "logs": False},
        )
        self._add_routes()
        self._add_error_handlers()

    def _add_routes(self) -> None:
        add = self.app.add_api_route
        agent, person = [require_scope("agent", "admin")], [require_scope("admin", "member")]
        window = [require_scope("window", "session", "admin")]
        vscode = "/api/vscode"
        add("/health", self.health, response_model=HealthAnswer)
        add("/metrics", self.metrics, dependencies=agent)
        add("/docs", self.docs, include_in_schema=False)
        register = [require_scope("window", "session")]
        add(f"{vscode}/register", self.register, methods=["POST"], dependencies=register)
        add(f"{vscode}/instances", self.instances, dependencies=agent)
        add(f"{vscode}/instance/{{window_id}}", self.instance, dependencies=agent)
        add(
            f"{vscode}/instance/{{window_id}}/actions",
            self.act,
            methods=["POST"],
            dependencies=agent,
        )
        add(
            f"{vscode}/heartbeat/{{window_id}}",
            self.heartbeat,
            methods=["POST"],
            dependencies=window,
        )
        add(
            f"{vscode}/unregister/{{window_id}}",
            self.unregister,
            methods=["DELETE"],
            dependencies=window,
        )
        add(f"{vscode}/registry/stats", self.stats, dependencies=agent)
        add(f"{vscode}/pair", self.pair, methods=["POST"], dependencies=person)
        add(f"{vscode}/pair/{{code}}", self.redeem, methods=["POST"])
        add("/api/sign-in", self.sign_in, methods=["POST"], dependencies=agent)
        add("/api/tokens", self.list_tokens, dependencies=person)
        add("/api/tokens", self.create_token, methods=["POST"], dependencies=person)
        add("/api/tokens/{name}", self.revoke_token, methods=["DELETE"], dependencies=person)

    # The hub itself -----------------------------------------------------------------------

    async def health(self) -> HealthAnswer:
        """Health check: the hub's version. Needs no token."""
        return HealthAnswer(status="ok", version=bascule.__version__, protocol=PROTOCOL)

    async def metrics(self) -> Response:
        """Metrics in Prometheus' text format."""
        return Response(await self._metrics(), media_type=CONTENT_TYPE)

    async def docs(self) -> HTMLResponse:
        return HTMLResponse(docs_page(self.app.openapi()))

    # Windows ------------------------------------------------------------------------------

    async def register(self, body: RegisterBody, request: Request) -> RegisterAnswer:
        """Register a window with the nonce of its socket. The window can then receive actions."""
        registration = body.registration()
        replaced = await self._sockets.register(identity_of(request), registration)
        return RegisterAnswer(
            connection_id=registration.window.id,
            message="The window is registered",
            replaced=replaced,
        )

    async def instances(self, request: Request) -> list[dict[str, Any]]:
        """All windows that the caller may use."""
        return [encode_window(each) for each in await self._windows_of(request).windows()]

    async def instance(self, window_id: str, request: Request) -> dict[str, Any]:
        return encode_window(self._visible_window(window_id, request))

    async def act(
        self,
        window_id: str,
        request: Request,
        event: dict[str, Any] = Body(),  # noqa: B008 - FastAPI reads the default value
    ) -> dict[str, Any]:
        """Run one action in a window and return its observation.

        An action sent again with the same `id` does not run again; it returns the same observation.
        """
        action = decode_action(event)
        timeout = (action.timeout or _DEFAULT_TIMEOUT) + self._settings.action_grace
        try:
            async with asyncio.timeout(timeout), disconnect_of(request) as disconnected:
                # The response may get lost: do not confirm, so that the window keeps it.
                who = identity_of(request)
                link = InProcessWindows(
                    self._sockets, self._registry, who, confirms=False, disconnected=disconnected
                )
                observation = await link.act(WindowId(window_id), action)
        except TimeoutError:
            raise OutcomeUnknown(f"The window did not answer within {timeout:g} seconds") from None
        except LinkError as error:
            if not error.detail.get("sent"):
                raise
            raise OutcomeUnknown(
                f"{error.message}; it is unknown whether the action ran. If you send it "
                "again with the same id, it does not run twice",
                window_id=window_id,
                id=action.id,
                sent=True,
            ) from error
        return reply_envelope(event, observation)

    async def heartbeat(self, window_id: str, request: Request) -> MessageAnswer:
        """Report activity of the window. This is no health check: the hub probes the socket."""
        self._visible_window(window_id, request)
        self._registry.touch(WindowId(window_id))
        return MessageAnswer(message="The activity is recorded")

    async def unregister(self, window_id: str, request: Request) -> MessageAnswer:
        """Unregister a window. The window itself or an admin may do this."""
        self._visible_window(window_id, request)
        await self._sockets.unregister(WindowId(window_id))
        return MessageAnswer(message="The window is unregistered")

    async def stats(self, request: Request) -> StatsAnswer:
        windows = await self._windows_of(request).windows()
        counts: dict[str, int] = {}
        for window in windows:
            counts[window.status] = counts.get(window.status, 0) + 1
        return StatsAnswer(
            total_instances=len(windows),
            status_counts=counts,
            recent_activity=sum(map(_is_recent, windows)),
            registry_size=len(windows),
        )

    # Pairing and tokens -------------------------------------------------------------------

    async def pair(self, request: Request) -> PairingCodeAnswer:
        """A short code to type into a window, and a link that opens VS Code with the code."""
        code = self._codes.issue(identity_of(request).owner)
        query = urlencode({"hub": self._url(), "code": code.text})
        return PairingCodeAnswer(
            code=code.text,
            expires=datetime.fromtimestamp(code.expires, UTC).isoformat(),
            link=f"vscode://bascule.bascule-vscode/pair?{query}",
        )

    async def redeem(self, code: str, request: Request) -> PairingTokenAnswer:
        """Exchange a pairing code for a window's token. Needs no token.

        An address that sends too many wrong codes is refused for a minute.
        """
        paired = self._codes.redeem(code, source=_client_address(request))
        name = f"window {secrets.token_hex(4)}"
        token = await self._tokens.create(name, "window", owner=paired.owner)
        return PairingTokenAnswer(token=token, hub=self._url())

    async def sign_in(self, body: SignInBody, request: Request) -> SignInAnswer:
        """A URL that signs a browser in as the caller, once, and then opens `next`."""
        token = request.headers.get("authorization", "").partition(" ")[2].strip()
        if not token:
            raise AccessDenied(
                "This call needs a token in `Authorization: Bearer`; a page cannot make it"
            )
        uid = None
        if body.same_user:
            client, server = request.scope["client"], request.scope["server"]
            uid = await asyncio.to_thread(peer_uid, client, server)
            if uid is None:
                raise InvalidRequest("`same_user` is for clients on the hub's own machine")
        code = self._sign_in_codes.issue(hash_of(token), local_path(body.next), uid=uid)
        return SignInAnswer(url=f"{self._url()}/sign-in?{urlencode({'code': code})}")

    async def list_tokens(self, request: Request) -> list[TokenReport]:
        """The tokens of the caller, or for admins of all owners; without sign-ins of accounts."""
        who = identity_of(request)
        rows = await self._store.list_tokens()
        return [
            TokenReport(
                name=row.name,
                owner=row.owner,
                scope=row.scope,
                session_id=row.session_id,
                expires=row.expires,
            )
            for row in rows
            if who.may_see(row.owner) and not row.is_sign_in
        ]

    async def create_token(self, body: TokenBody, request: Request) -> TokenAnswer:
        """Create a token. Only this answer contains it: the hub stores only its hash.

        Members create tokens of scope `agent` or `window` for themselves.
        """
        who = identity_of(request)
        owner = body.owner or who.owner
        if not who.is_admin and (owner != who.owner or body.scope not in _MEMBERS_SCOPES):
            raise AccessDenied(
                f"A member creates tokens of scope {' or '.join(_MEMBERS_SCOPES)} for itself only; "
                "ask an admin for another token"
            )
        if body.name.startswith(_RESERVED_NAMES):
            raise InvalidRequest(
                f"The name {body.name!r} is reserved; choose another", field="name"
            )
        await self._audit.write(who, "token.create", owner=owner, name=body.name, scope=body.scope)
        token = await self._tokens.create(
            body.name,
            body.scope,
            owner=owner,
            session_id=body.session_id,
            lifetime=body.lifetime,
        )
        return TokenAnswer(token=token)

    async def revoke_token(self, name: str, request: Request) -> MessageAnswer:
        """Revoke a token. Its connections are closed and its actions are stopped."""
        who = identity_of(request)
        if not await self._tokens.revoke(name, owner=None if who.is_admin else who.owner):
            raise Refused(404, InvalidRequest(f"There is no token named {name!r}"))
        await self._leases.sweep()
        await self._audit.write(who, "token.revoke", name=name)
        return MessageAnswer(message="The token is revoked")

    # ----------------------------------------------------------------------------------------

    def _windows_of(self, request: Request) -> InProcessWindows:
        return InProcessWindows(self._sockets, self._registry, identity_of(request))

    def _visible_window(self, window_id: str, request: Request) -> Window:
        return self._sockets.ensure_visible(identity_of(request), WindowId(window_id))

    def _add_error_handlers(self) -> None:
        app = self.app

        @app.exception_handler(BasculeError)
        async def bascule_error(request: Request, error: BasculeError) -> JSONResponse:
            who: Identity | None = request.scope.get(IDENTITY)
            if who is None or not who.is_admin:
                error.message = self._settings.without_paths(error.message)
            return _error_response(error, ERRORS.status_of(error))

        @app.exception_handler(Refused)
        async def refused(_request: Request, error: Refused) -> JSONResponse:
            return _error_response(error.error, error.status)

        @app.exception_handler(RequestValidationError)
        async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            return _error_response(InvalidRequest(f"{field}: {first['msg']}", field=field), 422)

        @app.exception_handler(HTTPException)
        async def http(request: Request, error: HTTPException) -> JSONResponse:
            if isinstance(error.__cause__, Refused):  # raised while the body was read
                return _error_response(error.__cause__.error, error.__cause__.status)
            message = f"{request.method} {request.url.path}: {error.detail}"
            return _error_response(InvalidRequest(message), error.status_code)


def require_scope(*scopes: str) -> Any:
    """A dependency that admits only tokens of these scopes.

    Members may make every call that their agents may make.
    """
    admitted = {*scopes, *(["member"] if "agent" in scopes else [])}

    async def ensure(request: Request) -> None:
        identity = identity_of(request)
        if identity.scope not in admitted:
            raise AccessDenied(
                f"This call needs a token of scope {' or '.join(scopes)}, "
                f"not one of scope {identity.scope}"
            )

    return Depends(ensure)


def identity_of(request: Request) -> Identity:
    """The identity behind a request, as the guard found it."""
    identity: Identity = request.scope[IDENTITY]
    return identity


def _client_address(request: Request) -> str:
    """The client's address; for IPv6, its /64 network. Behind a proxy on this machine, the address
    that the proxy sends in `X-Real-IP`."""
    host = request.client.host if request.client is not None else ""
    try:
        address = ipaddress.ip_address(host)
        if address.is_loopback:
            address = ipaddress.ip_address(request.headers.get("x-real-ip", host))
    except ValueError:
        return host or "unknown"
    if address.version == 6:  # one client usually has all addresses of a /64 network
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _is_recent(window: Window) -> bool:
    """Whether the window sent a heartbeat within the last minute."""
    if not window.last_heartbeat:
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(window.last_heartbeat)
    return age.total_seconds() < _RECENT


def _error_response(error: BasculeError, status: int) -> JSONResponse:
    return JSONResponse(error_to_wire(error), status)
