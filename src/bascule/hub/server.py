"""The hub: one process and one port for REST, Socket.IO and the reverse proxy to sessions."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bascule.core.contracts import Spawner, Startable, WindowLink
from bascule.core.errors import InvalidSetting, StorageFailed
from bascule.core.extras import require_extra
from bascule.core.sessions import SessionId
from bascule.core.tracing import Tracing
from bascule.serving.asgi import App, Receive, Scope, Send
from bascule.serving.listener import Listener, stop_signals
from bascule.serving.sockets import bound_pair, local_url, loopback_twin

from .accounts.api import AccountsApi
from .accounts.audit_api import AuditApi
from .accounts.audit_log import AuditLog
from .accounts.oidc_sign_in import OidcSignIn
from .accounts.users import Users
from .agents.api import AgentsApi
from .api import Api, identity_of, require_scope
from .approvals_api import ApprovalsApi
from .changes import HubChanges
from .demo.api import DemoApi
from .demo.demos import Demos
from .event_loop_lag import EventLoopLag
from .guard import HubGuard
from .identity import Identity
from .inprocess_windows import InProcessWindows
from .leases import TokenLeases
from .metrics import HubMetrics
from .mounts import MakeMount, mounted, path_predicate, path_rules, resolve_by_mounts, with_hosts
from .one_time_codes import SignInCodes
from .probes import PROBE_PATHS, Probes, Readiness
from .proxy import HubAddresses, Proxy, ProxyRoutes, SessionEndpoint, authorize
from .proxy.authentication import TokenAuthenticator
from .proxy.client_connection import ClientConnection
from .proxy.signed_cookies import SignedCookies, secret_of
from .records.api import TimelinesApi
from .records.records import Records
from .registry import Registry
from .reviews_api import ReviewsApi
from .sessions.api import SessionsApi
from .sessions.forks import SessionForks
from .sessions.forks_api import ForksApi
from .sessions.hub_sockets import hub_socket_app
from .sessions.routes import SessionRoutes
from .sessions.service import Sessions
from .sessions.session_runtime import SessionRuntime
from .sessions.windows import SessionWindows
from .settings import HubSettings
from .sign_in import PATHS, SignInPages
from .sockets import Sockets
from .state_reader import StateReader
from .switchboard import Switchboard
from .tokens import Tokens
from .traced_requests import traced
from .web.access import PageKeys, by_token_or_page
from .web.api import MakeChecks, WebApi
from .web.feed import Feed
from .web.page import WebPage, with_page_paths

if TYPE_CHECKING:
    from .database.store import SqlStore

logger = logging.getLogger(__name__)

_SOCKETIO_PATH = "/socket.io"
_FRAME_OVERHEAD = 1 << 16
"""Bytes that a frame may have in addition to its message."""


class Hub(Startable):
    """Connects windows and runtimes, from `start` until `aclose`.

    Stopping fails all pending actions with `hub.unreachable`. The windows finish these actions and
    keep the observations for callers that send the same action again.
    """

    def __init__(
        self,
        settings: HubSettings,
        *,
        sock: socket.socket | None = None,
        routes: ProxyRoutes | None = None,
        spawners: Mapping[str, Spawner] | None = None,
        mounts: Sequence[MakeMount] = (),
        checks: MakeChecks = tuple,
        tracing: Tracing | None = None,
    ) -> None:
        """`checks` examines this machine for the page, as `bascule doctor` does. `tracing` makes
        spans of actions."""
        _ensure_token(settings.admin_token)
        self._settings = settings
        self._given_socket = sock
        self._open_sockets: list[socket.socket] = [] if sock is None else [sock]
        self._port = settings.port
        self._metrics = HubMetrics()
        self._store = _store(settings, self._metrics)
        self.tokens = Tokens(self._store, settings.admin_token)
        self.leases = TokenLeases(self.tokens)
        audit = AuditLog(self._store)
        self.users = Users(settings, self._store, self.leases, audit)
        self._registry = Registry()
        self._switchboard = Switchboard(limit=settings.max_under_way, on_end=self._on_action_ended)
        changes = HubChanges()
        self._records = Records(settings)
        self._sockets = Sockets(
            settings,
            self._store,
            registry=self._registry,
            switchboard=self._switchboard,
            records=self._records,
            changes=changes,
            leases=self.leases,
            tracing=tracing,
        )
        sign_in_codes = SignInCodes(settings.sign_in_lifetime)
        self._api = Api(
            settings,
            store=self._store,
            audit=audit,
            tokens=self.tokens,
            leases=self.leases,
            registry=self._registry,
            sockets=self._sockets,
            metrics=self._metrics_text,
            sign_in_codes=sign_in_codes,
            url=lambda: self.url,
        )
        self.addresses = HubAddresses(
            lambda: self.url,
            secret_of(settings.admin_token, "apps"),
            settings.apps_origin,
            is_secure=settings.public_url.startswith("https:"),
        )
        authenticator = TokenAuthenticator(
            self.tokens, SignedCookies(secret_of(settings.admin_token, "sign-in"))
        )
        joined = _join(self._sockets.app, self._api.app)
        self.sessions = Sessions(
            settings,
            self._store,
            spawners or {},
            make_hub_app=partial(hub_socket_app, joined, settings),
            changes=changes,
            leases=self.leases,
            approvals=self._sockets.approvals,
            records=self._records,
            windows=SessionWindows(self._sockets, self._registry),
            base_path=lambda session_id, n: self.addresses.base_path(
                SessionEndpoint("apps", session_id, n)
            ),
            on_end=self._session_ended,
            on_unshared=lambda session_id: self.proxy.end_session(session_id),
            settings_for=self.users.settings_for,
            metrics=self._metrics,
            tracing=tracing,
        )
        self._sockets.wake = self.sessions.wake
        sessions_api = SessionsApi(self.sessions, self.addresses, identity_of=identity_of)
        sessions_api.add_routes(self._api.app, require_scope)
        forks = SessionForks(self.sessions)
        forks_api = ForksApi(forks, identity_of=identity_of, describe=sessions_api.describe)
        forks_api.add_routes(self._api.app, require_scope)
        AccountsApi(self.users, self.sessions.sharing, identity_of=identity_of).add_routes(
            self._api.app, require_scope
        )
        AuditApi(self._store).add_routes(self._api.app, require_scope)
        WebApi(self.sessions, checks).add_routes(self._api.app, require_scope)
        ApprovalsApi(self._sockets, self.sessions).add_routes(self._api.app, require_scope)
        self._agents_api = AgentsApi(
            self._sockets,
            self.sessions,
            approvals=self._sockets.approvals,
            records=self._records,
        )
        self._agents_api.add_routes(self._api.app, require_scope)
        ReviewsApi(self._sockets.reviews, self._sockets).add_routes(self._api.app, require_scope)
        TimelinesApi(
            self.sessions,
            records=self._records,
            timelines=self._sockets.timelines,
            registry=self._registry,
            identity_of=identity_of,
        ).add_routes(self._api.app, require_scope)
        self.demos = Demos(self.sessions, changes, sockets=self._sockets, link=self.windows)
        demo_api = DemoApi(self.demos, self.addresses)
        demo_api.add_routes(self._api.app, require_scope)
        self._mounts = tuple(make(self) for make in mounts)
        self.proxy = Proxy(
            settings,
            self.addresses,
            authenticator=authenticator,
            routes=routes or SessionRoutes(self.sessions),
            resolve_mounted=resolve_by_mounts(self._mounts),
            leases=self.leases,
            on_program=self.sessions.program_starts,
            tracing=tracing,
        )
        self._state = StateReader(
            registry=self._registry,
            sockets=self._sockets,
            switchboard=self._switchboard,
            sessions=self.sessions,
            proxy=self.proxy,
            records=self._records,
            store=self._store,
        )
        self._lag = EventLoopLag(self._metrics.count_lag)
        keys = PageKeys(secret_of(settings.admin_token, "page"))
        self._feed = Feed(
            self._sockets,
            authenticator=authenticator,
            keys=keys,
            sessions=self.sessions,
            registry=self._registry,
            changes=changes,
            demos=self.demos,
            describe=sessions_api.describe,
            describe_demo=demo_api.describe,
        )
        guarded = HubGuard(
            traced(mounted(joined, self._mounts), tracing),
            settings,
            by_token_or_page(self.tokens, authenticator, keys),
            needs_no_token=path_predicate(self._mounts, lambda mount: mount.needs_no_token),
            takes_files=path_predicate(self._mounts, lambda mount: mount.takes_files),
            rules_at=path_rules(self._mounts),
            leases=self.leases,
        )
        oidc = None
        if settings.oidc is not None:
            secret = secret_of(settings.admin_token, "oidc")
            oidc = OidcSignIn(settings.oidc, self.users, self.tokens, audit, secret=secret)
        sign_in = SignInPages(
            settings,
            self.proxy,
            authenticator,
            sign_in_codes,
            on_sign_out=self._feed.end_sign_in,
            tokens=self.tokens,
            leases=self.leases,
            metrics=self._metrics,
            audit=audit,
            oidc=oidc,
        )
        open_to_all: dict[str, App] = dict.fromkeys(PATHS, sign_in)
        open_to_all[authorize.PATH] = authorize.Authorize(
            self.proxy.access_control, settings.run_dir
        )
        self._readiness = Readiness(
            check_database=self._store.check,
            has_usable_spawner=lambda: self.sessions.can_start_sandboxes,
            is_stopping=lambda: self._closed,
        )
        open_to_all |= dict.fromkeys(PROBE_PATHS, Probes(self._readiness))
        web_page = WebPage(
            settings, self.proxy, authenticator, keys, owner_of=self.sessions.owner_of
        )
        self._listener = Listener(
            with_hosts(
                _with_open_paths(with_page_paths(guarded, web_page), open_to_all), self._mounts
            ),
            settings,
            connection=partial(ClientConnection, proxy=self.proxy),
            max_frame=settings.message_bytes + _FRAME_OVERHEAD,
            ping_interval=None,  # Engine.IO sends its own pings
        )
        self._started = False
        self._closed = False

    @property
    def settings(self) -> HubSettings:
        return self._settings

    @property
    def url(self) -> str:
        """The public URL of the hub; known once started."""
        return self._settings.public_url.rstrip("/") or self.local_url

    @property
    def local_url(self) -> str:
        """The URL for programs on this machine; known once started."""
        return local_url(self._settings.host, self._port)

    def windows(self, identity: Identity) -> WindowLink:
        """The hub's windows for code in this process that acts as `identity`."""
        return InProcessWindows(self._sockets, self._registry, identity)

    def session(self, identity: Identity, session_id: str) -> SessionRuntime:
        """A session as a runtime, for code in this process that acts as `identity`."""
        return SessionRuntime(self.sessions, identity, SessionId(session_id))

    async def start(self) -> None:
        """Start to listen. Raises `InvalidSetting` or `StorageFailed` if the port, the state
        directory or the database cannot be used."""
        self._open_sockets = await asyncio.to_thread(self._prepare)
        self._port = self._open_sockets[0].getsockname()[1]
        await self._store.open()
        await self.sessions.open()
        self.leases.start()
        self._lag.start()
        await self._listener.start(*self._open_sockets)
        self._started = True
        logger.info("the hub answers at %s", self.url)
        self._warn_of_origins()

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._lag.stop()
        await self.leases.aclose()
        await self.demos.aclose()
        await self._feed.aclose()
        await self._sockets.aclose()
        self.sessions.finish_streams()
        self._agents_api.finish()
        for mount in self._mounts:
            await mount.aclose()
        await self._listener.stop()
        self.proxy.close()
        await self.sessions.aclose()
        await self._records.aclose()
        await self._readiness.aclose()
        await self._store.aclose()
        for sock in self._open_sockets:
            sock.close()
        if self._started:
            logger.info("the hub has stopped")

    def _warn_of_origins(self) -> None:
        origins = self.proxy.access_control.origins
        if origins.lacks_sessions_origin:
            logger.warning(
                "sessions_origin is not set: browsers elsewhere cannot open VS Code and apps of "
                "sessions; see docs/guides/nginx.md"
            )
        elif risk := origins.remaining_risk:
            logger.warning("%s; see docs/security.md", risk)

    def _prepare(self) -> list[socket.socket]:
        """Create the state directory and bind the sockets. Blocks, so it runs in a thread."""
        if self._settings.oidc is not None:
            require_extra("oidc")
        if self._settings.state_dir is not None:
            _ensure_directory(self._settings.state_dir)
        if self._given_socket is None:
            socks = bound_pair(self._settings.host, self._settings.port, who="The hub")
        else:
            twin = loopback_twin(self._given_socket)
            socks = [self._given_socket, *([twin] if twin is not None else [])]
        for sock in socks:
            sock.setblocking(False)
        return socks

    def _session_ended(self, session_id: SessionId) -> None:
        self.proxy.end_session(session_id)
        self._sockets.forget_session(session_id)

    async def _metrics_text(self) -> bytes:
        state = await self._state.read()
        return await asyncio.to_thread(self._metrics.text, state)  # blocks: it reads /proc

    def _on_action_ended(self, kind: str, outcome: str, seconds: float) -> None:
        self._metrics.count_action(kind, outcome, seconds)
        logger.debug("%s ended with %s after %.3f s", kind, outcome, seconds)


