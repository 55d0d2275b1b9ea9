"""The users of a hub: adding and changing them, and their quotas."""

from __future__ import annotations

import asyncio
import re
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bascule.core.errors import AccessDenied, InvalidRequest, NoSuchUser
from bascule.hub.identity import DEFAULT_OWNER, Identity, scopes_of
from bascule.hub.leases import TokenLeases
from bascule.hub.settings import HubSettings
from bascule.hub.store import Store

from .audit_log import AuditLog
from .rows import Account, UserRow

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_.@+-]+")
_MAX_NAME_LENGTH: Final = 50
_MAX_DISPLAY_NAME_LENGTH: Final = 200


class Users:
    """The users of a hub.

    A user's tokens never permit more than the user's role: when the role is lowered or the user is
    disabled, the tokens that permit more are removed, and their connections are closed.
    """

    def __init__(
        self,
        settings: HubSettings,
        store: Store,
        leases: TokenLeases,
        audit: AuditLog,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._store = store
        self._leases = leases
        self._audit = audit
        self._clock = clock
        self._changing = asyncio.Lock()
        """Held from reading a row until it is written, because a row is written completely."""

    async def all(self) -> Sequence[UserRow]:
        return await self._store.list_users()

    async def find(self, name: str) -> UserRow | None:
        return await self._store.find_user(name)

    async def ensure_known(self, name: str) -> None:
        """Raise `NoSuchUser` unless `name` is a user or the owner of a token, window or session."""
        if name != DEFAULT_OWNER and not await self._store.has_owner(name):
            raise NoSuchUser(
                f"This hub has no user {name!r}; admins see all users on the hub's page",
                name=name,
            )

    async def put(self, who: Identity, row: UserRow) -> UserRow:
        """Add a user, or change the role, quotas or account of a user."""
        async with self._changing:
            return await self._put(who, row)

    async def _put(self, who: Identity, row: UserRow) -> UserRow:
        before = await self._store.find_user(row.name)
        if before is not None:
            row = replace(row, created=before.created, last_sign_in=before.last_sign_in)
        if row.name == who.owner and (row.is_disabled or row.role != "admin"):
            raise InvalidRequest("You cannot take the role admin from yourself", field="role")
        await self._store.put_user(row)
        verb = "user.add" if before is None else "user.change"
        await self._audit.write(
            who, verb, owner=row.name, role=row.role, disabled=row.is_disabled, account=row.subject
        )
        await self._remove_excess_tokens(row)
        return row

    async def signed_in(self, account: Account) -> UserRow:
        """The user of an account, whose role and last sign-in are updated; added if missing.

        Raises `AccessDenied` if an admin has disabled the user.
        """
        async with self._changing:
            return await self._signed_in(account)

    async def _signed_in(self, account: Account) -> UserRow:
        now = self._clock()
        display_name = account.display_name[:_MAX_DISPLAY_NAME_LENGTH]
        row = await self._store.find_account(account.issuer, account.subject)
        if row is None:
            row = UserRow(
                name=await self._free_name(account),
                role=account.role or account.new_role,
                issuer=account.issuer,
                subject=account.subject,
                created=now,
            )
        if row.is_disabled:
            raise AccessDenied(f"An admin of this hub has disabled the user {row.name}")
        role = account.role or row.role
        is_changed = row.role != role
        row = replace(row, role=role, display_name=display_name, last_sign_in=now)
        await self._store.put_user(row)
        if is_changed:
            await self._remove_excess_tokens(row)
        return row

    async def settings_for(self, owner: str) -> HubSettings:
        """The settings of the hub with the quotas of a user."""
        row = await self._store.find_user(owner)
        if row is None or (row.max_sessions is None and row.max_running is None):
            return self._settings
        sessions, running = row.max_sessions, row.max_running
        default = self._settings
        return replace(
            default,
            max_sessions_per_owner=default.max_sessions_per_owner if sessions is None else sessions,
            max_running_per_owner=default.max_running_per_owner if running is None else running,
        )

    async def _remove_excess_tokens(self, row: UserRow) -> None:
        """Remove tokens that permit more than the role.

        Sign-ins with another role end too. So pages show what their user may do now.
        """
        keep = frozenset() if row.is_disabled else scopes_of(row.role)
        removed = await self._store.remove_tokens_of(row.name, keep=keep)
        removed += await self._store.remove_sign_ins(row.name, except_scope=row.role)
        if removed:
            await self._leases.sweep()

    async def _free_name(self, account: Account) -> str:
        """A name for a new user that nobody has.

        It must not be the name of an existing owner: the new user would own that owner's sessions,
        and whoever may choose names at the provider could take them over.
        """
        # ASCII, so that no two names look alike; no dots at the ends, because browsers resolve `..`
        # in the path of a URL.
        ascii_name = unicodedata.normalize("NFKD", account.name).encode("ascii", "ignore").decode()
        wanted = _NOT_IN_NAMES.sub("-", ascii_name.strip().lower()).strip("-.")
        wanted = wanted[:_MAX_NAME_LENGTH] or "user"
        name, number = wanted, 1
        while name == DEFAULT_OWNER or await self._store.has_owner(name):
            number += 1
            name = f"{wanted}-{number}"
        return name
