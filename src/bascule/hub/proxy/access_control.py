"""Decides whether a request is admitted to its target, and which headers it carries.

The rules depend on the `Host` header. On a session's own origin, the cookie of that origin admits
the session's owner. On the hub's origin, a token admits programs, and browsers are redirected to
the session's origin (`session_sign_in`). Only the owner of an endpoint is admitted to it.

Pages of an app get an opaque origin (`Content-Security-Policy: sandbox`) and send no cookie. The
proxy redirects their owner to a path that contains a key. Below that path the key replaces the
cookie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode

from bascule.core.errors import AccessDenied, InvalidRequest, MessageTooLarge, NoSuchSession
from bascule.hub.guard import HubHostRules
from bascule.hub.identity import Identity
from bascule.hub.origins import Origins, SessionHost
from bascule.hub.settings import HubSettings
from bascule.serving.asgi import Header
from bascule.serving.refusals import Refused
from bascule.serving.request_rules import is_loopback
from bascule.wire.programs import STARTED_BY

from .addresses import HubAddresses, host_of
from .authentication import SIGN_IN_SECONDS, AuthenticatedUser, Authenticator
from .cookies import app_cookie, session_cookie, values_of
from .credentials import ALWAYS_HIDDEN, hidden_headers, without_tokens
from .endpoints import EndpointPath, ResolveMountedPath, SessionEndpoint, ensure_plain, read_target
from .pages import ProxyReply, page, redirect
from .request import RequestHead, ensure_framed
from .response import ResponseRules
from .routes import ProxyRoutes, UpstreamServer
from .session_sign_in import CROSS_ORIGIN_SITES, SIGN_IN_PATHS, SessionSignIn

_APP_SANDBOX_POLICY: Final = (
    "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads allow-pointer-lock"
)
_WORKSPACE_FILES: Final = b"/vscode-remote-resource"
"""Path at which VS Code's server serves any file of the workspace."""
_STARTED_BY: Final = STARTED_BY.lower().encode()
_MAX_ACCEPTED_HOSTS: Final = 64
_TOKEN_IN_QUERY: Final = b"tkn="


@dataclass(slots=True)  # not frozen: created for each request, see `EndpointPath`
class Admission:
    """An admitted request."""

    requested: EndpointPath
    target: UpstreamServer
    response_rules: ResponseRules
    scheme: str
    hidden: frozenset[bytes] = ALWAYS_HIDDEN
    """Names of the client's headers that hold credentials of the hub."""
    authorization: bytes = b""
    """The `Authorization` header for the target; never a credential of the hub."""
    origin: bytes = b""
    """Replaces an opaque `Origin` header, so that the app sees its own origin."""
    sign_in: bytes = b""
    """Id of the sign-in whose cookie admitted the request; empty without a cookie."""
    token_hash: str = ""
    """Hash of the token that admitted the request, directly or through its cookie."""
    program_starter: Identity | None = None
    """The sender, if the request starts a program in a sandbox."""


