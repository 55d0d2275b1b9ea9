"""Sandboxes of E2B's clients: each is a session of the hub."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

from bascule.core.errors import AccessDenied, BasculeError, InvalidRequest, NotSupported
from bascule.core.sessions import SessionExpiry, SessionId, SessionLimits, SessionSpec
from bascule.hub import Hub, Identity
from bascule.hub.sessions.rows import SessionRow
from bascule.hub.sessions.session_request import SessionRequest
from bascule.serving.refusals import Refused

from ._errors import SandboxNotRunning
from ._fields import flag_of, number_of, object_of, text_of, texts_of
from ._keys import SandboxKeys
from ._network import network_json, read_egress
from ._templates import BASE, find_template

ENVD_VERSION: Final = "0.6.1"
"""The version of E2B's `envd` that the data plane follows. Clients derive supported features."""
_TEMPLATE: Final = "e2b.template"
_METADATA: Final = "e2b.metadata."
_KEY: Final = "e2b "
_DEFAULT_TIMEOUT: Final = 15
"""Seconds, the default of E2B's API. Its clients send 300."""
_MAX_TIMEOUT: Final = 30 * 24 * 3600
_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
_MAX_METADATA: Final = 100
_MAX_TEXT: Final = 10_000
_PAGE: Final = 100
_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_UNSUPPORTED: Final = ("iam", "mcp", "volumeMounts")

