"""The hub's Socket.IO server: windows on one namespace, runtimes on another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import socketio

import bascule
from bascule.core.actions import ACTIONS
from bascule.core.contracts import Closable
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    HubUnreachable,
    InvalidAction,
    InvalidNonce,
    NoSuchWindow,
    QuotaExceeded,
    VersionMismatch,
    WindowGone,
    WindowTaken,
    WindowUnhealthy,
)
from bascule.core.identity import EventId
from bascule.core.printable import one_line
from bascule.core.sessions import SessionId
from bascule.core.windows import Folder, Window, WindowId
from bascule.link.socketio import PROTOCOL, TextPacket, ensure_protocol
from bascule.wire import decode_action, error_to_wire
from bascule.wire.windows import decode_folders

from .abandoned_actions import AbandonedActions
from .action_queues import ActionQueues
from .approvals import Approvals
from .changes import HubChanges
from .guard import IDENTITY
from .health import Health
from .identity import Identity
from .leases import TokenLeases
from .one_time_codes import Nonces
from .records.record import Record
from .records.records import Records
from .registry import Host, Registry, advice
from .replies import App
from .settings import HubSettings
from .store import Store
from .switchboard import Ask, Asker, Event, Switchboard
from .tokens import hash_of
from .window_timelines import WindowTimelines

logger = logging.getLogger(__name__)

WINDOW: Final = "/window"
RUNTIME: Final = "/runtime"
PAGE: Final = "/page"
"""Where the hub's own web page listens; `web.feed` speaks there."""

_RECEIVED: Final = {"received": True}
_CANCEL: Final = 10.0
"""Seconds a window has to end an action."""
_LAG: Final = 256
"""Messages a runtime may be behind before it misses progress; answers are never left out."""
_FLUSH: Final = 1.0
_NAME: Final = 1000
_PATH: Final = 4096
_ITEMS: Final = 1000
"""What is kept of a window's own words, as when it registers."""
MOST_WINDOWS: Final = 32
"""Windows of one session at a time. A person has one for each browser tab."""
_MOST_IDS: Final = 1000
"""Windows that a session may ever have while the hub runs: each is kept in the database."""


class _Manager(socketio.AsyncManager):  # type: ignore[misc]  # the library has no types
    """Sends to one client directly, where the library would create a task: there are no rooms."""

    async def emit(
        self,
        event: str,
        data: object,
        namespace: str,
        *args: Any,
        to: str | None = None,
        callback: object = None,
        **more: Any,
    ) -> None:
        eio_sid = self.eio_sid_from_sid(to, namespace) if to and callback is None else None
        if eio_sid is None:
            await super().emit(event, data, namespace, *args, to=to, callback=callback, **more)
            return
        packet = TextPacket(namespace=namespace, data=[event, data])
        await self.server.eio.send(eio_sid, packet.encode())


class RuntimeSocket(Asker):
    """A runtime at the other end of a socket."""

    def __init__(self, server: socketio.AsyncServer, sid: str, identity: Identity) -> None:
        self.agent = identity.name
        self.agent_id = identity.agent_id
        self.identity = identity
        self._server = server
        self._sid = sid

    async def answer(self, observation: Event) -> None:
        await self.tell("oh_event", observation)

    async def progress(self, frame: Event) -> None:
        if self._lag() < _LAG:
            await self.tell("oh_progress", frame)

    async def fail(self, action_id: EventId | None, error: BasculeError) -> None:
        await self.tell("oh_failed", {"cause": action_id, **error_to_wire(error)})

    async def tell(self, event: str, data: object) -> None:
        await self._server.emit(event, data, to=self._sid, namespace=RUNTIME)

    def _lag(self) -> int:
        eio_sid = self._server.manager.eio_sid_from_sid(self._sid, RUNTIME)
        socket = self._server.eio.sockets.get(eio_sid)
        return 0 if socket is None else int(socket.queue.qsize())


@dataclass(frozen=True, slots=True)
class Registration:
    """A validated registration of a window."""

    nonce: str
    window: Window
    window_key: str
    host_id: str


