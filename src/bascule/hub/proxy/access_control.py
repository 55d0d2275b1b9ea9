"""Whether a request may go on to its target, and in which clothes. Stands before every exchange.

Which rules hold depends on the host that a request names. On a session's own origin its owner gets
in with that origin's cookie. On the hub's, programs get in with a token, and browsers are led to
the session's (`session_sign_in`). A place is open to its owner alone.

An app's pages are shown with an origin that is nobody's (`Content-Security-Policy: sandbox`). Such
a page sends no cookie, so the owner is led to a path with a key, which stands for one below it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, urlencode

from bascule.core.errors import AccessDenied, InvalidRequest, MessageTooLarge, NoSuchSession
from bascule.hub.guard import Names
from bascule.hub.origins import Origins, SessionHost, is_loopback
from bascule.hub.replies import Refused
from bascule.hub.settings import HubSettings

from .addresses import Addresses, host_of
from .authentication import LIFETIME, Doorman, Visitor
from .cookies import app_cookie, session_cookie, values_of
from .credentials import hidden_headers, without_tokens
from .endpoints import Asked, Carried, Place, ensure_plain, read_target
from .pages import Reply, page, redirect
from .request import Header, Request, ensure_framed
from .response import Manners
from .routes import Routes, Target
from .session_sign_in import FOREIGN, Entrance

_SANDBOX: Final = (
    "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads allow-pointer-lock"
)
_WORKSPACE_FILES: Final = b"/vscode-remote-resource"
"""Where VS Code's server hands out files of the workspace, whatever they are."""
_MOST_HOSTS: Final = 64
_TOKEN_IN_QUERY: Final = b"tkn="


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may go on."""

    asked: Asked
    target: Target
    manners: Manners
    scheme: str
    hidden: frozenset[bytes] = frozenset()
    """Names of the client's headers that hold credentials of the hub."""
    authorization: bytes = b""
    """What the target may see of that header: never anything the hub knows."""
    origin: bytes = b""
    """Stands in for an opaque one, so that the app sees its own."""
    sign_in: bytes = b""
    token_hash: str = ""
    """Of the token that it was admitted with, or that its cookie was given for."""


