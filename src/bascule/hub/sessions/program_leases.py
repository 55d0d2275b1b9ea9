"""Ends the programs that a token started in sessions, when the token is revoked or expires."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError
from bascule.core.sessions import SessionId
from bascule.hub.leases import Lease, TokenLeases
from bascule.hub.tokens import token_id_of

from .sandbox_client import SandboxClient
from .tasks import Tasks

logger = logging.getLogger(__name__)

_NO_TIMEOUT: Final = None
"""A paused sandbox answers when it is resumed. Its programs must end then."""


class ProgramLeases(Closable):
    """Holds one lease for each token and session in which it has started programs.

    A program runs on without a connection, so the leases of connections do not cover it. The
    sandbox knows the id of the token that started each program, and ends those of one token.
    """

    def __init__(
        self, leases: TokenLeases, client: Callable[[SessionId], Awaitable[SandboxClient]]
    ) -> None:
        self._leases = leases
        self._client = client
        self._held: dict[tuple[SessionId, str], Lease] = {}
        self._tasks = Tasks()

    def open(self, session_id: SessionId, token_hash: str) -> None:
        """Call this before the token starts a program in the session."""
        key = session_id, token_hash
        if token_hash and key not in self._held:
            self._held[key] = self._leases.open(token_hash, lambda: self._on_token_end(*key))

    def adopt(self, session_id: SessionId, token_hashes: Iterable[str]) -> None:
        """Cover the programs that were started before this hub process. `token_hashes`: the hashes
        of all valid tokens."""
        key = "adopt", session_id
        if key not in self._tasks:
            hashes = {token_id_of(each): each for each in token_hashes}
            self._tasks.start(key, self._adopt(session_id, hashes))

    def forget(self, session_id: SessionId) -> None:
        """The sandbox of the session has ended, with all its programs."""
        for key in [each for each in self._held if each[0] == session_id]:
            self._held.pop(key).close()

    async def aclose(self) -> None:
        await self._tasks.aclose()

    def _on_token_end(self, session_id: SessionId, token_hash: str) -> None:
        self._held.pop((session_id, token_hash), None)
        key = session_id, token_hash
        if key not in self._tasks:
            self._tasks.start(key, self._end(session_id, token_id_of(token_hash)))

    async def _end(self, session_id: SessionId, token_id: str) -> None:
        try:
            runtime = (await self._client(session_id)).runtime
            await runtime.end_programs_of(token_id, timeout=_NO_TIMEOUT)
        except BasculeError as error:
            text = "session %s: the programs of a revoked token could not be ended: %s"
            logger.warning(text, session_id, error.message)

    async def _adopt(self, session_id: SessionId, hashes: dict[str, str]) -> None:
        try:
            runtime = (await self._client(session_id)).runtime
            programs = await runtime.list_programs(timeout=_NO_TIMEOUT)
        except BasculeError as error:
            text = "session %s: its programs could not be listed: %s"
            logger.warning(text, session_id, error.message)
            return
        for token_id in {each.started_by for each in programs if each.is_running} - {""}:
            if token_id in hashes:
                self.open(session_id, hashes[token_id])
            else:
                await self._end(session_id, token_id)
