"""Tells VS Code windows when a fork is merged into their folder, so that they show its changes for
review."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import socketio

from .registry import Host, Registry
from .socketio_server import WINDOW

logger = logging.getLogger(__name__)

_PREPARE_TIMEOUT: Final = 15.0
"""Maximum seconds to wait for a window, which reads its files before it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTarget:
    """The session that gets the changes."""

    session_id: str
    owner: str
    folder: tuple[int, int] | None = None
    """Device and inode of the workspace if it is a folder of this machine. Other windows of its
    owner may have it open too."""


class MergeNotices:
    """Sends `merge.began` and `merge.ended` to all extension hosts that may show the workspace."""

    def __init__(self, server: socketio.AsyncServer, registry: Registry) -> None:
        self._server = server
        self._registry = registry

    @asynccontextmanager
    async def announced(self, target: MergeTarget, agent: str) -> AsyncIterator[None]:
        """Announce the merge that the block does. The block starts when all windows have read their
        files, or after a timeout: a merge must not depend on windows."""
        merge: dict[str, Any] = {"id": str(uuid4()), "agent": agent}
        hosts = self._hosts(target)
        await asyncio.gather(*(self._begin(host, merge, notice) for host, notice in hosts))
        try:
            yield
        finally:
            for host, _ in hosts:
                if host.is_connected:
                    await self._server.emit(
                        "merge.ended", {"id": merge["id"]}, to=host.sid, namespace=WINDOW
                    )

    def _hosts(self, target: MergeTarget) -> Sequence[tuple[Host, Mapping[str, Any]]]:
        """The hosts to notify, each with the data by which it recognises the folder."""
        found: list[tuple[Host, Mapping[str, Any]]] = []
        for window in self._registry.windows():
            notice: dict[str, Any] = {}
            if window.session_id != target.session_id:
                if target.folder is None or window.session_id or window.owner != target.owner:
                    continue
                # As text: an inode may be above the largest exact number of JavaScript.
                device, inode = map(str, target.folder)
                notice = {"folder": {"device": device, "inode": inode}}
            hosts = self._registry.connected_hosts(window.id)
            found += [(each, notice) for each in hosts if each.reviews_merges and each.is_healthy]
        return found

    async def _begin(self, host: Host, merge: Mapping[str, Any], notice: Mapping[str, Any]) -> None:
        try:
            await self._server.call(
                "merge.began",
                {**merge, **notice},
                to=host.sid,
                namespace=WINDOW,
                timeout=_PREPARE_TIMEOUT,
            )
        except socketio.exceptions.TimeoutError:
            logger.warning(
                "window %s did not answer, so it may not show a merge for review", host.window_id
            )
