"""Connections and running actions of each token, so that they end when the token does.

A token that is revoked or expires ends all of it at once. `bascule token --revoke` writes to the
database from another process and has no way to tell this one, so tokens in use are looked up again
every second (`_INTERVAL`); the hub's own `DELETE /api/tokens/NAME` does not wait for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import AccessDenied, BasculeError

from .identity import Identity
from .tokens import Tokens

logger = logging.getLogger(__name__)

_INTERVAL: Final = 1.0

OnEnd = Callable[[], None]
"""Closes a connection or stops an action. It must not block or raise."""


class TokenLeases(Closable):
    """Every lasting connection and action, by the hash of the token that admitted it.

    `TokenLeases()` without tokens holds whatever it is given and ends nothing by itself.
    """

    def __init__(self, tokens: Tokens | None = None, *, interval: float = _INTERVAL) -> None:
        self._tokens = tokens
        self._interval = interval
        self._held: dict[str, set[_Lease]] = {}
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking for revoked and expired tokens."""
        self._watching = asyncio.create_task(self._watch())

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    @contextmanager
    def hold(self, token_hash: str, on_end: OnEnd) -> Iterator[None]:
        """Call `on_end`, at most once, if the token ends before this context does.

        An empty hash is no token's: nothing ends it.
        """
        if not token_hash:
            yield
            return
        lease = _Lease(on_end)
        self._held.setdefault(token_hash, set()).add(lease)
        try:
            yield
        finally:
            if (leases := self._held.get(token_hash)) is not None:
                leases.discard(lease)
                if not leases:
                    del self._held[token_hash]

    @asynccontextmanager
    async def scope(
        self, identity: Identity, *, on_end: OnEnd = lambda: None
    ) -> AsyncIterator[None]:
        """Cancel the body when the token of `identity` ends; then raises `AccessDenied`.

        `on_end` is called before that, for a body that may not heed being cancelled.
        """
        loop = asyncio.get_running_loop()

        def end() -> None:
            on_end()
            deadline.reschedule(loop.time())

        try:
            async with asyncio.timeout(None) as deadline:
                with self.hold(identity.token_hash, end):
                    yield
        except TimeoutError:
            if not deadline.expired():
                raise
            raise AccessDenied("The token was revoked or has expired") from None

    async def sweep(self) -> None:
        """End everything that belongs to revoked or expired tokens."""
        if self._tokens is None:
            return
        for token_hash in tuple(self._held):
            if await self._tokens.identify_hash(token_hash) is None:
                for lease in tuple(self._held.pop(token_hash, ())):
                    lease.on_end()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.sweep()
            except BasculeError as error:  # the database is away; requests are refused meanwhile
                logger.warning("tokens cannot be checked: %s", error.message)


class _Lease:
    """One lease; compared by identity, as two may have the same `on_end`."""

    __slots__ = ("on_end",)

    def __init__(self, on_end: OnEnd) -> None:
        self.on_end = on_end