class Sockets(Closable):
    """Sends actions to windows and observations back; keeps the registry in step with the
    sockets."""

    def __init__(
        self,
        settings: HubSettings,
        store: Store,
        *,
        registry: Registry,
        switchboard: Switchboard,
        records: Records | None = None,
        changes: HubChanges | None = None,
        leases: TokenLeases | None = None,
    ) -> None:
        self.leases = leases or TokenLeases()
        self._settings = settings
        self._store = store
        self._registry = registry
        self._switchboard = switchboard
        self._changes = changes or HubChanges()
        self.approvals = Approvals(self._changes)
        self.timelines = WindowTimelines(records or Records(settings), registry)
        self._nonces = Nonces(settings.nonce_lifetime)
        self._windows: dict[str, Identity] = {}
        self._runtimes: dict[str, RuntimeSocket] = {}
        self._held: dict[str, ExitStack] = {}
        """Leases of runtimes, by their sockets."""
        self._ids: dict[str, set[WindowId]] = {}
        """Ids of windows by the session they are of."""
        self._window_change: asyncio.Future[None] | None = None
        self._turns = ActionQueues()
        self.wake: Callable[[SessionId], Awaitable[None]] | None = None
        """Awaited before a session's window is given an action: it may be paused."""
        self._server = socketio.AsyncServer(
            async_mode="asgi",
            namespaces=[WINDOW, RUNTIME, PAGE],
            transports=["websocket"],
            cors_allowed_origins=[],  # the guard has looked at the origin
            max_http_buffer_size=1 << 40,  # the listener closes what sends larger frames
            http_compression=False,
            ping_interval=10,
            ping_timeout=20,  # a busy machine may keep a client from answering for a while
            serializer=TextPacket,
            client_manager=_Manager(),
        )
        self.health = Health(
            settings,
            registry,
            probe=self._probe,
            on_change=self._health_changed,
            on_forgotten=self._forgotten,
        )
        self._departures = AbandonedActions(switchboard, self._tell_left)
        self._listen()

    @property
    def app(self) -> App:
        app: App = socketio.ASGIApp(self._server, socketio_path="/socket.io")
        return app

    @property
    def server(self) -> socketio.AsyncServer:
        """The Socket.IO server, for other namespaces."""
        return self._server

    @property
    def runtimes(self) -> int:
        return len(self._runtimes)

    async def aclose(self) -> None:
        """Fail everyone who waits. The listener closes the sockets themselves."""
        await self._switchboard.fail_all(HubUnreachable("The hub is stopping", sent=True))
        queues = [socket.queue.join() for socket in self._server.eio.sockets.values()]
        if queues:
            await asyncio.wait([asyncio.ensure_future(each) for each in queues], timeout=_FLUSH)
        await self._departures.aclose()
        await self.health.aclose()
        await self._server.shutdown()

    # Asking windows -----------------------------------------------------------------------

    async def hand_over(
        self, asker: Asker, identity: Identity, window_id: WindowId, event: Mapping[str, Any]
    ) -> None:
        """Send an action to the host that speaks for the window; `asker` gets the answer.

        Actions for a window are sent in the order of these calls. Raises what is in the way;
        then nothing was sent.
        """
        action_id = ensure_action(event)
        self._ensure_visible(identity, window_id)
        # No await up to here: the turn has to be taken in the order in which the calls came.
        async with self._turns.turn(window_id, action_id, asker) as turn:
            if (session_id := self._registry.session_of(window_id)) and self.wake is not None:
                await self.wake(SessionId(session_id))
            record = await self.timelines.of(window_id)
            await turn.wait()
            await self._send(asker, window_id, record, event)

    async def _send(
        self, asker: Asker, window_id: WindowId, record: Record, event: Mapping[str, Any]
    ) -> None:
        action_id = EventId(str(event["id"]))
        host = self._speaker(window_id, asker)
        wants_progress = bool(event.get("progress"))
        ask = Ask(action_id, str(event["action"]), window_id, host, asker, wants_progress)
        self._switchboard.begin(ask)
        stamped = {**event, "agent": asker.agent, "agent_id": asker.agent_id}
        self.timelines.began(record, window_id, event, asker.agent)
        if record.is_watched:
            stamped["progress"] = True
        # Nobody asks whether it arrived: what is not answered is sent again.
        await self._server.emit("oh_event", stamped, to=host.sid, namespace=WINDOW)

    def _speaker(self, window_id: WindowId, asker: Asker) -> Host:
        """The newest host; but while another host runs an action of this agent, that host, so that
        input and interrupts reach the running program."""
        newest = self._registry.speaker(window_id)
        if self._registry.has_several(window_id):
            return self._switchboard.host_of(window_id, asker) or newest
        return newest

    async def cancel(self, asker: Asker, action_id: EventId) -> bool:
        """Make the window end an action of this caller, and wait for that.

        False: no such action.
        """
        if self._turns.give_up(action_id, asker):
            return True  # it waited for its turn and is not sent any more
        ask = self._switchboard.drop(action_id, asker)
        return ask is not None and await self._end_action(ask)

    def leave(self, asker: Asker) -> None:
        """The asker is gone. Its actions continue; windows withdraw questions about them unless
        somebody sends the same id again."""
        self._departures.left(self._switchboard.leave(asker))

    async def _end_action(self, ask: Ask) -> bool:
        if not ask.host.is_connected:
            return False
        try:
            answer = await self._server.call(
                "oh_cancel",
                {"id": ask.id},
                to=ask.host.sid,
                namespace=WINDOW,
                timeout=_CANCEL,
            )
        except socketio.exceptions.TimeoutError:
            return False
        return isinstance(answer, Mapping) and bool(answer.get("known"))

    async def received(
        self, identity: Identity, window_id: WindowId, ids: Sequence[EventId]
    ) -> None:
        """Tell the window's hosts that the observations of these actions arrived."""
        try:
            self._ensure_visible(identity, window_id)
        except NoSuchWindow:
            return  # when it comes back it keeps them until their life is over
        for host in self._registry.connected(window_id):
            await self._server.emit(
                "oh_received", {"ids": list(ids)}, to=host.sid, namespace=WINDOW
            )

    def ensure_visible(self, identity: Identity, window_id: WindowId) -> Window:
        """The window, if this identity may see it. Raises `NoSuchWindow`."""
        self._ensure_visible(identity, window_id)
        return self._registry.window(window_id)

    def _ensure_visible(self, identity: Identity, window_id: WindowId) -> None:
        is_seen = identity.may_see(self._registry.owner(window_id))
        if identity.scope == "session":  # no other of its owner's is its business
            is_seen &= self._registry.session_of(window_id) == identity.session_id
        if not is_seen:
            raise NoSuchWindow(
                f"No window {window_id!r} is registered here", window_id=window_id, sent=False
            )

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done at the next change of any window's status."""
        if self._window_change is None:
            self._window_change = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._window_change)

    # Coming and going ---------------------------------------------------------------------

    async def register(self, identity: Identity, asked: Registration) -> bool:
        """Register the window behind the nonce's socket. True if its host was registered before.

        Raises `InvalidNonce` and `WindowTaken`.
        """
        sid = self._nonces.redeem(asked.nonce)
        if self._windows.get(sid) != identity:
            raise InvalidNonce("This nonce was issued to another token")
        window = replace(asked.window, owner=identity.owner, session_id=identity.session_id or "")
        self._ensure_few(window)
        key_hash = hash_of(asked.window_key)
        if not await self._store.bind_window(window.id, key_hash, identity.owner):
            raise WindowTaken(
                f"The window id {window.id} belongs to another key or owner", window_id=window.id
            )
        if sid not in self._windows:
            raise InvalidNonce("The socket of this nonce is gone; connect again")
        host, replaced = self._registry.register(window, asked.host_id, sid)
        for before in replaced:
            await self._end(before)
            if before.sid != sid:
                self._close_transport(before.sid)
        logger.info("window %s (%s) registered as host %s", window.name, window.id, host.id)
        self.health.watch(host)
        await self._announce(host)
        return bool(replaced)

    def _ensure_few(self, window: Window) -> None:
        """Raise `QuotaExceeded` if the session has too many windows."""
        if not window.session_id:
            return
        known = {
            each.id for each in self._registry.windows() if each.session_id == window.session_id
        }
        ever = self._ids.setdefault(window.session_id, set())
        for limit, taken in ((MOST_WINDOWS, known), (_MOST_IDS, ever)):
            if window.id not in taken and len(taken) >= limit:
                raise QuotaExceeded(
                    f"This session has {limit} windows already; close one, or stop the session",
                    limit=limit,
                    taken=len(taken),
                )
        ever.add(window.id)

    def forget_session(self, session_id: SessionId) -> None:
        """Forget the windows of a session that was removed or restarted."""
        self._ids.pop(session_id, None)

    async def unregister(self, window_id: WindowId) -> None:
        for host in self._registry.unregister(window_id):
            await self._end(host)
            if host.sid in self._windows:
                await self._server.disconnect(host.sid, namespace=WINDOW)
            await self._announce(host)

    async def _end(self, host: Host) -> None:
        self.health.leave(host)
        self._left(host)
        await self._switchboard.fail_host(host, _gone(host))

    async def _announce(self, host: Host) -> None:
        """Tell runtimes the window's status; those that wait for it send again."""
        try:
            status = self._registry.window(host.window_id).status
        except NoSuchWindow:
            status = "gone"
        news = {"window_id": host.window_id, "status": status}
        self._changes.tell("windows")
        if self._window_change is not None:
            self._window_change.set_result(None)
            self._window_change = None
        for runtime in list(self._runtimes.values()):
            if runtime.identity.may_see(host.owner):
                await runtime.tell("window.status", news)

    def _left(self, host: Host) -> None:
        """The host is gone, and its questions with it. Results may arrive if it returns."""
        self.approvals.withdraw(host)
        self.timelines.lost(host.window_id, "The window lost its connection")

    async def _tell_left(self, host: Host, ids: Sequence[EventId]) -> None:
        await self._server.emit("askers.left", {"ids": list(ids)}, to=host.sid, namespace=WINDOW)

    async def _forgotten(self, host: Host) -> None:
        await self._announce(host)
        if host.sid not in self._windows:
            return
        if self._registry.has_speaker(host.window_id):
            await self._server.emit("superseded", {}, to=host.sid, namespace=WINDOW)
        self._close_transport(host.sid)

    def _close_transport(self, sid: str) -> None:
        """Close the connection without a message; a live client reconnects by itself."""
        eio_sid = self._server.manager.eio_sid_from_sid(sid, WINDOW)
        transport = self._server.eio.sockets.get(eio_sid)
        if transport is not None:
            # The library's own `disconnect` sends a packet that VS Code's client does not heed;
            # this ends the writer, and the writer closes the WebSocket.
            transport.queue.put_nowait(None)

    # Health -------------------------------------------------------------------------------

    async def _probe(self, host: Host) -> bool:
        try:
            answer = await self._server.call(
                "health",
                {},
                to=host.sid,
                namespace=WINDOW,
                timeout=self._settings.probe_timeout,
            )
        except socketio.exceptions.TimeoutError:
            return False
        return isinstance(answer, Mapping) and answer.get("ok") is True

    async def _health_changed(self, host: Host) -> None:
        if not host.is_healthy:
            await self._switchboard.fail_host(host, self._why_silent(host))
        await self._announce(host)

    def _why_silent(self, host: Host) -> BasculeError:
        if self._registry.is_superseded(host):
            return _gone(host)  # asked again, the host that lives tells what it knows
        return WindowUnhealthy(
            f"The editor of the window {host.window_id} stopped answering",
            window_id=host.window_id,
            sent=True,
        )

    # Events -------------------------------------------------------------------------------

    def _listen(self) -> None:
        on = self._server.on
        on("connect", self._window_connected, namespace=WINDOW)
        on("disconnect", self._window_lost, namespace=WINDOW)
        for name in ("oh_event", "oh_user_action"):
            on(name, self._observation_came, namespace=WINDOW)
        on("oh_progress", self._progress_came, namespace=WINDOW)
        on("window.changed", self._window_changed, namespace=WINDOW)
        for name in ("approval.requested", "approval.answered"):
            on(name, self._window_asks(name), namespace=WINDOW)
        on("connect", self._runtime_connected, namespace=RUNTIME)
        on("disconnect", self._runtime_lost, namespace=RUNTIME)
        on("oh_event", self._action_came, namespace=RUNTIME)
        on("oh_cancel", self._cancel_came, namespace=RUNTIME)
        on("oh_received", self._received_came, namespace=RUNTIME)
        on("approval.answered", self._approval_answered, namespace=RUNTIME)

    async def _window_connected(self, sid: str, environ: Mapping[str, Any], auth: object) -> None:
        identity = _identity_in(environ)
        _ensure_scope(identity, "window", "session")
        self._windows[sid] = identity
        self._greet(sid, WINDOW, auth)

    async def _window_lost(self, sid: str, reason: object) -> None:
        self._windows.pop(sid, None)
        self._nonces.withdraw(sid)
        was_cut_off = reason != self._server.reason.CLIENT_DISCONNECT
        host = self._registry.lost(sid, was_cut_off=was_cut_off)
        if host is None:
            return
        logger.info("window %s lost its host %s", host.window_id, host.id)
        self.health.lost(host)
        self._left(host)
        await self._switchboard.fail_host(host, _gone(host))
        await self._announce(host)

    async def _observation_came(self, sid: str, data: object) -> object:
        host = self._registry.host_of(sid)
        if host is not None and isinstance(data, Mapping):
            self.timelines.ended(host.window_id, data)
            await self._switchboard.answer(host.window_id, data)
        return _RECEIVED

    async def _progress_came(self, sid: str, data: object) -> None:
        host = self._registry.host_of(sid)
        if host is not None and isinstance(data, Mapping):
            self.timelines.printed(host.window_id, data)
            await self._switchboard.progress(host.window_id, data)

    async def _window_changed(self, sid: str, data: object) -> None:
        host = self._registry.host_of(sid)
        if host is None or not isinstance(data, Mapping):
            return
        window = self._registry.window(host.window_id)
        if isinstance(name := data.get("name"), str):
            window = replace(window, name=one_line(name[:_NAME]))
        if (folders := decode_folders(data.get("folders"))) is not None:
            kept = [Folder(each.name[:_NAME], each.path[:_PATH]) for each in folders[:_ITEMS]]
            window = replace(window, folders=tuple(kept))
        if isinstance(able := data.get("capabilities"), list):
            words = frozenset(one_line(str(each)[:_NAME]) for each in able[:_ITEMS])
            window = replace(window, capabilities=words)
        self._registry.change(host, window)
        self._changes.tell("windows")

    def _window_asks(self, event: str) -> Any:
        async def relay(sid: str, data: object) -> None:
            host = self._registry.host_of(sid)
            if host is None or not isinstance(data, Mapping):
                return
            told = {**data, "window_id": host.window_id}
            if event == "approval.requested":
                try:
                    self.approvals.ask(host, data)
                except BasculeError as error:
                    logger.warning(
                        "a question of window %s can be answered only there: %s",
                        host.window_id,
                        error.message,
                    )
                    return
            else:
                self.approvals.settle(
                    host.window_id, str(data.get("id")), str(data.get("by") or "its window")
                )
            for runtime in list(self._runtimes.values()):
                if runtime.identity.is_admin:
                    await runtime.tell(event, told)

        return relay

    async def _runtime_connected(self, sid: str, environ: Mapping[str, Any], auth: object) -> None:
        identity = _identity_in(environ)
        _ensure_scope(identity, "agent", "admin")
        runtime = self._runtimes[sid] = RuntimeSocket(self._server, sid, identity)
        self._held[sid] = ExitStack()
        holding = self.leases.hold(identity.token_hash, lambda: self._revoked(runtime))
        self._held[sid].enter_context(holding)
        self._greet(sid, RUNTIME, auth)

    async def _runtime_lost(self, sid: str, _reason: object) -> None:
        self._held.pop(sid, ExitStack()).close()
        runtime = self._runtimes.pop(sid, None)
        if runtime is not None:
            self.leave(runtime)

    def _revoked(self, runtime: RuntimeSocket) -> None:
        """End the actions of a runtime whose token ended. The guard closes its socket."""
        for action_id in self._switchboard.asked_by(runtime):
            if (ask := self._switchboard.drop(action_id, runtime)) is not None:
                self._server.start_background_task(self._end_action, ask)

    async def _action_came(self, sid: str, data: object) -> object:
        runtime = self._runtimes.get(sid)
        if runtime is None:  # it left before its message was looked at
            return None
        event = data.get("event") if isinstance(data, Mapping) else None
        try:
            window_id, event = _addressed(data, event)
            await self.hand_over(runtime, runtime.identity, window_id, event)
            if sid not in self._runtimes:  # it left before the action was sent
                self.leave(runtime)
        except BasculeError as error:
            cause = event.get("id") if isinstance(event, Mapping) else None
            await runtime.fail(cause, error)
        return _RECEIVED

    async def _cancel_came(self, sid: str, data: object) -> object:
        action_id = data.get("id") if isinstance(data, Mapping) else None
        runtime = self._runtimes.get(sid)
        if runtime is None or not isinstance(action_id, str):
            return {"known": False}
        return {"known": await self.cancel(runtime, EventId(action_id))}

    async def _received_came(self, sid: str, data: object) -> None:
        runtime = self._runtimes.get(sid)
        if runtime is None or not isinstance(data, Mapping):
            return
        window_id, ids = data.get("window_id"), data.get("ids")
        if isinstance(window_id, str) and isinstance(ids, list):
            known = [EventId(each) for each in ids if isinstance(each, str)]
            await self.received(runtime.identity, WindowId(window_id), known)

    async def _approval_answered(self, sid: str, data: object) -> None:
        runtime = self._runtimes.get(sid)
        if runtime is None or not runtime.identity.is_admin or not isinstance(data, Mapping):
            return
        window_id, question = WindowId(str(data.get("window_id"))), str(data.get("id"))
        try:
            await self.answer(window_id, question, str(data.get("answer")), by=runtime.agent)
        except BasculeError:
            return  # it was answered, or its window is gone and the question with it

    async def answer(self, window_id: WindowId, question: str, answer: str, *, by: str) -> None:
        """Answer a question of a window.

        Raises `AlreadyAnswered`; questions end with their window.
        """
        host = self.approvals.answer(window_id, question, answer, by)
        told = {"id": question, "answer": answer, "by": by}
        await self._server.emit("approval.answered", told, to=host.sid, namespace=WINDOW)

    # Greeting -----------------------------------------------------------------------------

    def _greet(self, sid: str, namespace: str, auth: object) -> None:
        # Once this handler has returned the library tells the client that it is connected, and
        # only after that may we speak: the task's first step comes after that was queued.
        self._server.start_background_task(self._say_hello, sid, namespace, auth)

    async def _say_hello(self, sid: str, namespace: str, auth: object) -> None:
        said = auth if isinstance(auth, Mapping) else {}
        try:
            ensure_protocol(said.get("protocol"), who=str(said.get("client") or "the client"))
        except VersionMismatch as error:
            await self._server.emit("refused", error_to_wire(error), to=sid, namespace=namespace)
            await self._server.disconnect(sid, namespace=namespace)
            return
        hello = {
            "protocol": PROTOCOL,
            "version": bascule.__version__,
            "limits": {"message_bytes": self._settings.message_bytes},
            "heartbeat": self._settings.heartbeat,
        }
        if namespace == WINDOW:
            hello["nonce"] = self._nonces.issue(sid)
        await self._server.emit("hello", hello, to=sid, namespace=namespace)