class AccessControl:
    """Admits requests: `Authenticator` identifies the sender, `ProxyRoutes` knows the endpoint's
    owner."""

    def __init__(
        self,
        settings: HubSettings,
        addresses: HubAddresses,
        *,
        authenticator: Authenticator,
        routes: ProxyRoutes,
        origins: Origins | None = None,
        resolve_mounted: ResolveMountedPath = lambda _: None,
    ) -> None:
        self._resolve_mounted = resolve_mounted
        self.origins = origins or Origins(settings)
        self.session_sign_in = SessionSignIn(self.origins, authenticator)
        self._host_rules = HubHostRules(settings)
        self._addresses = addresses
        self._authenticator = authenticator
        self._routes = routes
        self._max_upload = settings.max_upload
        self._frame_ancestors = " ".join(("'self'", *settings.frame_origins))
        self._may_be_framed = bool(settings.frame_origins)
        self._policy_at = lru_cache(maxsize=256)(self._policy)
        self._accepted_hosts: set[bytes] = set()
        """Host headers that were accepted before; checking these again would only take time."""

    async def admit(self, request: RequestHead) -> Admission | ProxyReply:
        """Admit the request or answer it directly.

        Raises `Refused`, or the errors of `ProxyRoutes.target`.
        """
        admitted = await self._admit(request)
        if not isinstance(admitted, Admission):
            return admitted
        requested = admitted.requested
        admitted.hidden = await hidden_headers(request, requested, self.is_token)
        if b"?" in requested.rest:
            rest = await without_tokens(requested.rest, self.is_token)
            admitted.requested = replace(requested, rest=rest)
        return admitted

    async def is_token(self, text: str) -> bool:
        """Whether the text is a valid token of this hub, of any owner."""
        return await self._authenticator.by_token(text) is not None

    async def _admit(self, request: RequestHead) -> Admission | ProxyReply:
        try:
            ensure_framed(request)
            ensure_plain(request.target)
        except InvalidRequest as error:
            raise Refused(400, error) from None
        self._ensure_size(request)
        if self._addresses.is_apps_host(request.host):
            return await self._on_apps_origin(request)
        if (host := self.origins.session_host(request.host)) is not None:
            return await self._on_session_origin(request, host)
        requested = self._resolve_mounted(request.target) or read_target(request.target)
        if isinstance(requested, str):
            self._ensure_accepted(request, is_keyed=False)
            return redirect(requested)
        is_keyed = requested is not None and requested.key != ""
        self._ensure_accepted(request, is_keyed=is_keyed)
        if requested is None:
            raise _not_found(request)
        if not requested.rest:
            return redirect(_with_slash(request.target), status=308)
        return await self._on_hub(request, requested)

    # On the hub's own origin ------------------------------------------------------------------

    async def _on_hub(
        self, request: RequestHead, requested: EndpointPath
    ) -> Admission | ProxyReply:
        """A request on the hub's origin: programs are served, browsers are redirected to the
        session's origin.

        Unless sessions share the hub's origin, pages for people are never served here, whatever
        credentials a request has: such a page would run the session's code on the hub's origin.
        """
        is_shared = self.origins.is_shared_with_hub
        if requested.key and not self._addresses.has_apps_origin:
            if (
                request.is_page
                and not is_shared
                and self._addresses.is_key(requested.endpoint, requested.key)
            ):
                return self._redirect_to_session(request, requested.endpoint)
            return await self._admit_by_key(request, requested)
        if request.is_page and (cookie_reply := await self._token_to_cookie(request, requested)):
            return cookie_reply
        is_program = not request.is_navigation or requested.endpoint.kind == "sandbox"
        if is_program:
            user = await self._authenticator.by_bearer_token(request, requested.endpoint)
            if user is not None:
                return await self._enter(request, requested, user)
        if requested.endpoint.kind == "sandbox":
            # An action server has no pages, so a cookie would come from a request of another page.
            raise Refused(401, AccessDenied("Send `Authorization: Bearer TOKEN`"))
        if request.is_page:
            return await self._redirect_browser(request, requested)
        user = (
            await self._authenticator.authenticate(request, requested.endpoint)
            if is_shared
            else None
        )
        if user is None:
            raise Refused(401, AccessDenied("Sign in, or send `Authorization: Bearer TOKEN`"))
        return await self._enter(request, requested, user)

    async def _redirect_browser(
        self, request: RequestHead, requested: EndpointPath
    ) -> Admission | ProxyReply:
        """Authenticate a browser, then redirect it to the session's origin."""
        endpoint = requested.endpoint
        if reply := self.refuse_plain_http(request) or self.redirect_to_page_host(request):
            return reply
        if reply := self.session_sign_in.cross_origin_navigation(request):
            return reply
        user = await self._authenticator.by_hub_cookie(request)
        if user is None and self.origins.is_shared_with_hub:
            user = await self._authenticator.by_session_cookie(request, endpoint)
        if user is None or user.sign_in is None:
            return self.session_sign_in.redirect_to_sign_in(request)
        await self._ensure_owner(request, user, endpoint)
        if endpoint.kind == "apps" and self._addresses.has_apps_origin:
            return redirect(self._addresses.grant(endpoint) + requested.rest.decode())
        if self.origins.is_shared_with_hub:
            return await self._enter(request, requested, user)
        next_path = requested.prefix + requested.rest.decode()
        return self.session_sign_in.redirect_to_session(request, user.sign_in, endpoint, next_path)

    def redirect_to_page_host(self, request: RequestHead) -> ProxyReply | None:
        """A redirect to the host that serves the hub's page; None if the request is
        already there."""
        if self.origins.is_page_host(request.host):
            return None
        return redirect(self.origins.page_origin(request.host) + request.target.decode("latin-1"))

    def _redirect_to_session(self, request: RequestHead, endpoint: SessionEndpoint) -> ProxyReply:
        origin = self.origins.session_origin(request.host, endpoint.session_id)
        if not origin:
            raise _not_found(request)
        return redirect(origin + request.target.decode())

    async def _ensure_owner(
        self, request: RequestHead, user: AuthenticatedUser, endpoint: SessionEndpoint
    ) -> None:
        owner = await self._routes.owner(endpoint)
        if owner is None:
            raise _not_found(request)
        # Not the apps: their URLs contain a key, which would stay valid after the sharing ends. And
        # on the hub's own origin a page of the session could act as the user who views it.
        is_shareable = endpoint.kind != "apps" and not self.origins.is_shared_with_hub
        others = await self._routes.other_users(endpoint) if is_shareable else ()
        if not user.may_access(endpoint, owner, others):
            raise _not_found(request)  # strangers must not learn whether it exists

    # On a session's origin --------------------------------------------------------------------

    async def _on_session_origin(
        self, request: RequestHead, host: SessionHost
    ) -> Admission | ProxyReply:
        """A request on a session's origin, where neither the hub nor another session is served.

        The cookie counts only for requests that a page of this origin started, or a person by
        typing the address.
        """
        if request.target.startswith(SIGN_IN_PATHS):
            frames = self._frames_at(request.host)
            if (reply := await self.session_sign_in.answer(request, host, frames)) is not None:
                return reply
        requested = read_target(request.target)
        if requested is None or requested.endpoint.kind == "sandbox":
            raise _not_found(request)
        if host.session_id not in ("", requested.endpoint.session_id):
            raise _not_found(request)
        if not requested.rest:
            return redirect(_with_slash(request.target), status=308)
        origin = request.header(b"origin").decode("latin-1").lower()
        if origin and origin != host.origin and not (requested.key and origin == "null"):
            raise Refused(403, AccessDenied("Pages of other origins may not call a session"))
        if requested.endpoint.kind == "apps" and self._addresses.has_apps_origin:
            return self.session_sign_in.redirect_to_hub(request)
        if requested.key:
            return await self._admit_by_key(request, requested)
        is_cross_origin = request.header(b"sec-fetch-site") in CROSS_ORIGIN_SITES
        if is_cross_origin and not request.is_page:
            raise Refused(403, AccessDenied("Pages of other origins may not call a session"))
        user = (
            None
            if is_cross_origin
            else await self._authenticator.by_session_cookie(request, requested.endpoint)
        )
        if user is None:
            if request.is_page:
                return self.session_sign_in.redirect_to_hub(request)
            raise Refused(401, AccessDenied("Open the session from the hub first"))
        if request.is_page and await self._has_token(requested):
            return self.session_sign_in.redirect_to_hub(
                request
            )  # the hub removes the token from the URL
        return await self._enter(request, requested, user)

    async def _enter(
        self, request: RequestHead, requested: EndpointPath, user: AuthenticatedUser
    ) -> Admission | ProxyReply:
        """Admit an authenticated user to the endpoint, if the user owns it."""
        endpoint = requested.endpoint
        await self._ensure_owner(request, user, endpoint)
        if endpoint.kind == "apps" and self._addresses.has_apps_origin:
            return redirect(self._addresses.grant(endpoint) + requested.rest.decode())
        target = await self._routes.target(endpoint, is_visit=request.is_visit(requested))
        # A resume takes seconds, in which the owner may have taken back the access.
        await self._ensure_owner(request, user, endpoint)
        await self._routes.audit_visit(user.identity, endpoint)
        if endpoint.kind == "apps" and target.is_sandboxed and request.is_page:
            return redirect(self._addresses.keyed_path(endpoint) + requested.rest.decode())
        starter = user.identity if _starts_program(request, requested) else None
        if endpoint.kind == "sandbox":  # a client must not name another token
            started_by = (_STARTED_BY, user.identity.token_id.encode())
            target = replace(target, headers=(*target.headers, started_by))
        added = self._headers_for(request, requested, target)
        if user.proven_by == "sign-in" and request.is_page and user.sign_in is not None:
            value = self._authenticator.session_cookie_value(user.sign_in, endpoint)
            added = *added, self._session_cookie(endpoint, value)
        passes_authorization = user.proven_by != "bearer" and endpoint.kind == "apps"
        # On the hub's own origin a target must not choose its opener policy.
        is_shared = self.origins.is_shared_with_hub
        replaced = {b"cross-origin-opener-policy"} if is_shared else None
        return Admission(
            requested,
            target,
            self._response_rules(request, requested, target, added, replaced=replaced),
            self._scheme(request),
            authorization=await self._app_authorization(request) if passes_authorization else b"",
            sign_in=user.sign_in.id if user.sign_in is not None else b"",
            token_hash=user.identity.token_hash,
            program_starter=starter,
        )

    def _headers_for(
        self, request: RequestHead, requested: EndpointPath, target: UpstreamServer
    ) -> tuple[Header, ...]:
        kind = requested.endpoint.kind
        is_file = kind == "vscode" and _WORKSPACE_FILES in request.target.partition(b"?")[0]
        if kind == "sandbox" or is_file:
            policy = self._policy_at(request.host, "sandbox")
        elif kind == "apps" and target.is_sandboxed:
            policy = self._policy_at(request.host, _APP_SANDBOX_POLICY)
        else:
            policy = self._policy_at(request.host)
        return ((b"content-security-policy", policy),)

    # With a key -------------------------------------------------------------------------------

    async def _admit_by_key(
        self, request: RequestHead, requested: EndpointPath
    ) -> Admission | ProxyReply:
        if not self._addresses.is_key(requested.endpoint, requested.key):
            return self._refuse_key(request, requested)
        if await self._routes.owner(requested.endpoint) is None:
            raise _not_found(request)
        is_opaque = request.header(b"origin") == b"null"
        cors: tuple[Header, ...] = ()
        if is_opaque:
            cors = _cors_for_opaque_origin(request)
            if request.method == b"OPTIONS" and request.header(b"access-control-request-method"):
                return ProxyReply(204, cors)
        target = await self._routes.target(requested.endpoint, is_visit=request.is_visit(requested))
        added = (
            (b"content-security-policy", self._policy_at(request.host, _APP_SANDBOX_POLICY)),
            (b"referrer-policy", b"no-referrer"),
            *cors,
        )
        scheme = self._scheme(request)
        return Admission(
            requested,
            target,
            self._response_rules(
                request, requested, target, added, replaced={b"referrer-policy"}, cors=True
            ),
            scheme,
            authorization=await self._app_authorization(request),
            origin=f"{scheme}://{request.host}".encode() if is_opaque else b"",
        )

    def _refuse_key(self, request: RequestHead, requested: EndpointPath) -> ProxyReply:
        """The key is not valid: redirect to the path without it, which leads to a new key."""
        if request.is_page:
            return redirect(requested.endpoint.path + requested.rest.decode())
        raise Refused(401, AccessDenied(f"The key in {requested.endpoint.path}/~… is not valid"))

    # Signing in -------------------------------------------------------------------------------

    async def _token_to_cookie(
        self, request: RequestHead, requested: EndpointPath
    ) -> ProxyReply | None:
        """Turn a token in the URL into a cookie and redirect to the URL without it.

        None if the parameter is not a token. A token of another owner is refused with 404: a
        program in the session must not see it.
        """
        if _TOKEN_IN_QUERY not in requested.rest or requested.endpoint.kind == "sandbox":
            return None
        path, _, query = requested.rest.partition(b"?")
        pairs = parse_qsl(query.decode(), keep_blank_values=True)
        token = next((value for name, value in pairs if name == "tkn"), "")
        identity = await self._authenticator.by_token(token)
        if identity is None:
            return None
        await self._ensure_owner(
            request, AuthenticatedUser(identity, "session"), requested.endpoint
        )
        if refused := self.refuse_plain_http(request):
            return refused
        sign_in, _ = self._authenticator.sign_in(token)
        other = urlencode([pair for pair in pairs if pair[0] != "tkn"])
        location = requested.prefix + path.decode() + (f"?{other}" if other else "")
        if not self.origins.is_shared_with_hub:
            return self.session_sign_in.redirect_to_session(
                request, sign_in, requested.endpoint, location
            )
        value = self._authenticator.session_cookie_value(sign_in, requested.endpoint)
        return redirect(location, self._session_cookie(requested.endpoint, value))

    async def _has_token(self, requested: EndpointPath) -> bool:
        if _TOKEN_IN_QUERY not in requested.rest:
            return False
        pairs = parse_qsl(requested.rest.partition(b"?")[2].decode(), keep_blank_values=True)
        token = next((value for name, value in pairs if name == "tkn"), "")
        return await self._authenticator.by_token(token) is not None

    def refuse_plain_http(self, request: RequestHead) -> ProxyReply | None:
        """A page that explains why signing in needs TLS; None where a cookie is safe."""
        if self._addresses.is_secure or is_loopback(request.host):
            return None
        return page(
            403,
            "Signing in needs TLS",
            "<p>Over plain HTTP, anybody on the network could read your sign-in and take over your "
            "session. Serve the hub with TLS (<code>bascule nginx</code>) and set "
            "<code>public_url</code> to its https address, or open it on the machine it runs "
            "on.</p>",
        )

    # On the apps' own origin ------------------------------------------------------------------

    async def _on_apps_origin(self, request: RequestHead) -> Admission | ProxyReply:
        """A request on the apps' origin, which serves only apps. The first request to an app has
        its key in the path; later ones have a cookie."""
        requested = self._addresses.app_of_host(request.host, request.target)
        if requested is None:
            requested = read_target(request.target)
        if requested is None or requested.endpoint.kind != "apps":
            raise _not_found(request)
        if not requested.rest:
            return redirect(_with_slash(request.target), status=308)
        endpoint = requested.endpoint
        if requested.key:
            return self._grant(request, requested)
        if not self._has_key(request, requested):
            if request.is_page:
                return redirect(
                    self._hub_origin_for_apps() + endpoint.path + requested.rest.decode()
                )
            raise Refused(401, AccessDenied("Open the app from the hub first"))
        if not self._is_own_page(request):
            raise Refused(403, AccessDenied("Pages of other origins may not call this app"))
        if await self._routes.owner(endpoint) is None:
            raise _not_found(request)
        target = await self._routes.target(endpoint, is_visit=request.is_visit(requested))
        framing = f"frame-ancestors {self._frame_ancestors} {self._hub_origin_for_apps()}".encode()
        added: tuple[Header, ...] = ((b"content-security-policy", framing),)
        return Admission(
            requested,
            target,
            self._response_rules(request, requested, target, added),
            self._addresses.apps_origin.partition(":")[0],
            authorization=await self._app_authorization(request),
        )

    def _hub_origin_for_apps(self) -> str:
        """The origin of the hub's page, for requests on the apps' origin."""
        return self.origins.page_origin(host_of(self._addresses.hub()))

    def _has_key(self, request: RequestHead, requested: EndpointPath) -> bool:
        name = app_cookie(requested.prefix)
        headers = request.header_values(b"cookie")
        keys = [value for header in headers for key, value in values_of(header) if key == name]
        return any(
            self._addresses.is_key(requested.endpoint, key.decode("latin-1")) for key in keys
        )

    def _grant(self, request: RequestHead, requested: EndpointPath) -> ProxyReply:
        """Turn the key in the path into a cookie, and redirect to the path without the key."""
        if not self._addresses.is_key(requested.endpoint, requested.key):
            raise _not_found(request)
        value, path = requested.key.encode(), requested.prefix.removesuffix(f"/~{requested.key}")
        name = app_cookie(path)
        attributes = b"; Path=%s/; Max-Age=%d; HttpOnly; Secure; " % (
            path.encode(),
            SIGN_IN_SECONDS,
        )
        cookie = name + b"=" + value + attributes + self._same_site
        # A location that starts with two slashes would name another host.
        return redirect(f"{path}/{requested.rest.decode().lstrip('/')}", (b"set-cookie", cookie))

    def _is_own_page(self, request: RequestHead) -> bool:
        origin = request.header(b"origin").decode("latin-1").lower()
        return not origin or origin.partition("://")[2] == request.host

    # ------------------------------------------------------------------------------------------

    @property
    def _same_site(self) -> bytes:
        # In a frame on another site, browsers accept only partitioned cookies: stored per framing
        # site.
        return b"SameSite=None; Partitioned" if self._may_be_framed else b"SameSite=Lax"

    def _session_cookie(self, endpoint: SessionEndpoint, value: str) -> Header:
        attributes = b"; Path=/; Max-Age=%d; HttpOnly; Secure; " % SIGN_IN_SECONDS
        name = session_cookie(endpoint.session_id)
        return b"set-cookie", name + b"=" + value.encode() + attributes + self._same_site

    def _scheme(self, request: RequestHead) -> str:
        return self.origins.page_origin(request.host).partition(":")[0]

    def _frames_at(self, host: str) -> str:
        """The origins that may frame a page at `host`: its own, the hub's, and `frame_origins`."""
        return f"{self._frame_ancestors} {self.origins.page_origin(host)}"

    def _policy(self, host: str, sandbox: str = "") -> bytes:
        framing = f"frame-ancestors {self._frames_at(host)}"
        return (f"{sandbox}; {framing}" if sandbox else framing).encode()

    def _response_rules(
        self,
        request: RequestHead,
        requested: EndpointPath,
        target: UpstreamServer,
        added: tuple[Header, ...],
        *,
        replaced: set[bytes] | None = None,
        cors: bool = False,
    ) -> ResponseRules:
        return ResponseRules(
            prefix=requested.prefix,
            is_stripped=not target.keeps_prefix,
            host=request.host,
            added=added,
            replaced=frozenset(replaced or ()),
            drops_cross_origin=cors,
        )

    async def _app_authorization(self, request: RequestHead) -> bytes:
        """The `Authorization` header for the target. A token of an app passes, a token of the hub
        never does."""
        header = request.header(b"authorization")
        kind, _, token = header.decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or token.strip().startswith("bsc_"):
            return b""
        return b"" if await self._authenticator.by_token(token.strip()) is not None else header

    def _ensure_accepted(self, request: RequestHead, *, is_keyed: bool) -> None:
        """Raise `Refused` unless the hub accepts `Host` and `Origin`.

        A path with a key may be requested by the app's own page, whose origin is opaque (`null`).
        """
        host, origin = request.header(b"host"), request.header(b"origin")
        if is_keyed and origin == b"null":
            origin = b""
        if not origin and host in self._accepted_hosts:
            return
        self._host_rules.ensure_allowed({b"host": host} | ({b"origin": origin} if origin else {}))
        if len(self._accepted_hosts) < _MAX_ACCEPTED_HOSTS:
            self._accepted_hosts.add(host)

    def _ensure_size(self, request: RequestHead) -> None:
        if int(request.header(b"content-length") or 0) > self._max_upload:
            limit = self._max_upload
            raise Refused(
                413, MessageTooLarge(f"The body is larger than {limit} bytes", limit=limit)
            )


def _starts_program(request: RequestHead, requested: EndpointPath) -> bool:
    path = unquote_to_bytes(requested.rest.partition(b"?")[0])
    return (
        request.method == b"POST" and requested.endpoint.kind == "sandbox" and path == b"/programs"
    )


def _not_found(request: RequestHead) -> Refused:
    path = request.target.partition(b"?")[0].decode("latin-1")[:200]
    return Refused(404, NoSuchSession(f"You have no session at {path}"))


def _cors_for_opaque_origin(request: RequestHead) -> tuple[Header, ...]:
    """CORS headers for requests with a key. They are needed because the app's own page has an
    opaque origin, so the browser treats its requests as cross-origin."""
    wanted = request.header(b"access-control-request-headers")
    return (
        (b"access-control-allow-origin", b"null"),
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        (b"access-control-allow-headers", wanted or b"*"),
        (b"access-control-expose-headers", b"*"),
        (b"access-control-max-age", b"600"),
        (b"vary", b"origin"),
    )


def _with_slash(target: bytes) -> str:
    path, mark, query = target.decode().partition("?")
    return f"{path}/{mark}{query}"
