"""A request for a new session: its permission checks, and its idempotency key and hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from bascule.core.errors import AccessDenied, InvalidRequest
from bascule.core.sessions import EgressMode, SessionSpec
from bascule.hub.identity import Identity
from bascule.hub.settings import HubSettings

from .specs import spec_to_json

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL: Final = re.compile(r"(https|ssh)://[^-\s/][^\s/]*/\S+|\w[\w.-]*@\w[\w.-]*:[^-\s]\S*")
"""Pattern of repository URLs in which git and ssh cannot mistake any part for an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A caller's request to create a session."""

    spec: SessionSpec
    credential: Mapping[str, str] | None = field(default=None, repr=False)
    """Credential for cloning the workspace."""
    request_key: str | None = None
    """The idempotency key: a request with the same key and owner returns the same session."""
    has_unique_name: bool = False
    """Whether to refuse the request while another session of the owner has this name. False for
    the demo and OpenHands, which choose names themselves and find their sessions by key."""

    @property
    def hash(self) -> str:
        """Hash of the whole request except the values of secrets, and the end of the lifetime,
        which is later in a repeated request."""
        spec = spec_to_json(self.spec)
        spec.pop("expiry", None)
        text = json.dumps([spec, sorted(self.credential or {})], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def allowed_egress(who: Identity, settings: HubSettings) -> Sequence[EgressMode]:
    """The egress modes this identity may request, from `off` to the most open."""
    modes: tuple[EgressMode, ...] = get_args(EgressMode)
    return modes if who.is_admin else modes[: modes.index(settings.max_egress) + 1]


def ensure_allowed(who: Identity, spec: SessionSpec, settings: HubSettings) -> None:
    """Raise an error if this identity may not have such a session. Does not access the disk."""
    source = spec.workspace
    if (source.kind == "folder" or spec.image) and not who.is_admin:
        what = "a folder of the hub's machine" if source.kind == "folder" else "an image"
        raise AccessDenied(f"Only a token of scope admin may name {what} for a session")
    limits = spec.limits
    if None in (limits.memory, limits.cpus, limits.processes) and not who.is_admin:
        raise AccessDenied("Only a token of scope admin may have a session without limits")
    if (mode := spec.egress.mode) not in allowed_egress(who, settings):
        raise AccessDenied(
            f"Only a token of scope admin may request egress {mode!r}; the setting `max_egress` "
            f"limits others to {settings.max_egress!r}"
        )
    if source.kind == "git" and not _URL.fullmatch(source.url):
        raise InvalidRequest(f"{source.url!r} cannot be cloned; it must be an https or ssh URL")
    if source.ref.startswith("-") or source.ref != source.ref.strip():
        raise InvalidRequest(f"{source.ref!r} is not a branch, tag or commit")
    for name in (*spec.environment, *spec.secrets):
        if not _VARIABLE.fullmatch(name):
            raise InvalidRequest(f"{name!r} is not a valid variable name")
