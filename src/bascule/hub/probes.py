"""Health checks for orchestrators and load balancers: is the hub alive, and is it ready?

Both paths need no token and accept every `Host` and `Origin`, because a kubelet or load balancer
calls the hub by its IP address. Their answers contain only the fixed names of the checks. A name of
a session or an app still belongs to that session: the proxy takes its requests before this app.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bascule.core.errors import BasculeError
from bascule.serving.asgi import Header, Receive, Scope, Send, send_whole
from bascule.wire import to_json

logger = logging.getLogger(__name__)

LIVE: Final = "/livez"
READY: Final = "/readyz"
PROBE_PATHS: Final = frozenset({LIVE, READY})

_DATABASE_TIMEOUT: Final = 2.0
"""Seconds after which a database that has not answered counts as not ready."""
_QUERY_TIMEOUT: Final = 10.0
"""Seconds after which a query without an answer is given up, and the next call sends a new one."""
_RESULT_LIFETIME: Final = 1.0
"""Seconds for which a result of the database is used again. Anybody can call these paths, so calls
must not cost a query each."""
_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
)


class Readiness:
    """Whether the hub can do its work: the checks behind `/readyz`."""

    def __init__(
        self,
        *,
        check_database: Callable[[], Awaitable[None]],
        has_usable_spawner: Callable[[], bool],
        is_stopping: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`check_database` raises an error unless the database answers and is migrated."""
        self._check_database = check_database
        self._has_usable_spawner = has_usable_spawner
        self._is_stopping = is_stopping
        self._clock = clock
        self._checking: asyncio.Task[bool] | None = None
        self._checked_at = 0.0
        self._was_ready = True

    async def checks(self) -> Mapping[str, bool]:
        """The result of every check, by its name."""
        is_running = not self._is_stopping()
        checks = {
            "running": is_running,  # the hub closes the database when it stops
            "database": is_running and await self._has_database(),
            "spawners": self._has_usable_spawner(),
        }
        self._log_change(checks)
        return checks

    async def aclose(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)

    async def _has_database(self) -> bool:
        """Whether the database answers in time. Callers share one query."""
        is_old = self._clock() - self._checked_at > _RESULT_LIFETIME
        if self._checking is None or (self._checking.done() and is_old):
            self._checking = asyncio.create_task(self._query_database())
        await asyncio.wait({self._checking}, timeout=_DATABASE_TIMEOUT)
        is_answered = self._checking.done() and not self._checking.cancelled()
        return is_answered and self._checking.result()

    async def _query_database(self) -> bool:
        try:
            async with asyncio.timeout(_QUERY_TIMEOUT):
                await self._check_database()
        except BasculeError as error:
            logger.warning("%s", error.message)
            return False
        except TimeoutError:
            logger.warning("the hub's database does not answer for %g seconds", _QUERY_TIMEOUT)
            return False
        finally:
            self._checked_at = self._clock()
        return True

    def _log_change(self, checks: Mapping[str, bool]) -> None:
        is_ready = all(checks.values())
        if is_ready != self._was_ready:
            failed = ", ".join(name for name, is_good in checks.items() if not is_good)
            if is_ready:
                logger.info("the hub is ready again")
            else:
                logger.warning("the hub is not ready: %s", failed)
        self._was_ready = is_ready


class Probes:
    """The ASGI app for `PROBE_PATHS`."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["method"] not in ("GET", "HEAD"):
            await send_whole(send, 405, [(b"allow", b"GET, HEAD")], b"")
            return
        checks = {} if scope["path"] == LIVE else await self._readiness.checks()
        failed = [name for name, is_good in checks.items() if not is_good]
        answer = {"status": "failed" if failed else "ok", "failed": failed}
        body = b"" if scope["method"] == "HEAD" else to_json(answer)
        await send_whole(send, 503 if failed else 200, _HEADERS, body)
