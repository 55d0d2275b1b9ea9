"""The tokens of a hub: read from its database on this machine, or requested over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bascule.core.errors import UsageError

if TYPE_CHECKING:
    from bascule.hub.identity import Scope

    from .hub_settings import HubFile
    from .hub_target import HubTarget


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token, without its secret."""

    name: str
    scope: str
    owner: str
    expires: float | None


class LocalTokens(AsyncExitStack):
    """The tokens of a hub whose state is on this machine. The hub need not run."""

    def __init__(self, settings: HubFile, state: Path) -> None:
        super().__init__()
        self._settings = settings
        self._state = state

    async def __aenter__(self) -> Self:
        from bascule.hub.database.address import database_address
        from bascule.hub.database.store import SqlStore

        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = database_address(self._settings.database_url, self._state)
        self._store = await self.enter_async_context(SqlStore(address))
        await self._store.open()
        return self

    async def create(
        self, name: str, scope: Scope, *, owner: str, lifetime: float | None = None
    ) -> str:
        from bascule.hub.tokens import Tokens

        return await Tokens(self._store, "").create(name, scope, owner=owner, lifetime=lifetime)

    async def list(self) -> Sequence[TokenInfo]:
        rows = await self._store.list_tokens()
        return [TokenInfo(row.name, row.scope, row.owner, row.expires) for row in rows]

    async def revoke(self, name: str) -> bool:
        """Revoke a token. Returns whether there was a token with that name."""
        return await self._store.remove_token(name)

    def admin(self) -> str:
        """The admin token, which is created if missing. All hubs of a user share it."""
        from bascule.hub.tokens import admin_token

        return os.environ.get("BASCULE_TOKEN") or admin_token(self._settings.state())


class RemoteTokens(AsyncExitStack):
    """The tokens of a hub on another machine. Needs a token with scope admin."""

    def __init__(self, target: HubTarget) -> None:
        super().__init__()
        self._target = target

    async def __aenter__(self) -> Self:
        from bascule.link.hub_calls import HubCalls

        self.enter_context(self._target.explaining_unreachable_hub())
        self._calls = await self.enter_async_context(HubCalls(self._target.url, self._target.token))
        return self

    async def create(
        self, name: str, scope: Scope, *, owner: str, lifetime: float | None = None
    ) -> str:
        return await self._calls.create_token(name, scope, owner=owner, lifetime=lifetime)

    async def list(self) -> Sequence[TokenInfo]:
        found = await self._calls.tokens()
        return [
            TokenInfo(each["name"], each["scope"], each["owner"], each["expires"]) for each in found
        ]

    async def revoke(self, name: str) -> bool:
        """Revoke a token. Returns whether there was a token with that name."""
        return await self._calls.revoke_token(name)

    def admin(self) -> str:
        raise UsageError(
            f"the admin token of {self._target.url} is on the hub's machine: run `bascule "
            "token` there, as the user who runs the hub"
        )
