"""Quotas of sessions on this machine, and the errors when they are exceeded."""

from __future__ import annotations

from typing import Final

from bascule.core.errors import QuotaExceeded
from bascule.core.sessions import SessionSpec
from bascule.hub.settings import HubSettings

from .rows import Claim, Quota

CLAIMS_WHILE_RUNNING: Final = ("running", "memory")
"""Kinds of claims that a session holds only while it has a sandbox."""


def claims_of(spec: SessionSpec, settings: HubSettings) -> tuple[Claim, ...]:
    """The claims of a new session: for its existence, and for running."""
    return (_session_claim(settings), *running_claims(spec, settings))


def running_claims(spec: SessionSpec, settings: HubSettings) -> tuple[Claim, ...]:
    """The claims of a session that has a sandbox."""
    running = Claim(
        "running",
        1,
        "running sessions",
        _quotas(
            ("max_running", settings.max_running, False),
            ("max_running_per_owner", settings.max_running_per_owner, True),
        ),
    )
    memory = Claim(
        "memory",
        _memory(spec, settings),
        "bytes of memory",
        _quotas(("max_memory", settings.max_memory, False)),
    )
    return running, memory


def ensure_within_maximum(spec: SessionSpec, settings: HubSettings) -> None:
    """Raise `QuotaExceeded` for limits above the hub's maximum for one session."""
    limits = spec.limits
    for unit, wanted, maximum, setting in (
        ("bytes of memory", limits.memory, settings.max_session_memory, "max_session_memory"),
        ("CPUs", limits.cpus, settings.max_session_cpus, "max_session_cpus"),
        ("processes", limits.processes, settings.max_session_processes, "max_session_processes"),
    ):
        if maximum is not None and wanted is not None and wanted > maximum:
            raise QuotaExceeded(
                f"A session of this hub has at most {maximum} {unit}, but this request asks for "
                f"{wanted}; raise the setting `{setting}` to allow more",
                limit=maximum,
                setting=setting,
            )


def quota_exceeded(claim: Claim, quota: Quota, taken: int, owner: str) -> QuotaExceeded:
    holder = f"{owner} has" if quota.per_owner else "This hub has"
    wanted = "" if claim.amount == 1 else f" and this request asks for {claim.amount}"
    return QuotaExceeded(
        f"{holder} {taken} of {quota.limit} {claim.unit}{wanted}; "
        f"stop or remove a session, or raise the setting `{quota.setting}`",
        limit=quota.limit,
        taken=taken,
        setting=quota.setting,
    )


def _memory(spec: SessionSpec, settings: HubSettings) -> int:
    """The memory that a session claims; without a limit in its spec, the whole quota."""
    return (settings.max_memory or 0) if spec.limits.memory is None else spec.limits.memory


def _session_claim(settings: HubSettings) -> Claim:
    quotas = _quotas(
        ("max_sessions", settings.max_sessions, False),
        ("max_sessions_per_owner", settings.max_sessions_per_owner, True),
    )
    return Claim("session", 1, "sessions", quotas)


def _quotas(*limits: tuple[str, int | None, bool]) -> tuple[Quota, ...]:
    """Quotas from tuples of setting, limit and `per_owner`; None is no limit and makes no quota."""
    return tuple(
        Quota(setting, limit, per_owner)
        for setting, limit, per_owner in limits
        if limit is not None
    )
