"""A request for a session: whether it is allowed, and whether it repeats an earlier one."""

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
"""No part can be mistaken for a command-line option by git or ssh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What a caller asks for when creating a session."""

    spec: SessionSpec
    credential: Mapping[str, str] | None = field(default=None, repr=False)
    """For the clone of its workspace."""
    request_key: str | None = None
    """The idempotency key: the same key of the same owner is the same session."""
    has_unique_name: bool = False
    """Whether to refuse it while another session of the owner has its name. The demo and OpenHands
    choose names by themselves and find their sessions by key, so theirs may be taken."""

    @property
    def hash(self) -> str:
        """Hash of the whole request except the values of secrets."""
        text = json.dumps([spec_to_json(self.spec), sorted(self.credential or {})], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def allowed_egress(who: Identity, settings: HubSettings) -> Sequence[EgressMode]:
    """The egress modes this identity may request, from `off` to the most open."""
    modes: tuple[EgressMode, ...] = get_args(EgressMode)
    return modes if who.is_admin else modes[: modes.index(settings.max_egress) + 1]


def ensure_allowed(who: Identity, spec: SessionSpec, settings: HubSettings) -> None:
    """Raise an error if this identity may not have such a session. Looks at nothing on disk."""
    source = spec.workspace
    if (source.kind == "folder" or spec.image) and not who.is_admin:
        what = "a folder of the hub's machine" if source.kind == "folder" else "an image"
        raise AccessDenied(f"Only a token of scope admin may name {what} for a session")
    limits = spec.limits
    if None in (limits.memory, limits.cpus, limits.processes) and not who.is_admin:
        raise AccessDenied("Only a token of scope admin may have a session without limits")
    if (mode := spec.egress.mode) not in allowed_egress(who, settings):
        raise AccessDenied(
            f"Only a token of scope admin may have a session whose egress is {mode!r}; the setting "
            f"`max_egress` is {settings.max_egress!r}, which is what others may ask for"
        )
    if source.kind == "git" and not _URL.fullmatch(source.url):
        raise InvalidRequest(f"{source.url!r} cannot be cloned; it has to be an https or ssh URL")
    if source.ref.startswith("-") or source.ref != source.ref.strip():
        raise InvalidRequest(f"{source.ref!r} names no branch, tag or commit")
    for name in (*spec.environment, *spec.secrets):
        if not _VARIABLE.fullmatch(name):
            raise InvalidRequest(f"{name!r} cannot be the name of a variable")
