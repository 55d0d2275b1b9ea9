"""The Socket.IO namespace `/page`: events for open pages, and their requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import socketio

import bascule
from bascule.core.contracts import Closable
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    InvalidRequest,
    NoSuchSession,
    NoSuchWindow,
)
from bascule.core.sessions import SessionId
from bascule.core.windows import Window, WindowId
from bascule.hub.changes import HubChanges, Topic
from bascule.hub.demo.demos import Demo, Demos
from bascule.hub.guard import IDENTITY
from bascule.hub.identity import Identity
from bascule.hub.proxy.authentication import TokenAuthenticator
from bascule.hub.registry import Registry
from bascule.hub.sessions.rows import SessionRow
from bascule.hub.sessions.service import Sessions
from bascule.hub.socketio_server import PAGE, refusal
from bascule.hub.sockets import Sockets
from bascule.wire import error_to_wire
from bascule.wire.windows import encode_window

from .access import PageKeys, signed_in_user
from .viewer import Viewer

_NAME: Final = re.compile(r"[a-z0-9-]{1,40}")
_SCOPES: Final = ("admin", "member", "viewer", "agent")
_VIEWER_REQUESTS: Final = frozenset({"watch", "unwatch", "usage"})
"""Requests that a user with the role viewer may send."""
_WATCHER_REQUESTS: Final = frozenset({"watch", "unwatch", "demo.play", "demo.skip", "demo.remove"})
"""Requests that a page showing one session's VS Code may send. The framed VS Code could send
them too."""

Describe = Callable[[SessionRow], Mapping[str, Any]]
DescribeDemo = Callable[[Demo], Mapping[str, Any]]
PageRequest = Callable[[Viewer, Mapping[str, Any]], Awaitable[object]]


class Feed(Closable):
    """All open pages. Each receives only what its user may see."""

    def __init__(
        self,
        sockets: Sockets,
        *,
        authenticator: TokenAuthenticator,
        keys: PageKeys,
        sessions: Sessions,
        registry: Registry,
        changes: HubChanges,
        demos: Demos,
        describe: Describe,
        describe_demo: DescribeDemo,
    ) -> None:
        self._sockets = sockets
        self._server: socketio.AsyncServer = sockets.server
        self._authenticator = authenticator
        self._keys = keys
        self._sessions = sessions
        self._registry = registry
        self._demos = demos
        self._describe = describe
        self._describe_demo = describe_demo
        self._viewers: dict[str, Viewer] = {}
        changes.subscribe(self._on_change)
        on = self._server.on
        on("connect", self._on_connect, namespace=PAGE)
        on("disconnect", self._on_disconnect, namespace=PAGE)
        on("terminal.keys", self._on_keys, namespace=PAGE)
        for name, handle in self._requests().items():
            on(name, self._handler(name, handle), namespace=PAGE)

    def _requests(self) -> Mapping[str, PageRequest]:
        return {
            "watch": self._watch,
            "unwatch": self._unwatch,
            "usage": self._usage,
            "approval.answer": self._answer,
            "demo.play": self._play_demo,
            "demo.skip": self._skip_demo,
            "demo.remove": self._remove_demo,
            "terminal.open": self._open_terminal,
            "terminal.leave": self._leave_terminal,
            "terminal.close": self._close_terminal,
        }

    async def aclose(self) -> None:
        await asyncio.gather(*(viewer.aclose() for viewer in self._viewers.values()))
        self._viewers.clear()

    async def end_sign_in(self, sign_in: bytes) -> None:
        """Disconnect the pages of a user who signed out."""
        for sid, viewer in tuple(self._viewers.items()):
            if viewer.sign_in == sign_in:
                await self._server.disconnect(sid, namespace=PAGE)

    # Connections ----------------------------------------------------------------------------

    async def _on_connect(self, sid: str, environ: Mapping[str, Any], auth: object) -> None:
        scope = environ["asgi.scope"]
        user = await signed_in_user(self._authenticator, dict(scope["headers"]))
        key = auth.get("key") if isinstance(auth, Mapping) else None
        who = None if user is None else self._keys.identity_of_holder(key, user)
        if who is None or user is None or user.sign_in is None or user.identity != scope[IDENTITY]:
            raise refusal("The page's key is missing or old; reload the page")
        if who.scope not in _SCOPES and not self._keys.is_for_one_session(key):
            raise refusal(f"A token of scope {user.identity.scope} may not use this page")
        viewer = Viewer(
            self._server,
            sid,
            who,
            sign_in=user.sign_in.id,
            sessions=self._sessions,
            timelines=self._sockets.timelines,
        )
        self._viewers[sid] = viewer
        # Socket.IO confirms the connection after this handler returns, and no event may come before
        # the confirmation. The task's first step runs after the confirmation is queued.
        viewer.known_sessions.update(row.id for row in self._sessions.list(who))
        viewer.send_changes(lambda: self._hello(who), partial(self._describe_change, who))

    async def _on_disconnect(self, sid: str, _reason: object) -> None:
        viewer = self._viewers.pop(sid, None)
        if viewer is not None:
            await viewer.aclose()

    def _hello(self, who: Identity) -> dict[str, Any]:
        return {
            "version": bascule.__version__,
            "name": who.name,
            "owner": who.owner,
            "scope": who.scope,
            "spawners": list(self._sessions.spawners),
            "egress": list(self._sessions.allowed_egress(who)),
            "sessions": [self._describe(row) for row in self._sessions.list(who)],
            "windows": self._windows(who),
            "approvals": self._approvals(who),
            "demo": self._demo(who),
        }

    # State ----------------------------------------------------------------------------------

    def _on_change(self, topic: Topic, subject: str) -> None:
        for viewer in self._viewers.values():
            who = viewer.identity
            if topic == "session" and not self._may_learn_of(viewer, SessionId(subject)):
                continue  # this page must not learn that other sessions exist
            if topic == "review" and not self._may_review(who, WindowId(subject)):
                continue  # no agent may review its own changes
            viewer.changed(topic, subject)

    def _may_learn_of(self, viewer: Viewer, session_id: SessionId) -> bool:
        """Whether a page receives the change of a session: if its user may see the session, or
        could see it until now."""
        row = self._sessions.find(session_id)
        access = None if row is None else self._sessions.access_of(viewer.identity, row)
        if access is None or access == "view":
            viewer.end_terminals(session_id)
        if access is None:
            viewer.end_timeline(session_id)
            was_known = session_id in viewer.known_sessions
            viewer.known_sessions.discard(session_id)
            return was_known
        viewer.known_sessions.add(session_id)
        return True

    def _may_review(self, who: Identity, window_id: WindowId) -> bool:
        try:
            return who.is_person and who.may_see(self._registry.owner(window_id))
        except NoSuchWindow:
            return who.is_person

    def _describe_change(self, who: Identity, topic: Topic, subject: str) -> tuple[str, object]:
        match topic:
            case "windows":
                return "windows", self._windows(who)
            case "approvals":
                return "approvals", self._approvals(who)
            case "review":
                return "review", {"window_id": subject}
            case "demo":
                return "demo", self._demo(who)
            case "session":
                try:
                    row = self._sessions.get(who, SessionId(subject), needs="view")
                except NoSuchSession:
                    return "session.removed", {"id": subject}
                return "session", self._describe(row)

    def _windows(self, who: Identity) -> list[dict[str, Any]]:
        return [encode_window(each) for each in self._registry.windows() if _may_see(who, each)]

    def _demo(self, who: Identity) -> Mapping[str, Any] | None:
        demo = self._demos.of(who)
        return None if demo is None else self._describe_demo(demo)

    def _approvals(self, who: Identity) -> list[Mapping[str, Any]]:
        """Open questions, for persons only: no agent may answer its own question."""
        return list(self._sockets.approvals.pending(who.may_see)) if who.is_person else []

    # Requests of the page -------------------------------------------------------------------

    def _handler(
        self, name: str, handle: PageRequest
    ) -> Callable[[str, object], Awaitable[object]]:
        async def answer(sid: str, data: object) -> object:
            viewer = self._viewers.get(sid)
            if viewer is None:
                return None
            try:
                if viewer.identity.scope == "session" and name not in _WATCHER_REQUESTS:
                    raise AccessDenied("Only the hub's own page may send this request")
                if viewer.identity.scope == "viewer" and name not in _VIEWER_REQUESTS:
                    raise AccessDenied("A viewer may only look; ask an admin for the role member")
                if not isinstance(data, Mapping):
                    raise InvalidRequest("The request must be a JSON object")
                return {"value": await handle(viewer, data)}
            except BasculeError as error:
                return {"error": error_to_wire(error)}

        return answer

    async def _watch(self, viewer: Viewer, request: Mapping[str, Any]) -> None:
        kind, place_id = _kind_and_id(request)
        if kind == "session":
            self._sessions.get(viewer.identity, SessionId(place_id), needs="view")
        else:
            window = self._sockets.ensure_visible(viewer.identity, WindowId(place_id))
            if not _may_see(viewer.identity, window):
                raise NoSuchWindow(
                    f"No window {place_id!r} is registered here", window_id=window.id, sent=False
                )
        await viewer.watch(
            kind, place_id, after=_number(request, "after"), epoch=str(request.get("epoch") or "")
        )

    async def _unwatch(self, viewer: Viewer, request: Mapping[str, Any]) -> None:
        await viewer.unwatch(*_kind_and_id(request))

    async def _usage(self, viewer: Viewer, _request: Mapping[str, Any]) -> object:
        """Resource usage and apps of every running session."""
        rows = [row for row in self._sessions.list(viewer.identity) if row.state == "ready"]
        usages = await asyncio.gather(*(self._usage_of(viewer.identity, row.id) for row in rows))
        return {row.id: usage for row, usage in zip(rows, usages, strict=True) if usage is not None}

    async def _usage_of(self, who: Identity, session_id: SessionId) -> dict[str, Any] | None:
        try:
            usage = await self._sessions.usage(who, session_id)
        except BasculeError:
            return None  # the session is ending; the page sees that in its state
        return None if usage is None else asdict(usage)

    async def _answer(self, viewer: Viewer, request: Mapping[str, Any]) -> None:
        place_id = WindowId(str(request.get("window_id") or request.get("session_id")))
        question, answer = str(request.get("id")), str(request.get("answer"))
        await self._sockets.answer_as(viewer.identity, place_id, question, answer)

    async def _play_demo(self, viewer: Viewer, _request: Mapping[str, Any]) -> None:
        await self._demos.play(viewer.identity)

    async def _skip_demo(self, viewer: Viewer, _request: Mapping[str, Any]) -> None:
        self._demos.skip(viewer.identity)

    async def _remove_demo(self, viewer: Viewer, _request: Mapping[str, Any]) -> None:
        await self._demos.remove(viewer.identity)

    async def _open_terminal(self, viewer: Viewer, request: Mapping[str, Any]) -> object:
        start = request.get("start")
        return await viewer.open_terminal(
            *_terminal(request),
            columns=_number(request, "columns"),
            rows=_number(request, "rows"),
            start=start if isinstance(start, int) else None,
        )

    async def _leave_terminal(self, viewer: Viewer, request: Mapping[str, Any]) -> None:
        await viewer.leave_terminal(*_terminal(request))

    async def _close_terminal(self, viewer: Viewer, request: Mapping[str, Any]) -> None:
        session_id, name = _terminal(request)
        await viewer.leave_terminal(session_id, name)
        client = await self._sessions.sandbox_client(viewer.identity, SessionId(session_id))
        await client.close_terminal(name)

    async def _on_keys(self, sid: str, data: object) -> None:
        """Queue keystrokes. Never awaits, so that they stay in order."""
        viewer = self._viewers.get(sid)
        if viewer is None or not isinstance(data, Mapping):
            return
        allowed = ("data", "columns", "rows")
        keys = {name: data[name] for name in allowed if isinstance(data.get(name), str | int)}
        viewer.type(str(data.get("session_id")), str(data.get("name")), keys)


def _may_see(who: Identity, window: Window) -> bool:
    if who.scope == "session" and window.session_id != who.session_id:
        return False
    return who.may_see(window.owner)


def _kind_and_id(request: Mapping[str, Any]) -> tuple[str, str]:
    kind, place_id = request.get("kind"), request.get("id")
    if kind not in ("session", "window") or not isinstance(place_id, str):
        raise InvalidRequest('The request needs "kind" ("session" or "window") and "id"')
    return kind, place_id


def _terminal(request: Mapping[str, Any]) -> tuple[str, str]:
    session_id, name = request.get("session_id"), request.get("name")
    if not isinstance(session_id, str) or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequest("A terminal is named by `session_id` and a `name` of a-z, 0-9 and -")
    return session_id, name


def _number(request: Mapping[str, Any], name: str) -> int:
    value = request.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequest(f"`{name}` must be an integer")
    return value
