"""Which OpenID provider users sign in with, and who may do so with which role."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting
from bascule.hub.identity import Role

from .rows import Account

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_MAX_GROUPS: Final = 10_000
_MAX_TEXT_LENGTH: Final = 255
"""Maximum characters of an account's id, as OpenID Connect limits it, and of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """An OpenID provider. Groups in a claim of the account decide about its role."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    """Empty: the hub is a public client, which proves itself by PKCE alone."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    """Name of the claim; a path such as `realm_access.roles` for a claim in a claim."""
    admin_groups: tuple[str, ...] = ()
    member_groups: tuple[str, ...] = ()
    viewer_groups: tuple[str, ...] = ()
    default_role: Literal["none", "viewer", "member"] = "none"
    """Role of accounts in none of the groups. `none`: they may not sign in."""

    def __post_init__(self) -> None:
        if not self.client_id:
            raise InvalidSetting("oidc_issuer is set, so set oidc_client_id as well")
        ensure_secure("oidc_issuer", self.issuer, is_loopback_allowed=True)
        if "openid" not in self.scopes:
            raise InvalidSetting("oidc_scopes must contain `openid`")
        if self.default_role == "none" and not self._has_groups:
            raise InvalidSetting(
                "nobody could sign in with an account: set oidc_member_groups or another of the "
                "oidc_…_groups, or set oidc_default_role to admit every account of the provider"
            )

    @property
    def is_on_loopback(self) -> bool:
        return urlsplit(self.issuer).hostname in _LOOPBACK

    @property
    def _has_groups(self) -> bool:
        return bool(self.admin_groups or self.member_groups or self.viewer_groups)

    def role_of(self, claims: Mapping[str, object]) -> Role | None:
        """The highest role that the account's groups give; None if it may not sign in."""
        groups = groups_in(claims, self.groups_claim)
        by_role: tuple[tuple[Role, tuple[str, ...]], ...] = (
            ("admin", self.admin_groups),
            ("member", self.member_groups),
            ("viewer", self.viewer_groups),
        )
        for role, members in by_role:
            if not groups.isdisjoint(members):
                return role
        return None if self.default_role == "none" else self.default_role

    def account(self, claims: Mapping[str, object]) -> Account | None:
        """The account behind the claims; None if it may not sign in."""
        role = self.role_of(claims)
        subject = text_in(claims, "sub")
        if role is None or not subject:
            return None
        name = text_in(claims, self.name_claim) or text_in(claims, "email") or subject
        return Account(
            issuer=self.issuer,
            subject=subject,
            name=name,
            display_name=text_in(claims, "name") or name,
            # Without groups, an admin of the hub decides about roles.
            role=role if self._has_groups else None,
            new_role=role,
        )


def groups_in(claims: Mapping[str, object], claim: str) -> frozenset[str]:
    """The groups in a claim: a text or a list of texts. Anything else in it is no group."""
    found = claims.get(claim)
    if found is None and "." in claim:
        inner: object = claims
        for part in claim.split("."):
            inner = inner.get(part) if isinstance(inner, Mapping) else None
        found = inner
    if isinstance(found, str):
        return frozenset({found})
    if not isinstance(found, list):
        return frozenset()
    return frozenset(each for each in found[:_MAX_GROUPS] if isinstance(each, str))


def text_in(claims: Mapping[str, object], claim: str) -> str:
    """The text in a claim; empty if it is missing, no text or too long."""
    value = claims.get(claim)
    if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH:
        return ""
    return value if value.isprintable() else ""


def ensure_secure(name: str, url: object, *, is_loopback_allowed: bool) -> str:
    """The URL, if it is `https://`, or `http://` on this machine where that is allowed."""
    parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
    is_local = parts.hostname in _LOOPBACK and is_loopback_allowed
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise InvalidSetting(f"{name} must be an https:// URL, not {json.dumps(url)[:200]}")
    return str(url)
