"""Health checks of windows: a probe that only a responsive editor answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from bascule.core.contracts import Closable

from .registry import Host, Registry
from .settings import HubSettings

logger = logging.getLogger(__name__)

OnHost = Callable[[Host], Awaitable[None]]


class Health(Closable):
    """Watches hosts from their registration until the hub forgets them.

    `probe` checks a host's editor. `on_change` is awaited when a host becomes unhealthy or healthy
    again. `on_forgotten` is awaited after a host was removed from the registry: it was unhealthy
    for too long, or another host of its window is healthy.
    """

    def __init__(
        self,
        settings: HubSettings,
        registry: Registry,
        *,
        probe: Callable[[Host], Awaitable[bool]],
        on_change: OnHost,
        on_forgotten: OnHost,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._probe = probe
        self._on_change = on_change
        self._on_forgotten = on_forgotten
        self._tasks: dict[Host, asyncio.Task[None]] = {}
        self._is_closed = False

    def watch(self, host: Host) -> None:
        """Watch a host that has just registered."""
        self._replace(host, self._watch)

    def socket_closed(self, host: Host) -> None:
        """Wait some time for a host whose socket has closed, then forget it."""
        self._replace(host, self._wait_for_return)

    def stop_watching(self, host: Host) -> None:
        """Stop watching the host."""
        task = self._tasks.pop(host, None)
        if task is not None:
            task.cancel()

    async def aclose(self) -> None:
        self._is_closed = True  # ignore sockets that close while the hub stops
        tasks = list(self._tasks.values())
        for host in list(self._tasks):
            self.stop_watching(host)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _replace(self, host: Host, work: OnHost) -> None:
        self.stop_watching(host)
        if not self._is_closed:
            self._tasks[host] = asyncio.create_task(_with_logging(work, host))

    async def _watch(self, host: Host) -> None:
        loop = asyncio.get_running_loop()
        last_answer = loop.time()
        while True:
            was_healthy = host.is_healthy
            if await self._probe(host):
                self._registry.probe_answered(host)
                last_answer = loop.time()
            else:
                self._registry.probe_missed(host)
            if host.is_healthy != was_healthy:
                logger.info(
                    "the editor of window %s (host %s) is %s",
                    host.window_id,
                    host.id,
                    "back" if host.is_healthy else "not answering",
                )
                await self._on_change(host)
            is_silent_too_long = loop.time() - last_answer > self._settings.forget_after
            if is_silent_too_long or self._registry.is_superseded(host):
                await self._forget(host)
                return
            if not (host.is_healthy and host.misses):  # after a first miss, probe again at once
                await asyncio.sleep(self._settings.heartbeat)

    async def _wait_for_return(self, host: Host) -> None:
        await asyncio.sleep(self._settings.forget_after)
        await self._forget(host)

    async def _forget(self, host: Host) -> None:
        self._registry.forget(host)
        self._tasks.pop(host, None)
        logger.info("host %s of window %s is forgotten", host.id, host.window_id)
        await self._on_forgotten(host)


async def _with_logging(work: OnHost, host: Host) -> None:
    try:
        await work(host)
    except Exception:
        logger.exception("watching a window failed; it is no longer watched")
        raise
