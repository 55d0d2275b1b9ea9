"""The egress proxies of one spawner's sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from bascule.core.contracts import Closable
from bascule.core.sessions import Egress, SessionId
from bascule.runtime.spawn.local.directories import EGRESS_SOCKET, egress_dir

from .networks import own_addresses
from .proxy import EgressProxy, Resolve
from .rules import EgressRules


class EgressProxies(Closable):
    """Proxies that run in the hub; while the hub is down, sessions reach no network."""

    def __init__(self, run_dir: Path, resolve: Resolve | None) -> None:
        self._run_dir = run_dir
        self._resolve = resolve
        self._open: dict[SessionId, EgressProxy] = {}

    async def open(self, session_id: SessionId, egress: Egress) -> None:
        """Open the session's proxy, if its egress mode is `proxy` and the proxy is not open yet."""
        if egress.mode != "proxy" or session_id in self._open:
            return
        rules = EgressRules(egress.domains, own_addresses=await asyncio.to_thread(own_addresses))
        path = egress_dir(self._run_dir, session_id) / EGRESS_SOCKET
        proxy = self._open[session_id] = EgressProxy(path, rules, self._resolve)
        await proxy.open()

    async def close(self, session_id: SessionId) -> None:
        if (proxy := self._open.pop(session_id, None)) is not None:
            await proxy.aclose()
            with suppress(OSError):
                await asyncio.to_thread(egress_dir(self._run_dir, session_id).rmdir)

    async def close_others(self, session_ids: Collection[SessionId]) -> None:
        """Close the proxies of all sessions except `session_ids`."""
        for session_id in set(self._open) - set(session_ids):
            await self.close(session_id)

    async def aclose(self) -> None:
        """Close all proxies. Their directories stay: the next hub creates its sockets there, where
        sandboxes see them."""
        while self._open:
            _, proxy = self._open.popitem()
            await proxy.aclose()
