"""The REST calls about users and shared sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Request
from pydantic import BaseModel, Field

from bascule.core.sessions import SessionId
from bascule.hub.identity import Identity, Role, Scope
from bascule.hub.messages import MessageAnswer
from bascule.hub.sessions.sharing import SessionSharing

from .rows import USER_NAME_PATTERN, UserRow
from .users import Users

UserName = Annotated[str, Path(pattern=USER_NAME_PATTERN)]
_Text = Annotated[str, Field(min_length=1, max_length=500)]
_Quota = Annotated[int | None, Field(ge=0, le=1_000_000)]


class MeAnswer(BaseModel):
    """Who the caller is."""

    name: str
    """The user, or for programs the name of the token."""
    owner: str
    scope: Scope
    display_name: str = ""


class UserBody(BaseModel):
    role: Role
    issuer: _Text | None = None
    subject: _Text | None = None
    """Id of the user's account at `issuer`: the claim `sub`. Null: the user has no account."""
    display_name: Annotated[str, Field(max_length=200)] = ""
    disabled: bool = False
    """Whether the user may not sign in. All tokens of the user are removed."""
    max_sessions: _Quota = None
    max_running: _Quota = None


class UserAnswer(UserBody):
    name: str
    created: str
    last_sign_in: str | None

    @classmethod
    def of(cls, row: UserRow) -> UserAnswer:
        return cls(
            name=row.name,
            role=row.role,
            issuer=row.issuer,
            subject=row.subject,
            display_name=row.display_name,
            disabled=row.is_disabled,
            max_sessions=row.max_sessions,
            max_running=row.max_running,
            created=_time(row.created),
            last_sign_in=None if row.last_sign_in is None else _time(row.last_sign_in),
        )


class ShareBody(BaseModel):
    access: Literal["view", "act"]
    """`view`: see the session's state, log and timeline. `act`: use it as well, except removing and
    sharing it."""


class ShareAnswer(BaseModel):
    user: str
    access: Literal["view", "act"]


class AccountsApi:
    """REST calls on `Users` and `SessionSharing`."""

    def __init__(
        self, users: Users, sharing: SessionSharing, *, identity_of: Callable[[Request], Identity]
    ) -> None:
        self._users = users
        self._sharing = sharing
        self._identity_of = identity_of

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        admin, person = [require_scope("admin")], [require_scope("admin", "member")]
        shares_path = "/api/sessions/{session_id}/shares"
        add = app.add_api_route
        add("/api/me", self.me, dependencies=[require_scope("agent", "admin", "viewer")])
        add("/api/users", self.list_users, dependencies=admin)
        add("/api/users/{name}", self.put_user, methods=["PUT"], dependencies=admin)
        add(shares_path, self.list_shares, dependencies=person)
        share_path = f"{shares_path}/{{user}}"
        add(share_path, self.share, methods=["PUT"], dependencies=person)
        add(share_path, self.unshare, methods=["DELETE"], dependencies=person)

    async def me(self, request: Request) -> MeAnswer:
        """Who the caller is."""
        who = self._identity_of(request)
        row = await self._users.find(who.owner)
        return MeAnswer(
            name=who.name,
            owner=who.owner,
            scope=who.scope,
            display_name="" if row is None else row.display_name,
        )

    async def list_users(self) -> list[UserAnswer]:
        """The users who have signed in with an account, or whom an admin has added."""
        return [UserAnswer.of(row) for row in await self._users.all()]

    async def put_user(self, name: UserName, body: UserBody, request: Request) -> UserAnswer:
        """Add a user, or change the role, quotas or account of a user.

        Tokens that permit more than the new role are removed.
        """
        row = UserRow(
            name=name,
            role=body.role,
            issuer=body.issuer,
            subject=body.subject,
            display_name=body.display_name,
            is_disabled=body.disabled,
            max_sessions=body.max_sessions,
            max_running=body.max_running,
            created=time.time(),
        )
        return UserAnswer.of(await self._users.put(self._identity_of(request), row))

    async def list_shares(self, session_id: str, request: Request) -> list[ShareAnswer]:
        """The users to whom the owner of a session gave access."""
        shares = self._sharing.of(self._identity_of(request), SessionId(session_id))
        return [
            ShareAnswer.model_validate({"user": user, "access": access})
            for user, access in sorted(shares.items())
        ]

    async def share(
        self, session_id: str, user: UserName, body: ShareBody, request: Request
    ) -> MessageAnswer:
        """Give a user access to a session. Only its owner and admins may do this."""
        who = self._identity_of(request)
        self._sharing.of(who, SessionId(session_id))
        await self._users.ensure_known(user)
        await self._sharing.change(who, SessionId(session_id), user, body.access)
        return MessageAnswer(message=f"{user} may {body.access} in this session")

    async def unshare(self, session_id: str, user: UserName, request: Request) -> MessageAnswer:
        """Take back a user's access to a session. The user's connections into it are closed."""
        who = self._identity_of(request)
        await self._sharing.change(who, SessionId(session_id), user, None)
        return MessageAnswer(message=f"{user} has no access to this session any more")


def _time(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat()
