"""Creates sessions: checks the request, reserves the name, stores the secrets and the row."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from bascule.core.errors import InvalidRequest, StorageFailed
from bascule.core.sessions import SessionId, SessionSpec, new_session_id
from bascule.hub.identity import Identity
from bascule.hub.settings import HubSettings

from .lifecycle import SandboxLifecycle
from .quotas import claims_of, ensure_within_maximum
from .rows import SessionRow
from .session_directories import ensure_folder
from .session_request import SessionRequest, ensure_allowed
from .session_table import SessionTable
from .specs import spec_to_json
from .vault import Secrets

SettingsFor = Callable[[str], Awaitable[HubSettings]]
"""Returns the settings of the hub with the quotas of an owner."""


def same_for_all(settings: HubSettings) -> SettingsFor:
    """A `SettingsFor` that gives no owner other quotas."""

    async def settings_for(_owner: str) -> HubSettings:
        return settings

    return settings_for


class SessionCreation:
    """Creates the sessions of a hub and starts them in the background.

    `lifecycle` raises `NotSupported` on a hub without sessions. `until_stopped` waits until the
    stop or removal of a session has ended.
    """

    def __init__(
        self,
        settings: HubSettings,
        table: SessionTable,
        *,
        lifecycle: Callable[[], SandboxLifecycle],
        until_stopped: Callable[[SessionId], Awaitable[object]],
        settings_for: SettingsFor,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._table = table
        self._lifecycle = lifecycle
        self._until_stopped = until_stopped
        self._settings_for = settings_for
        self._clock = clock
        self._reserved_names: list[tuple[str, str, str | None]] = []
        """Owner, name and request key of sessions that are being created."""

    async def create(self, who: Identity, request: SessionRequest) -> SessionRow:
        """Create a session, or return the session that an earlier request with this key created."""
        while (existing := self._created_before(who, request)) is not None:
            if not existing.is_being_removed:
                return _ensure_same(existing, request)
            await self._until_stopped(existing.id)
        with self._reserved_name(who, request):
            return await self._create(who, request)

    async def validate_spec(self, who: Identity, spec: SessionSpec) -> SessionSpec:
        """The spec, with its folder resolved. Raises an error if `who` may not have such a
        session."""
        ensure_allowed(who, spec, self._settings)
        ensure_within_maximum(spec, self._settings)
        lifecycle = self._lifecycle()
        lifecycle.spawner(spec.spawner)
        source = spec.workspace
        if source.kind == "folder":
            roots = self._settings.workspace_roots
            folder = await asyncio.to_thread(ensure_folder, source.folder, roots)
            return replace(spec, workspace=replace(source, folder=folder))
        if source.kind == "archive":
            await lifecycle.archives.ensure_exists(who.owner, source.archive)
        return spec

    async def _create(self, who: Identity, request: SessionRequest) -> SessionRow:
        spec = await self.validate_spec(who, request.spec)
        now = self._clock()
        row = SessionRow(
            id=new_session_id(),
            owner=who.owner,
            created_by=who.name,
            spec=spec,
            created=now,
            updated=now,
            last_active=now,
            request_key=request.request_key,
            request_hash=request.hash,
        )
        vault = self._lifecycle().vault
        key = secrets.token_urlsafe(32)
        session_secrets = Secrets(key=key, values=dict(spec.secrets), credential=request.credential)
        await _store_secrets(vault.put, row.id, session_secrets)
        self._table.set_mask(row.id, session_secrets.mask())
        is_new = False
        try:
            claims = claims_of(spec, await self._settings_for(who.owner))
            stored, is_new = await self._table.add(row, claims)
        finally:
            if not is_new:
                self._table.drop_mask(row.id)
                await asyncio.shield(asyncio.to_thread(vault.remove, row.id))
        if not is_new:
            return _ensure_same(stored, request)
        self._lifecycle().start(stored)
        await self._table.audit(who, stored, "create", spec=spec_to_json(spec))
        return stored

    def _created_before(self, who: Identity, request: SessionRequest) -> SessionRow | None:
        """The session that an earlier request with the same idempotency key created."""
        if request.request_key is None:
            return None
        for row in self._table.all():
            if (row.owner, row.request_key) == (who.owner, request.request_key):
                return row
        return None

    @contextmanager
    def _reserved_name(self, who: Identity, request: SessionRequest) -> Iterator[None]:
        """Reserve the session's name during its creation. Raises `InvalidRequest` if taken."""
        name, key = request.spec.name, request.request_key
        if not request.has_unique_name or not name:
            yield
            return
        listed = [
            (row.owner, row.spec.name, row.request_key)
            for row in self._table.all()
            if not row.is_being_removed
        ]
        for owner, other, other_key in (*listed, *self._reserved_names):
            # The same request, sent again before the first was answered, is not a conflict.
            is_repeated = key is not None and key == other_key
            if (owner, other) == (who.owner, name) and not is_repeated:
                raise InvalidRequest(
                    f"There is a session named {name!r} already; choose another name, "
                    "or remove that session",
                    field="name",
                )
        reserved = who.owner, name, key
        self._reserved_names.append(reserved)
        try:
            yield
        finally:
            self._reserved_names.remove(reserved)


def _ensure_same(row: SessionRow, request: SessionRequest) -> SessionRow:
    if row.request_hash != request.hash:
        raise InvalidRequest(
            f"The idempotency key {request.request_key!r} was used for another request"
        )
    return row


async def _store_secrets(
    put: Callable[[SessionId, Secrets], None], session_id: SessionId, session_secrets: Secrets
) -> None:
    try:
        await asyncio.to_thread(put, session_id, session_secrets)
    except OSError as error:
        raise StorageFailed(f"The session's secrets cannot be stored: {error.strerror}") from error