async def serve(
    settings: HubSettings,
    *,
    on_started: Callable[[Hub], None] | None = None,
    spawners: Mapping[str, Spawner] | None = None,
    mounts: Sequence[MakeMount] = (),
    checks: MakeChecks = tuple,
    tracing: Tracing | None = None,
) -> None:
    """Run a hub until SIGTERM or SIGINT, then stop it cleanly."""
    with stop_signals() as stopped:
        async with Hub(
            settings, spawners=spawners, mounts=mounts, checks=checks, tracing=tracing
        ) as hub:
            if on_started is not None:
                on_started(hub)
            await stopped.wait()


def _store(settings: HubSettings, metrics: HubMetrics) -> SqlStore:
    from .database.address import database_address
    from .database.store import SqlStore  # imported late: SQLAlchemy is slow to load

    address = database_address(settings.database_url, settings.state_dir)
    return SqlStore(address, on_transaction=metrics.count_database)


def _join(sockets: App, api: App) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_socket = scope["path"] == _SOCKETIO_PATH or scope["path"].startswith(
            f"{_SOCKETIO_PATH}/"
        )
        await (sockets if is_socket else api)(scope, receive, send)

    return app


def _with_open_paths(guarded: App, apps: dict[str, App]) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await apps.get(scope["path"], guarded)(scope, receive, send)

    return app


def _ensure_token(token: str) -> None:
    if not token:
        raise InvalidSetting("The hub does not start without an admin token")
    if not (token.isascii() and token.isprintable()) or token != token.strip():
        raise InvalidSetting("The admin token must be printable ASCII without spaces around it")


def _ensure_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailed(f"The hub cannot store its state in {path}: {error}") from error
