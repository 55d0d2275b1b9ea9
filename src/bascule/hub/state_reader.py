"""Reads the state of a hub for its metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol, get_args

from bascule.core.errors import BasculeError
from bascule.core.sessions import SessionState

from .identity import Scope
from .metrics import HubState
from .proxy import Proxy
from .records.records import Records
from .registry import Registry
from .sessions.service import Sessions
from .sockets import Sockets
from .switchboard import Switchboard

logger = logging.getLogger(__name__)

_WINDOW_STATUSES: Final = ("healthy", "unhealthy", "gone")
_SESSION_STATES: Final[tuple[SessionState, ...]] = get_args(SessionState)
_DATABASE_TIMEOUT: Final = 2.0
"""Seconds after which the metrics are answered without those that need the database."""


class MeasuredStore(Protocol):
    """What the metrics need from the store."""

    async def count_tokens(self, *, now: float) -> Mapping[Scope, int]: ...

    def connection_counts(self) -> Mapping[str, int]: ...


class StateReader:
    """Collects a `HubState`. It answers also while the database does not."""

    def __init__(
        self,
        *,
        registry: Registry,
        sockets: Sockets,
        switchboard: Switchboard,
        sessions: Sessions,
        proxy: Proxy,
        records: Records,
        store: MeasuredStore,
    ) -> None:
        self._registry = registry
        self._sockets = sockets
        self._switchboard = switchboard
        self._sessions = sessions
        self._proxy = proxy
        self._records = records
        self._store = store

    async def read(self) -> HubState:
        tokens = await self._tokens()
        windows = self._registry.status_counts()
        sessions: dict[str, int] = dict.fromkeys(_SESSION_STATES, 0)
        for row in self._sessions.all_rows():
            sessions[row.state] += 1
        traffic = self._proxy.traffic
        tunnels = sum(each.is_tunnel for each in self._proxy.live)
        return HubState(
            windows={status: windows.get(status, 0) for status in _WINDOW_STATUSES},
            runtimes=self._sockets.runtimes,
            pending_actions=len(self._switchboard),
            sessions=sessions,
            usable_spawners=self._sessions.usable_spawners(),
            open_questions=self._sockets.approvals.counts(),
            proxy_connections={"tunnel": tunnels, "request": len(self._proxy.live) - tunnels},
            proxy_requests=dict(traffic.requests),
            proxy_bytes={"to_client": traffic.to_clients, "to_session": traffic.to_sessions},
            database_connections=self._store.connection_counts(),
            has_database=tokens is not None,
            tokens={str(scope): count for scope, count in (tokens or {}).items()},
            records_bytes=await self._records.disk_bytes(),
        )

    async def _tokens(self) -> Mapping[Scope, int] | None:
        """Valid tokens by scope; None if the database does not answer."""
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT):
                return await self._store.count_tokens(now=time.time())
        except (BasculeError, TimeoutError) as error:
            logger.warning("the metrics lack the tokens: %s", str(error) or "no answer in time")
            return None