class Gate:
    """Asks who it is (`Doorman`) and whose the place is (`Routes`)."""

    def __init__(
        self,
        settings: HubSettings,
        addresses: Addresses,
        *,
        doorman: Doorman,
        routes: Routes,
        origins: Origins | None = None,
        carried: Carried = lambda _: None,
    ) -> None:
        self._carried = carried
        self.origins = origins or Origins(settings)
        self.entrance = Entrance(self.origins, doorman)
        self._names = Names(settings)
        self._addresses = addresses
        self._doorman = doorman
        self._routes = routes
        self._max_upload = settings.max_upload
        self._frames = " ".join(("'self'", *settings.frame_origins))
        self._may_be_framed = bool(settings.frame_origins)
        self._policy_at = lru_cache(maxsize=256)(self._policy)
        self._welcome: set[bytes] = set()
        """Hosts that were found to be the hub's own."""

    async def admit(self, request: Request) -> Admission | Reply:
        """What to do with it. Raises `Refused`, or what `Routes.target` raises."""
        admitted = await self._admit(request)
        if not isinstance(admitted, Admission):
            return admitted
        asked = admitted.asked
        return replace(
            admitted,
            asked=replace(asked, rest=await without_tokens(asked.rest, self.is_token)),
            hidden=await hidden_headers(request, asked, self.is_token),
        )

    async def is_token(self, text: str) -> bool:
        """Whether it is a token of this hub, whosoever's."""
        return await self._doorman.token(text) is not None

    async def _admit(self, request: Request) -> Admission | Reply:
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
        asked = self._carried(request.target) or read_target(request.target)
        if isinstance(asked, str):
            self._ensure_welcome(request, is_keyed=False)
            return redirect(asked)
        is_keyed = asked is not None and asked.key != ""
        self._ensure_welcome(request, is_keyed=is_keyed)
        if asked is None:
            raise _nothing_here(request)
        if not asked.rest:
            return redirect(_with_slash(request.target), status=308)
        return await self._on_hub(request, asked)

    # On the hub's own origin ------------------------------------------------------------------

    async def _on_hub(self, request: Request, asked: Asked) -> Admission | Reply:
        """Programs are served here; a browser is led to the session's origin.

        A page that a person looks at is never served here, whatever the request brings: it would
        run the session's code on the hub's origin.
        """
        is_shared = self.origins.is_shared_with_hub
        if asked.key and not self._addresses.has_apps_origin:
            if request.is_page and not is_shared and self._addresses.is_key(asked.place, asked.key):
                return self._to_session(request, asked.place)
            return await self._by_key(request, asked)
        if request.is_page and (swapped := await self._swap_token(request, asked)):
            return swapped
        is_program = not request.is_navigation or asked.place.kind == "sandbox"
        if is_program:
            visitor = await self._doorman.bearer(request, asked.place)
            if visitor is not None:
                return await self._enter(request, asked, visitor)
        if asked.place.kind == "sandbox":
            # It has no pages, so a cookie would be somebody else's doing.
            raise Refused(401, AccessDenied("Send `Authorization: Bearer TOKEN`"))
        if request.is_page:
            return await self._lead(request, asked)
        visitor = await self._doorman.who(request, asked.place) if is_shared else None
        if visitor is None:
            raise Refused(401, AccessDenied("Sign in, or send `Authorization: Bearer TOKEN`"))
        return await self._enter(request, asked, visitor)

    async def _lead(self, request: Request, asked: Asked) -> Admission | Reply:
        """A person's browser: who it is, then the way to the session's origin."""
        place = asked.place
        if refused := self.refuse_plain(request) or self.elsewhere(request):
            return refused
        if first := self.entrance.first_contact(request):
            return first
        visitor = await self._doorman.signed_in(request)
        if visitor is None and self.origins.is_shared_with_hub:
            visitor = await self._doorman.in_session(request, place)
        if visitor is None or visitor.sign_in is None:
            return self.entrance.sign_in_first(request)
        await self._ensure_owner(request, visitor, place)
        if place.kind == "apps" and self._addresses.has_apps_origin:
            return redirect(self._addresses.grant(place) + asked.rest.decode())
        if self.origins.is_shared_with_hub:
            return await self._enter(request, asked, visitor)
        onward = asked.prefix + asked.rest.decode()
        return self.entrance.lead(request, visitor.sign_in, place, onward)

    def elsewhere(self, request: Request) -> Reply | None:
        """A redirect to the host where the hub's page is; None for a request that names it."""
        if self.origins.is_page_host(request.host):
            return None
        return redirect(self.origins.page(request.host) + request.target.decode("latin-1"))

    def _to_session(self, request: Request, place: Place) -> Reply:
        origin = self.origins.session(request.host, place.session_id)
        if not origin:
            raise _nothing_here(request)
        return redirect(origin + request.target.decode())

    async def _ensure_owner(self, request: Request, visitor: Visitor, place: Place) -> None:
        owner = await self._routes.owner(place)
        if owner is None or not visitor.may_enter(place, owner):
            raise _nothing_here(request)  # to a stranger the two are one

    # On a session's origin --------------------------------------------------------------------

    async def _on_session_origin(self, request: Request, host: SessionHost) -> Admission | Reply:
        """Nothing of the hub is here, and nothing of any other session.

        The cookie counts only for requests that pages of this origin began, or a person by hand.
        """
        frames = self._frames_at(request.host)
        if (reply := await self.entrance.answer(request, host, frames)) is not None:
            return reply
        asked = read_target(request.target)
        if asked is None or asked.place.kind == "sandbox":
            raise _nothing_here(request)
        if host.session_id not in ("", asked.place.session_id):
            raise _nothing_here(request)
        if not asked.rest:
            return redirect(_with_slash(request.target), status=308)
        origin = request.one(b"origin").decode("latin-1").lower()
        if origin and origin != host.origin and not (asked.key and origin == "null"):
            raise Refused(403, AccessDenied("Pages of other origins may not call a session"))
        if asked.place.kind == "apps" and self._addresses.has_apps_origin:
            return self.entrance.back(request)
        if asked.key:
            return await self._by_key(request, asked)
        is_foreign = request.one(b"sec-fetch-site") in FOREIGN
        if is_foreign and not request.is_page:
            raise Refused(403, AccessDenied("Pages of other origins may not call a session"))
        visitor = None if is_foreign else await self._doorman.in_session(request, asked.place)
        if visitor is None:
            if request.is_page:
                return self.entrance.back(request)
            raise Refused(401, AccessDenied("Open the session from the hub first"))
        if request.is_page and await self._has_token(asked):
            return self.entrance.back(request)  # which takes it out of the address
        return await self._enter(request, asked, visitor)

    async def _enter(self, request: Request, asked: Asked, visitor: Visitor) -> Admission | Reply:
        """For somebody who is known, by whatever counts at this origin."""
        place = asked.place
        await self._ensure_owner(request, visitor, place)
        if place.kind == "apps" and self._addresses.has_apps_origin:
            return redirect(self._addresses.grant(place) + asked.rest.decode())
        target = await self._routes.target(place, is_visit=request.is_visit(asked))
        if place.kind == "apps" and target.is_sandboxed and request.is_page:
            return redirect(self._addresses.keyed(place) + asked.rest.decode())
        added = self._headers_for(request, asked, target)
        if visitor.by == "sign-in" and request.is_page and visitor.sign_in is not None:
            value = self._doorman.for_session(visitor.sign_in, place)
            added = *added, self._session_cookie(place, value)
        # On the hub's own origin a target must not choose which pages may look into its own.
        is_shared = self.origins.is_shared_with_hub
        replaced = {b"cross-origin-opener-policy"} if is_shared else None
        return Admission(
            asked,
            target,
            self._manners(request, asked, target, added, replaced=replaced),
            self._scheme(request),
            authorization=await self._kept(request, visitor, place),
            sign_in=visitor.sign_in.id if visitor.sign_in is not None else b"",
            token_hash=visitor.identity.token_hash,
        )

    def _headers_for(self, request: Request, asked: Asked, target: Target) -> tuple[Header, ...]:
        kind = asked.place.kind
        is_file = kind == "vscode" and _WORKSPACE_FILES in request.target.partition(b"?")[0]
        if kind == "sandbox" or is_file:
            policy = self._policy_at(request.host, "sandbox")
        elif kind == "apps" and target.is_sandboxed:
            policy = self._policy_at(request.host, _SANDBOX)
        else:
            policy = self._policy_at(request.host)
        return ((b"content-security-policy", policy),)

    # With a key -------------------------------------------------------------------------------

    async def _by_key(self, request: Request, asked: Asked) -> Admission | Reply:
        if not self._addresses.is_key(asked.place, asked.key):
            return self._without_key(request, asked)
        if await self._routes.owner(asked.place) is None:
            raise _nothing_here(request)
        is_opaque = request.one(b"origin") == b"null"
        cors: tuple[Header, ...] = ()
        if is_opaque:
            cors = _open_to_opaque(request)
            if request.method == b"OPTIONS" and request.one(b"access-control-request-method"):
                return Reply(204, cors)
        target = await self._routes.target(asked.place, is_visit=request.is_visit(asked))
        added = (
            (b"content-security-policy", self._policy_at(request.host, _SANDBOX)),
            (b"referrer-policy", b"no-referrer"),
            *cors,
        )
        scheme = self._scheme(request)
        return Admission(
            asked,
            target,
            self._manners(request, asked, target, added, replaced={b"referrer-policy"}, cors=True),
            scheme,
            authorization=await self._foreign(request),
            origin=f"{scheme}://{request.host}".encode() if is_opaque else b"",
        )

    def _without_key(self, request: Request, asked: Asked) -> Reply:
        """The key of another hub or time: whoever signs in gets the right one."""
        if request.is_page:
            return redirect(asked.place.path + asked.rest.decode())
        raise Refused(401, AccessDenied(f"The key in {asked.place.path}/~… is not good"))

    # Signing in -------------------------------------------------------------------------------

    async def _swap_token(self, request: Request, asked: Asked) -> Reply | None:
        """A token in the address becomes a cookie, and leaves the address.

        None for a word that is no token. One that does not open this place goes no further either:
        a session's program must not learn it.
        """
        if _TOKEN_IN_QUERY not in asked.rest or asked.place.kind == "sandbox":
            return None
        path, _, query = asked.rest.partition(b"?")
        pairs = parse_qsl(query.decode(), keep_blank_values=True)
        token = next((value for name, value in pairs if name == "tkn"), "")
        identity = await self._doorman.token(token)
        if identity is None:
            return None
        await self._ensure_owner(request, Visitor(identity, "session"), asked.place)
        if refused := self.refuse_plain(request):
            return refused
        sign_in, _ = self._doorman.sign_in(token)
        left = urlencode([pair for pair in pairs if pair[0] != "tkn"])
        location = asked.prefix + path.decode() + (f"?{left}" if left else "")
        if not self.origins.is_shared_with_hub:
            return self.entrance.lead(request, sign_in, asked.place, location)
        value = self._doorman.for_session(sign_in, asked.place)
        return redirect(location, self._session_cookie(asked.place, value))

    async def _has_token(self, asked: Asked) -> bool:
        if _TOKEN_IN_QUERY not in asked.rest:
            return False
        pairs = parse_qsl(asked.rest.partition(b"?")[2].decode(), keep_blank_values=True)
        token = next((value for name, value in pairs if name == "tkn"), "")
        return await self._doorman.token(token) is not None

    def refuse_plain(self, request: Request) -> Reply | None:
        """A page that says why nobody can sign in here; None where a cookie would be safe."""
        if self._addresses.is_secure or is_loopback(request.host):
            return None
        return page(
            403,
            "Signing in needs TLS",
            "<p>Over plain http anybody on the way could take your session. Serve the hub with TLS "
            "(<code>bascule nginx</code>) and set <code>public_url</code> to its https address, or "
            "open it on the machine it runs on.</p>",
        )

    # On the apps' own origin ------------------------------------------------------------------

    async def _on_apps_origin(self, request: Request) -> Admission | Reply:
        """Nothing of the hub is here: apps alone, each behind its key, then behind a cookie."""
        asked = self._addresses.app_of_host(request.host, request.target)
        if asked is None:
            asked = read_target(request.target)
        if asked is None or asked.place.kind != "apps":
            raise _nothing_here(request)
        if not asked.rest:
            return redirect(_with_slash(request.target), status=308)
        place = asked.place
        if asked.key:
            return self._grant(request, asked)
        if not self._has_key(request, asked):
            if request.is_page:
                return redirect(self._hub_of_apps() + place.path + asked.rest.decode())
            raise Refused(401, AccessDenied("Open the app from the hub first"))
        if not self._is_own_page(request):
            raise Refused(403, AccessDenied("Pages of other origins may not call this app"))
        if await self._routes.owner(place) is None:
            raise _nothing_here(request)
        target = await self._routes.target(place, is_visit=request.is_visit(asked))
        framing = f"frame-ancestors {self._frames} {self._hub_of_apps()}".encode()
        added: tuple[Header, ...] = ((b"content-security-policy", framing),)
        return Admission(
            asked,
            target,
            self._manners(request, asked, target, added),
            self._addresses.apps_origin.partition(":")[0],
            authorization=await self._foreign(request),
        )

    def _hub_of_apps(self) -> str:
        """The origin of the hub's page for whoever is at the apps' origin."""
        return self.origins.page(host_of(self._addresses.hub()))

    def _has_key(self, request: Request, asked: Asked) -> bool:
        name = app_cookie(asked.prefix)
        given = [v for h in request.all(b"cookie") for n, v in values_of(h) if n == name]
        return any(self._addresses.is_key(asked.place, v.decode("latin-1")) for v in given)

    def _grant(self, request: Request, asked: Asked) -> Reply:
        """The key in the path becomes a cookie for the path without it."""
        if not self._addresses.is_key(asked.place, asked.key):
            raise _nothing_here(request)
        value, path = asked.key.encode(), asked.prefix.removesuffix(f"/~{asked.key}")
        name = app_cookie(path)
        attributes = b"; Path=%s/; Max-Age=%d; HttpOnly; Secure; " % (path.encode(), LIFETIME)
        cookie = name + b"=" + value + attributes + self._same_site
        # Two slashes at the beginning would be the address of another host.
        return redirect(f"{path}/{asked.rest.decode().lstrip('/')}", (b"set-cookie", cookie))

    def _is_own_page(self, request: Request) -> bool:
        origin = request.one(b"origin").decode("latin-1").lower()
        return not origin or origin.partition("://")[2] == request.host

    # ------------------------------------------------------------------------------------------

    @property
    def _same_site(self) -> bytes:
        # A frame on another site gets cookies only so, and one jar for each site that frames.
        return b"SameSite=None; Partitioned" if self._may_be_framed else b"SameSite=Lax"

    def _session_cookie(self, place: Place, value: str) -> Header:
        attributes = b"; Path=/; Max-Age=%d; HttpOnly; Secure; " % LIFETIME
        name = session_cookie(place.session_id)
        return b"set-cookie", name + b"=" + value.encode() + attributes + self._same_site

    def _scheme(self, request: Request) -> str:
        return self.origins.page(request.host).partition(":")[0]

    def _frames_at(self, host: str) -> str:
        """Who may frame what is at `host`: its own pages, the hub's, and those that were named."""
        return f"{self._frames} {self.origins.page(host)}"

    def _policy(self, host: str, sandbox: str = "") -> bytes:
        framing = f"frame-ancestors {self._frames_at(host)}"
        return (f"{sandbox}; {framing}" if sandbox else framing).encode()

    def _manners(
        self,
        request: Request,
        asked: Asked,
        target: Target,
        added: tuple[Header, ...],
        *,
        replaced: set[bytes] | None = None,
        cors: bool = False,
    ) -> Manners:
        return Manners(
            prefix=asked.prefix,
            is_stripped=not target.keeps_prefix,
            host=request.host,
            added=added,
            replaced=frozenset(replaced or ()),
            drops_cross_origin=cors,
        )

    async def _kept(self, request: Request, visitor: Visitor, place: Place) -> bytes:
        return (
            await self._foreign(request) if visitor.by != "bearer" and place.kind == "apps" else b""
        )

    async def _foreign(self, request: Request) -> bytes:
        """An app's own bearer token goes through to it; one of the hub's never does."""
        given = request.one(b"authorization")
        kind, _, token = given.decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or token.strip().startswith("bsc_"):
            return b""
        return b"" if await self._doorman.token(token.strip()) is not None else given

    def _ensure_welcome(self, request: Request, *, is_keyed: bool) -> None:
        host, origin = request.one(b"host"), request.one(b"origin")
        if is_keyed and origin == b"null":
            origin = b""
        if not origin and host in self._welcome:
            return
        self._names.ensure_welcome({b"host": host} | ({b"origin": origin} if origin else {}))
        if len(self._welcome) < _MOST_HOSTS:
            self._welcome.add(host)

    def _ensure_size(self, request: Request) -> None:
        if int(request.one(b"content-length") or 0) > self._max_upload:
            limit = self._max_upload
            raise Refused(
                413, MessageTooLarge(f"The body is larger than {limit} bytes", limit=limit)
            )


def _nothing_here(request: Request) -> Refused:
    path = request.target.partition(b"?")[0].decode("latin-1")[:200]
    return Refused(404, NoSuchSession(f"There is nothing of yours at {path}"))


def _open_to_opaque(request: Request) -> tuple[Header, ...]:
    """Who knows the key may read: to the browser an app's own page is a stranger to it."""
    wanted = request.one(b"access-control-request-headers")
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
