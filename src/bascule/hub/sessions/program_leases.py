"""Ends the programs that a token started in a session, when the token or its access ends."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

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


class _Held(NamedTuple):
    lease: Lease
    owner: str


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
        self._held: dict[tuple[SessionId, str], _Held] = {}
        self._tasks = Tasks()

    def open(self, session_id: SessionId, token_hash: str, owner: str) -> None:
        """Call this before the token of `owner` starts a program in the session."""
        key = session_id, token_hash
        if token_hash and key not in self._held:
            lease = self._leases.open(token_hash, lambda: self._on_token_end(*key))
            self._held[key] = _Held(lease, owner)

    def end_of_user(self, session_id: SessionId, owner: str) -> None:
        """End the programs that the tokens of `owner` started in the session. They may start
        others when they have access again."""
        held = [key for key, each in self._held.items() if key[0] == session_id]
        for key in [each for each in held if self._held[each].owner == owner]:
            self._held.pop(key).lease.close()
            self._start_end(*key, is_revoked=False)

    def adopt(self, session_id: SessionId, owners: Mapping[str, str]) -> None:
        """Cover the programs that were started before this hub process. `owners`: the owners of
        all valid tokens, by the token's hash."""
        key = "adopt", session_id
        if key not in self._tasks:
            tokens = {token_id_of(each): (each, owner) for each, owner in owners.items()}
            self._tasks.start(key, self._adopt(session_id, tokens))

    def forget(self, session_id: SessionId) -> None:
        """The sandbox of the session has ended, with all its programs."""
        for key in [each for each in self._held if each[0] == session_id]:
            self._held.pop(key).lease.close()

    async def aclose(self) -> None:
        await self._tasks.aclose()

    def _on_token_end(self, session_id: SessionId, token_hash: str) -> None:
        self._held.pop((session_id, token_hash), None)
        self._start_end(session_id, token_hash, is_revoked=True)

    def _start_end(self, session_id: SessionId, token_hash: str, *, is_revoked: bool) -> None:
        # A token that is revoked after its access has ended needs a call of its own.
        key = session_id, token_hash, is_revoked
        if key not in self._tasks:
            token_id = token_id_of(token_hash)
            self._tasks.start(key, self._end(session_id, token_id, is_revoked=is_revoked))

    async def _end(self, session_id: SessionId, token_id: str, *, is_revoked: bool) -> None:
        try:
            runtime = (await self._client(session_id)).runtime
            await runtime.end_programs_of(token_id, is_revoked=is_revoked, timeout=_NO_TIMEOUT)
        except BasculeError as error:
            text = "session %s: the programs of a token could not be ended: %s"
            logger.warning(text, session_id, error.message)

    async def _adopt(self, session_id: SessionId, tokens: Mapping[str, tuple[str, str]]) -> None:
        try:
            runtime = (await self._client(session_id)).runtime
            programs = await runtime.list_programs(timeout=_NO_TIMEOUT)
        except BasculeError as error:
            text = "session %s: its programs could not be listed: %s"
            logger.warning(text, session_id, error.message)
            return
        for token_id in {each.started_by for each in programs if each.is_running} - {""}:
            if token_id in tokens:
                self.open(session_id, *tokens[token_id])
            else:
                await self._end(session_id, token_id, is_revoked=True)
