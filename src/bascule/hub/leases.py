"""Ends the connections and running actions of a token when the token is revoked or expires.

`bascule token --revoke` writes to the database from another process and cannot notify the hub. So
the hub looks up all tokens in use every second (`_INTERVAL`). Its own `DELETE /api/tokens/NAME`
takes effect at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar, Token
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import AccessDenied, BasculeError

from .identity import Identity
from .tokens import Tokens

logger = logging.getLogger(__name__)

_INTERVAL: Final = 1.0

OnEnd = Callable[[], None]
"""Closes a connection or stops an action. It must not block or raise."""
EndBlock = Callable[[str], None]
"""Cancels the block of a `scope`, for the reason that its `AccessDenied` names."""


class TokenLeases(Closable):
    """Every open connection and running action, by the hash of the token that admitted it.

    Without `tokens`, no lease is ever ended.
    """

    def __init__(self, tokens: Tokens | None = None, *, interval: float = _INTERVAL) -> None:
        self._tokens = tokens
        self._interval = interval
        self._held: dict[str, set[Lease]] = {}
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to check for revoked and expired tokens."""
        self._watching = asyncio.create_task(self._watch())

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    def open(self, token_hash: str, on_end: OnEnd) -> Lease:
        """Call `on_end`, at most once, if the token ends before the lease is closed.

        A lease with an empty hash belongs to no token and never ends by itself.
        """
        lease = Lease(self._held, token_hash, on_end)
        if token_hash:
            self._held.setdefault(token_hash, set()).add(lease)
        return lease

    @asynccontextmanager
    async def scope(
        self,
        identity: Identity,
        *,
        on_end: OnEnd = lambda: None,
        key: str = "",
        reason: str = "The token was revoked or has expired",
    ) -> AsyncIterator[EndBlock]:
        """Cancel the `with` block when the token of `identity` ends, then raise `AccessDenied`.

        `on_end` is called first, for blocks that may suppress the cancellation. The block gets a
        function that ends it for another reason. `key` replaces the hash of the token.
        """
        loop = asyncio.get_running_loop()

        def end(why: str = reason) -> None:
            nonlocal reason
            reason = why
            on_end()
            deadline.reschedule(loop.time())

        try:
            async with asyncio.timeout(None) as deadline:
                with self.open(key or identity.token_hash, end):
                    yield end
        except TimeoutError:
            if not deadline.expired():
                raise
            raise AccessDenied(reason) from None

    def end(self, key: str) -> None:
        """End everything that was opened with this hash."""
        for lease in tuple(self._held.pop(key, ())):
            lease.on_end()

    async def sweep(self) -> None:
        """End everything that belongs to revoked or expired tokens."""
        if self._tokens is None:
            return
        for token_hash in tuple(self._held):
            if await self._tokens.identify_hash(token_hash) is None:
                self.end(token_hash)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.sweep()
            except BasculeError as error:  # the database fails; requests are refused meanwhile
                logger.warning("tokens cannot be checked: %s", error.message)


class Lease:
    """One lease, closed by `close` or by a `with` statement.

    Compared by identity, because two leases may have the same `on_end`. Not a `@contextmanager`,
    which takes four times as long: the proxy opens a lease for each request.
    """

    __slots__ = ("_held", "_token_hash", "on_end")

    def __init__(self, held: dict[str, set[Lease]], token_hash: str, on_end: OnEnd) -> None:
        self._held = held
        self._token_hash = token_hash
        self.on_end = on_end

    def close(self) -> None:
        if (leases := self._held.get(self._token_hash)) is not None:
            leases.discard(self)
            if not leases:
                del self._held[self._token_hash]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.close()


class RequestLeases:
    """The leases that a running HTTP request holds on more than its token, as a `with` block."""

    def __init__(self, end: EndBlock) -> None:
        self._end = end
        self._held: ExitStack | None = None
        self._keys: set[str] = set()
        self._token: Token[RequestLeases | None] | None = None

    def hold(self, leases: TokenLeases, key: str, reason: str) -> None:
        """End the request when `leases` end `key`. No effect after the request."""
        if self._held is not None and key not in self._keys:
            self._keys.add(key)
            self._held.enter_context(leases.open(key, lambda: self._end(reason)))

    def __enter__(self) -> None:
        self._held = ExitStack()
        self._token = CURRENT_REQUEST.set(self)

    def __exit__(self, *_: object) -> None:
        assert self._held is not None
        assert self._token is not None
        CURRENT_REQUEST.reset(self._token)
        held, self._held = self._held, None
        held.close()


CURRENT_REQUEST: Final[ContextVar[RequestLeases | None]] = ContextVar(
    "CURRENT_REQUEST", default=None
)
"""The HTTP request that the current task works for."""