def ensure_action(event: Mapping[str, Any]) -> EventId:
    """The id of an encoded action. Raises `InvalidAction`.

    A kind that only a newer window knows is let through; the window judges it.
    """
    action_id = event.get("id")
    try:
        UUID(action_id)
    except (ValueError, TypeError, AttributeError):
        raise InvalidAction("An action for a window needs an `id` that is a UUID") from None
    if not isinstance(event.get("action"), str):
        raise InvalidAction("An action needs its kind in `action`")
    if event["action"] in ACTIONS:
        decode_action(event)
    return EventId(str(action_id))


def _addressed(data: object, event: object) -> tuple[WindowId, Mapping[str, Any]]:
    window_id = data.get("window_id") if isinstance(data, Mapping) else None
    if not isinstance(window_id, str) or not isinstance(event, Mapping):
        raise InvalidAction("`oh_event` carries {window_id, event}, with the action as `event`")
    return WindowId(window_id), event


def _identity_in(environ: Mapping[str, Any]) -> Identity:
    scope = environ["asgi.scope"]
    identity: Identity = scope[IDENTITY]
    headers = dict(scope["headers"])
    if b"cookie" in headers and b"authorization" not in headers:
        error = AccessDenied("A browser's cookie is good on /page alone; a program brings a token")
        raise socketio.exceptions.ConnectionRefusedError(error.message, error_to_wire(error))
    return identity


def _ensure_scope(identity: Identity, *scopes: str) -> None:
    if identity.scope not in scopes:
        error = AccessDenied(
            f"A token of scope {identity.scope} may not connect here; "
            f"one of scope {' or '.join(scopes)} may"
        )
        raise socketio.exceptions.ConnectionRefusedError(error.message, error_to_wire(error))


def _gone(host: Host) -> WindowGone:
    return WindowGone(
        f"The window {host.window_id} lost its connection{advice([host])}",
        window_id=host.window_id,
        sent=True,
    )