State = Literal["running", "paused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxQuery:
    """Which sandboxes to list."""

    metadata: Mapping[str, str]
    states: Sequence[str]
    template: str
    newest_first: bool
    started_after: float
    limit: int
    offset: int


class E2BSandboxes:
    """The operations of E2B's control plane."""

    def __init__(self, hub: Hub, keys: SandboxKeys, domain: str) -> None:
        self._hub = hub
        self._sessions = hub.sessions
        self._keys = keys
        self._domain = domain

    async def create(
        self, who: Identity, body: Mapping[str, Any], idempotency_key: str
    ) -> Mapping[str, Any]:
        spec = self._spec(body, allows_open="open" in self._sessions.allowed_egress(who))
        if idempotency_key and not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
            raise InvalidRequest("The header `Idempotency-Key` must have 1 to 255 characters")
        key = _KEY + idempotency_key if idempotency_key else None
        row = await self._sessions.create(who, SessionRequest(spec=spec, request_key=key))
        try:
            row = await self._sessions.until_ready(row.id)
        except BasculeError:
            await self._sessions.remove(who, row.id)
            raise
        return self._connection(who, row)

    async def connect(
        self, who: Identity, sandbox_id: str, body: Mapping[str, Any]
    ) -> tuple[bool, Mapping[str, Any]]:
        """Resume the sandbox if necessary, and prolong its lifetime. Returns whether it was
        resumed."""
        row = self.get(who, sandbox_id)
        is_resumed = _state(row) == "paused"
        row = await self._resume(who, row, timeout_of(body), shortens=False)
        return is_resumed, self._connection(who, row)

    async def resume(
        self, who: Identity, sandbox_id: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Resume a paused sandbox. Raises `Refused` if it runs."""
        row = self.get(who, sandbox_id)
        if _state(row) == "running":
            raise Refused(409, InvalidRequest(f"The sandbox {sandbox_id} is already running"))
        row = await self._resume(who, row, timeout_of(body), shortens=True)
        return self._connection(who, row)

    async def pause(self, who: Identity, sandbox_id: str) -> None:
        """Pause the sandbox. Its processes stay in memory."""
        row = self.get(who, sandbox_id)
        if _state(row) == "paused":
            raise Refused(409, InvalidRequest(f"The sandbox {sandbox_id} is already paused"))
        if row.spec.expiry is not None:  # which ends now, so only an owner may do that
            self._sessions.get(who, row.id, needs="own")
        if row.state == "starting":
            await self._sessions.until_ready(row.id)
        await self._sessions.pause(who, row.id)
        if row.spec.expiry is not None:
            await self._sessions.set_expiry(who, row.id, replace(row.spec.expiry, is_over=True))

    async def set_timeout(
        self, who: Identity, sandbox_id: str, seconds: int, *, shortens: bool = True
    ) -> None:
        """End the sandbox's lifetime after `seconds`. `shortens`: False keeps a later end."""
        row = self.get(who, sandbox_id)
        if row.spec.expiry is None:
            raise InvalidRequest(
                f"{sandbox_id} is a session that no client of E2B created, and has no timeout"
            )
        await self._prolong(who, row, seconds, shortens=shortens)

    async def kill(self, who: Identity, sandbox_id: str) -> None:
        row = self.get(who, sandbox_id)
        await self._sessions.remove(who, row.id)

    def list_sandboxes(
        self, who: Identity, query: SandboxQuery
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """One page of the caller's own sandboxes, and the token of the next page, which is empty
        after the last page."""
        rows = [
            row
            for row in self._sessions.list(who)
            if row.owner == who.owner and not row.is_being_removed and _matches(row, query)
        ]
        rows.sort(key=lambda row: (row.created, row.id), reverse=query.newest_first)
        end = query.offset + query.limit
        page = [self._description(row) for row in rows[query.offset : end]]
        return page, str(end) if len(rows) > end else ""

    def describe(self, who: Identity, sandbox_id: str) -> Mapping[str, Any]:
        row = self.get(who, sandbox_id)
        expiry = row.spec.expiry
        on_timeout = "pause" if expiry is not None and expiry.action == "pause" else "kill"
        return {
            **self._description(row),
            "domain": self._domain or None,
            "envdAccessToken": self._keys.key_for(who, row.id),
            "allowInternetAccess": row.spec.egress.mode != "off",
            "network": network_json(row.spec.egress),
            "lifecycle": {"autoResume": False, "onTimeout": on_timeout},
        }

    async def metrics(self, who: Identity, sandbox_id: str) -> Sequence[Mapping[str, Any]]:
        """The current resource usage, as a list of one measurement; empty while paused."""
        row = self.get(who, sandbox_id)
        if _state(row) == "paused":
            return []
        usage = await self._sessions.usage(who, row.id)
        if usage is None:
            return []
        now, limits = time.time(), row.spec.limits
        age = max(now - row.created, 1.0)
        cpus = _cpus(row)
        return [
            {
                "timestamp": _time_text(now),
                "timestampUnix": int(now),
                "cpuCount": cpus,
                "cpuUsedPct": round(min(usage.cpu_seconds / age / cpus, 1.0) * 100, 2),
                "memUsed": usage.memory_bytes,
                "memTotal": limits.memory or 0,
                "memCache": 0,
                "diskUsed": 0,
                "diskTotal": 0,
            }
        ]

    def change_network(self, who: Identity, sandbox_id: str, body: Mapping[str, Any]) -> None:
        """Raises `NotSupported` unless the sandbox has these settings already."""
        row = self.get(who, sandbox_id)
        wanted = read_egress(flag_of(body, "allow_internet_access"), body)
        if wanted != row.spec.egress:
            raise NotSupported(
                f"The network of a running sandbox cannot be changed from {row.spec.egress.mode!r} "
                f"to {wanted.mode!r}; give `network` when you create it"
            )

    def get(self, who: Identity, sandbox_id: str) -> SessionRow:
        """The session. Raises `Refused` (404) also for a session of another owner."""
        try:
            row = self._sessions.get(who, SessionId(sandbox_id))
        except BasculeError:
            row = None
        if row is None or row.is_being_removed or _is_over(row, "remove"):
            raise Refused(404, SandboxNotRunning(sandbox_id))
        return row

    def get_running(self, who: Identity, sandbox_id: str) -> SessionRow:
        """The session, for a request to its contents. Raises `SandboxNotRunning` unless it runs.

        A session that the hub paused because it was idle counts as running: requests resume it.
        """
        try:
            row = self.get(who, sandbox_id)
        except Refused as refused:
            raise SandboxNotRunning(sandbox_id) from refused
        expiry = row.spec.expiry
        if row.state not in ("ready", "paused"):
            raise SandboxNotRunning(sandbox_id, f"(it is {row.state}; connect to it again)")
        if expiry is not None and (expiry.is_over or expiry.at <= time.time()):
            raise SandboxNotRunning(sandbox_id, "(it is paused; connect to it again)")
        return row

    # ----------------------------------------------------------------------------------------

    def _spec(self, body: Mapping[str, Any], *, allows_open: bool) -> SessionSpec:
        for name in _UNSUPPORTED:
            if body.get(name):
                raise NotSupported(f"`{name}` is not supported by this hub; leave it out")
        template = find_template(text_of(body, "templateID"), self._sessions.spawners)
        metadata = texts_of(body, "metadata")
        if len(metadata) > _MAX_METADATA or any(
            len(text) > _MAX_TEXT for item in metadata.items() for text in item
        ):
            raise InvalidRequest(
                f"`metadata` may have {_MAX_METADATA} entries of {_MAX_TEXT} characters"
            )
        # Some frameworks always ask for the Internet. Tokens without this right get no network.
        allows_internet = flag_of(body, "allow_internet_access") and allows_open
        action: Literal["pause", "remove"] = "pause" if flag_of(body, "autoPause") else "remove"
        return SessionSpec(
            name=metadata.get("name", "")[:100],
            spawner=template.spawner,
            image=template.image,
            environment=texts_of(body, "envVars"),
            limits=SessionLimits(),
            egress=read_egress(allows_internet, object_of(body, "network")),
            file_layout="" if template.spawner == "plain" else "e2b",
            labels={
                _TEMPLATE: template.name,
                **{_METADATA + name: value for name, value in metadata.items()},
            },
            expiry=SessionExpiry(at=time.time() + timeout_of(body), action=action),
        )

    async def _resume(
        self, who: Identity, row: SessionRow, seconds: int, *, shortens: bool
    ) -> SessionRow:
        if row.state == "stopping":
            await self._sessions.until_stopped(row.id)
        expiry = row.spec.expiry
        was_over = expiry is not None and expiry.is_over
        is_over = was_over or (expiry is not None and expiry.at <= time.time())
        # Users of a shared sandbox may resume it, and leave its lifetime as it is.
        is_owner = self._sessions.access_of(who, row) == "own"
        if expiry is not None and (is_owner or is_over):
            await self._prolong(who, row, seconds, shortens=shortens or was_over)
        await self._sessions.resume(who, row.id)
        return await self._sessions.until_ready(row.id)

    async def _prolong(
        self, who: Identity, row: SessionRow, seconds: int, *, shortens: bool
    ) -> None:
        expiry, end = row.spec.expiry, time.time() + seconds
        assert expiry is not None
        if shortens or end > expiry.at:
            new = SessionExpiry(at=end, action=expiry.action)
            await self._sessions.set_expiry(who, row.id, new)

    def _connection(self, who: Identity, row: SessionRow) -> Mapping[str, Any]:
        key = self._keys.key_for(who, row.id)
        return {
            "sandboxID": row.id,
            "templateID": row.spec.labels.get(_TEMPLATE, BASE),
            "clientID": "bascule",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": key,
            "trafficAccessToken": key,
            "domain": self._domain or None,
        }

    def _description(self, row: SessionRow) -> Mapping[str, Any]:
        expiry = row.spec.expiry
        return {
            "sandboxID": row.id,
            "templateID": row.spec.labels.get(_TEMPLATE, BASE),
            "alias": row.spec.labels.get(_TEMPLATE, BASE),
            "clientID": "bascule",
            "startedAt": _time_text(row.created),
            "endAt": _NEVER.isoformat() if expiry is None else _time_text(expiry.at),
            "envdVersion": ENVD_VERSION,
            "cpuCount": _cpus(row),
            "memoryMB": (row.spec.limits.memory or 0) >> 20,
            "diskSizeMB": 0,
            "metadata": _metadata(row),
            "state": _state(row),
        }


def read_query(query: Mapping[str, str], *, all_states: bool) -> SandboxQuery:
    """`all_states`: whether paused sandboxes are listed if the query names no state."""
    states = [each for each in query.get("state", "").split(",") if each]
    if unknown := set(states) - {"running", "paused"}:
        raise InvalidRequest(f"`state` must be running or paused, not {sorted(unknown)[0]!r}")
    started = query.get("startedAfter", "")
    try:
        started_after = datetime.fromisoformat(started).timestamp() if started else 0.0
    except (ValueError, OverflowError):
        raise InvalidRequest(f"`startedAfter` must be a time, not {started!r}") from None
    return SandboxQuery(
        metadata=dict(parse_qsl(query.get("metadata", ""), keep_blank_values=True)),
        states=states or (["running", "paused"] if all_states else ["running"]),
        template=query.get("template", ""),
        newest_first=query.get("order", "desc") != "asc",
        started_after=started_after,
        limit=min(max(number_of(query, "limit", default=_PAGE), 1), _PAGE),
        offset=number_of(query, "nextToken"),
    )


def ensure_may_manage(who: Identity) -> None:
    if who.scope not in ("agent", "admin", "member", "viewer"):
        raise AccessDenied(f"This call needs a token of scope agent, not one of scope {who.scope}")


def timeout_of(body: Mapping[str, Any], name: str = "timeout") -> int:
    seconds = number_of(body, name, default=_DEFAULT_TIMEOUT)
    if not 0 <= seconds <= _MAX_TIMEOUT:
        raise InvalidRequest(f"`{name}` must be 0 to {_MAX_TIMEOUT} seconds, not {seconds}")
    return seconds


def _matches(row: SessionRow, query: SandboxQuery) -> bool:
    if _TEMPLATE not in row.spec.labels or _is_over(row, "remove"):
        return False
    metadata = _metadata(row)
    return (
        all(metadata.get(name) == value for name, value in query.metadata.items())
        and _state(row) in query.states
        and query.template in ("", row.spec.labels[_TEMPLATE])
        and row.created >= query.started_after
    )


def _metadata(row: SessionRow) -> dict[str, str]:
    labels = row.spec.labels.items()
    return {k.removeprefix(_METADATA): v for k, v in labels if k.startswith(_METADATA)}


def _state(row: SessionRow) -> State:
    """A stopped or failed session counts as paused: connecting starts it again."""
    expiry = row.spec.expiry
    if expiry is not None and (expiry.is_over or _is_over(row, "pause")):
        return "paused"
    # The hub pauses idle sessions, and every request resumes them. So clients see them as running.
    is_idle = row.state == "paused" and expiry is not None
    return "running" if is_idle or row.state in ("starting", "ready") else "paused"


def _is_over(row: SessionRow, action: str) -> bool:
    """Whether the lifetime has ended, and the hub has not taken this `action` yet."""
    expiry = row.spec.expiry
    return (
        expiry is not None
        and not expiry.is_over
        and expiry.action == action
        and expiry.at <= time.time()
    )


def _cpus(row: SessionRow) -> int:
    return max(1, round(row.spec.limits.cpus or os.cpu_count() or 1))


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
