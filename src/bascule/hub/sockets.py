"""The windows that are connected to the hub by Socket.IO, and the actions sent to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import socketio

from bascule.core.contracts import Closable
from bascule.core.errors import (
    AccessDenied,
    AlreadyAnswered,
    BasculeError,
    HubUnreachable,
    InvalidAction,
    InvalidNonce,
    NoSuchWindow,
    QuotaExceeded,
    WindowGone,
    WindowTaken,
    WindowUnhealthy,
)
from bascule.core.identity import EventId
from bascule.core.kinds import ACTIONS
from bascule.core.printable import one_line
from bascule.core.sessions import SessionId
from bascule.core.tracing import TRACEPARENT_FIELD, Tracing
from bascule.core.windows import Folder, Window, WindowId
from bascule.serving.asgi import App
from bascule.wire import decode_action
from bascule.wire.windows import decode_folders

from .abandoned_actions import AbandonedActions
from .accounts.audit_log import AuditLog
from .action_queues import ActionQueues
from .action_trace import ActionTrace
from .approvals import Approvals, PlaceId
from .changes import HubChanges
from .health import Health
from .identity import Identity
from .leases import TokenLeases
from .one_time_codes import Nonces
from .records.record import Record
from .records.records import Records
from .registry import Host, Registry, reconnect_advice
from .runtime_sockets import RECEIVED, RuntimeSockets
from .settings import HubSettings
from .socketio_server import WINDOW, Greeter, connecting_identity, make_server
from .store import Store
from .switchboard import Caller, PendingAction, Switchboard
from .tokens import hash_of
from .window_reviews import WindowReviews
from .window_timelines import WindowTimelines, without_checkpoint

logger = logging.getLogger(__name__)

_CANCEL_TIMEOUT: Final = 10.0
"""Seconds for a window to end an action."""
_FLUSH_TIMEOUT: Final = 1.0
"""Maximum seconds to wait until queued messages are sent when the hub stops."""
_MAX_NAME_LENGTH: Final = 1000
_MAX_PATH_LENGTH: Final = 4096
_MAX_ITEMS: Final = 1000
"""Limits on the properties that a window reports, the same as at registration: characters of a name
and of a path, and number of items."""
MAX_WINDOWS: Final = 32
"""Maximum number of simultaneous windows of one session. A person has one for each browser tab."""
_MAX_WINDOW_IDS: Final = 1000
"""Maximum number of window ids that a session may use until it ends. Limited because the database
stores each id."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A validated registration of a window."""

    nonce: str
    window: Window
    window_key: str
    host_id: str
    reviews_merges: bool = False


class Sockets(Closable):
    """Sends actions to windows and observations back to callers; keeps the registry in step with
    the sockets."""

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
        tracing: Tracing | None = None,
    ) -> None:
        self.leases = leases or TokenLeases()
        self._tracing = tracing
        self._settings = settings
        self._store = store
        self._registry = registry
        self._switchboard = switchboard
        self._changes = changes or HubChanges()
        self.approvals = Approvals(self._changes)
        self.timelines = WindowTimelines(records or Records(settings), registry)
        self._nonces = Nonces(settings.nonce_lifetime)
        self._windows: dict[str, Identity] = {}
        """Identities of connected windows, by the ids of their sockets."""
        self._used_window_ids: dict[str, set[WindowId]] = {}
        """Window ids that each session has used."""
        self._window_change: asyncio.Future[None] | None = None
        self._queues = ActionQueues()
        self.wake: Callable[[SessionId], Awaitable[None]] | None = None
        """Awaited before an action is sent to a session's window: the session may be paused."""
        self._server = make_server()
        self.reviews = WindowReviews(self._server, registry, self._changes)
        self._greeter = Greeter(self._server, settings, self._nonces.issue)
        self._runtimes = RuntimeSockets(
            self._server, self._greeter, leases=self.leases, actions=self
        )
        self.health = Health(
            settings,
            registry,
            probe=self._probe,
            on_change=self._on_health_changed,
            on_forgotten=self._on_forgotten,
        )
        self._abandoned = AbandonedActions(switchboard, self._report_abandoned)
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
        """Fail all pending actions. The listener closes the sockets."""
        await self._switchboard.fail_all(HubUnreachable("The hub is stopping", sent=True))
        queues = [socket.queue.join() for socket in self._server.eio.sockets.values()]
        if queues:
            await asyncio.wait(
                [asyncio.ensure_future(each) for each in queues], timeout=_FLUSH_TIMEOUT
            )
        await self._abandoned.aclose()
        await self.health.aclose()
        await self._server.shutdown()

    # Actions ------------------------------------------------------------------------------

    async def send_action(
        self,
        caller: Caller,
        identity: Identity,
        window_id: WindowId,
        event: Mapping[str, Any],
        *,
        is_valid: bool = False,
    ) -> None:
        """Send an action to the host that answers for the window; `caller` gets the answer.

        Actions for a window are sent in the order of these calls. If this raises, nothing was
        sent. `is_valid`: the action was decoded in this process, so only its id is checked.
        """
        action_id = _ensure_id(event) if is_valid else ensure_action(event)
        self._ensure_visible(identity, window_id)
        trace = None if self._tracing is None else ActionTrace(self._tracing, event)
        try:
            # No await before this line: actions must join the queue in the order of the calls.
            async with self._queues.turn(window_id, action_id, caller) as queued:
                if (session_id := self._registry.session_of(window_id)) and self.wake is not None:
                    await self.wake(SessionId(session_id))
                record = await self.timelines.of(window_id)
                await queued.wait()
                await self._send(caller, window_id, record, event, trace)
        except BaseException as error:
            if trace is not None:
                trace.end(error.code if isinstance(error, BasculeError) else "cancelled")
            raise

    async def _send(
        self,
        caller: Caller,
        window_id: WindowId,
        record: Record,
        event: Mapping[str, Any],
        trace: ActionTrace | None,
    ) -> None:
        action_id = EventId(str(event["id"]))
        host = self._host_for(window_id, caller)
        wants_progress = bool(event.get("progress"))
        pending = PendingAction(
            action_id, str(event["action"]), window_id, host, caller, wants_progress, trace
        )
        self._switchboard.begin(pending)
        stamped = {**event, "agent": caller.agent, "agent_id": caller.agent_id}
        self.timelines.record_action(record, window_id, event, caller.agent)
        if record.is_watched:
            stamped["progress"] = True
        if trace is not None:
            stamped[TRACEPARENT_FIELD] = trace.begin_window(window_id)
        # No acknowledgement is needed: the caller sends an unanswered action again.
        await self._server.emit("oh_event", stamped, to=host.sid, namespace=WINDOW)

    def _host_for(self, window_id: WindowId, caller: Caller) -> Host:
        """The host to send an action to: a host that runs an action of this agent, so that input
        and interrupts reach the running program; otherwise the newest host."""
        newest = self._registry.active_host(window_id)
        if self._registry.has_several_hosts(window_id):
            return self._switchboard.host_of(window_id, caller) or newest
        return newest

    async def cancel(self, caller: Caller, action_id: EventId) -> bool:
        """Make the window end an action of this caller, and wait for its reply.

        False if the action is not known, or if the window does not reply.
        """
        if self._queues.cancel(action_id, caller):
            return True  # the action was still queued and will not be sent
        pending = self._switchboard.drop(action_id, caller)
        return pending is not None and await self._end_action(pending)

    def leave(self, caller: Caller) -> None:
        """Handle the disconnect of a caller. Its actions continue; windows withdraw questions about
        them unless somebody sends the same id again."""
        self._abandoned.watch(self._switchboard.leave(caller))

    def end_all(self, caller: Caller) -> None:
        """End the actions of a runtime whose token ended. The guard closes its socket."""
        for action_id in self._switchboard.actions_of(caller):
            if (pending := self._switchboard.drop(action_id, caller)) is not None:
                self._server.start_background_task(self._end_action, pending)

    async def _end_action(self, pending: PendingAction) -> bool:
        if not pending.host.is_connected:
            return False
        try:
            answer = await self._server.call(
                "oh_cancel",
                {"id": pending.id},
                to=pending.host.sid,
                namespace=WINDOW,
                timeout=_CANCEL_TIMEOUT,
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
            return  # a window that returns keeps the observations until they expire
        for host in self._registry.connected_hosts(window_id):
            await self._server.emit(
                "oh_received", {"ids": list(ids)}, to=host.sid, namespace=WINDOW
            )

    def ensure_visible(self, identity: Identity, window_id: WindowId) -> Window:
        """The window, if this identity may see it. Raises `NoSuchWindow`."""
        self._ensure_visible(identity, window_id)
        return self._registry.window(window_id)

    def _ensure_visible(self, identity: Identity, window_id: WindowId) -> None:
        is_visible = identity.may_see(self._registry.owner(window_id))
        if identity.scope == "session":  # it may not see other windows of its owner
            is_visible &= self._registry.session_of(window_id) == identity.session_id
        if not is_visible:
            raise NoSuchWindow(
                f"No window {window_id!r} is registered here", window_id=window_id, sent=False
            )

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done at the next change of any window's status."""
        if self._window_change is None:
            self._window_change = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._window_change)

    # Registration -------------------------------------------------------------------------

    async def register(self, identity: Identity, registration: Registration) -> bool:
        """Register the window behind the nonce's socket. True if this replaces a registered host.

        Raises `InvalidNonce`, `QuotaExceeded` and `WindowTaken`.
        """
        sid = self._nonces.redeem(registration.nonce)
        if self._windows.get(sid) != identity:
            raise InvalidNonce("This nonce was issued to another token")
        window = replace(
            registration.window, owner=identity.owner, session_id=identity.session_id or ""
        )
        self._ensure_window_quota(window)
        key_hash = hash_of(registration.window_key)
        if not await self._store.bind_window(window.id, key_hash, identity.owner):
            raise WindowTaken(
                f"The window id {window.id} belongs to another key or owner", window_id=window.id
            )
        if sid not in self._windows:
            raise InvalidNonce("The socket of this nonce is gone; connect again")
        host, replaced = self._registry.register(window, registration.host_id, sid)
        host.reviews_merges = registration.reviews_merges
        for old_host in replaced:
            await self._end_host(old_host)
            if old_host.sid != sid:
                self._close_transport(old_host.sid)
        logger.info("window %s (%s) registered as host %s", window.name, window.id, host.id)
        self.health.watch(host)
        await self._announce(host)
        return bool(replaced)

    def _ensure_window_quota(self, window: Window) -> None:
        """Raise `QuotaExceeded` if the session has too many windows."""
        if not window.session_id:
            return
        registered = {
            other.id for other in self._registry.windows() if other.session_id == window.session_id
        }
        used = self._used_window_ids.setdefault(window.session_id, set())
        for limit, taken in ((MAX_WINDOWS, registered), (_MAX_WINDOW_IDS, used)):
            if window.id not in taken and len(taken) >= limit:
                raise QuotaExceeded(
                    f"This session has {limit} windows already; close one, or stop the session",
                    limit=limit,
                    taken=len(taken),
                )
        used.add(window.id)

    def forget_session(self, session_id: SessionId) -> None:
        """Forget the window ids of a session whose sandbox has ended."""
        self._used_window_ids.pop(session_id, None)

    async def unregister(self, window_id: WindowId) -> None:
        for host in self._registry.unregister(window_id):
            await self._end_host(host)
            if host.sid in self._windows:
                await self._server.disconnect(host.sid, namespace=WINDOW)
            await self._announce(host)

    async def _end_host(self, host: Host) -> None:
        self.health.stop_watching(host)
        self._withdraw_lost(host)
        await self._switchboard.fail_host(host, _window_gone(host))

    async def _announce(self, host: Host) -> None:
        """Send the window's status to runtimes. Runtimes that wait for the window then send their
        actions again."""
        try:
            status = self._registry.window(host.window_id).status
        except NoSuchWindow:
            status = "gone"
        message = {"window_id": host.window_id, "status": status}
        self._changes.publish("windows")
        if self._window_change is not None:
            self._window_change.set_result(None)
            self._window_change = None
        await self._runtimes.send("window.status", message, to=lambda who: who.may_see(host.owner))

    def _withdraw_lost(self, host: Host) -> None:
        """Withdraw the questions and pending changes of a lost host; record its actions as failed.

        If the host returns, it may still send their results.
        """
        self.approvals.withdraw(host)
        self.reviews.withdraw(host)
        self.timelines.record_failures(host.window_id, "The window lost its connection")

    async def _report_abandoned(self, host: Host, ids: Sequence[EventId]) -> None:
        await self._server.emit("askers.left", {"ids": list(ids)}, to=host.sid, namespace=WINDOW)

    async def _on_forgotten(self, host: Host) -> None:
        await self._announce(host)
        if host.sid not in self._windows:
            return
        if self._registry.has_active_host(host.window_id):
            await self._server.emit("superseded", {}, to=host.sid, namespace=WINDOW)
        self._close_transport(host.sid)

    def _close_transport(self, sid: str) -> None:
        """Close the connection without a message; a live client reconnects by itself."""
        eio_sid = self._server.manager.eio_sid_from_sid(sid, WINDOW)
        transport = self._server.eio.sockets.get(eio_sid)
        if transport is not None:
            # The library's own `disconnect` sends a packet that VS Code's client ignores. None
            # ends the writer task, which closes the WebSocket.
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

    async def _on_health_changed(self, host: Host) -> None:
        if not host.is_healthy:
            await self._switchboard.fail_host(host, self._silence_error(host))
        await self._announce(host)

    def _silence_error(self, host: Host) -> BasculeError:
        if self._registry.is_superseded(host):
            return _window_gone(
                host
            )  # callers send the action again, which reaches the healthy host
        return WindowUnhealthy(
            f"The editor of the window {host.window_id} stopped answering",
            window_id=host.window_id,
            sent=True,
        )

    # Events -------------------------------------------------------------------------------

    def _listen(self) -> None:
        on = self._server.on
        on("connect", self._on_connect, namespace=WINDOW)
        on("disconnect", self._on_disconnect, namespace=WINDOW)
        for name in ("oh_event", "oh_user_action"):
            on(name, self._on_observation, namespace=WINDOW)
        on("oh_progress", self._on_progress, namespace=WINDOW)
        on("window.changed", self._on_window_changed, namespace=WINDOW)
        for name in ("approval.requested", "approval.answered"):
            on(name, self._approval_relay(name), namespace=WINDOW)

    async def _on_connect(self, sid: str, environ: Mapping[str, Any], auth: object) -> None:
        identity = connecting_identity(environ, "window", "session")
        self._windows[sid] = identity
        self._greeter.greet(sid, WINDOW, auth)

    async def _on_disconnect(self, sid: str, reason: object) -> None:
        self._windows.pop(sid, None)
        self._nonces.withdraw(sid)
        was_cut_off = reason != self._server.reason.CLIENT_DISCONNECT
        host = self._registry.socket_closed(sid, was_cut_off=was_cut_off)
        if host is None:
            return
        logger.info("window %s lost its host %s", host.window_id, host.id)
        self.health.socket_closed(host)
        self._withdraw_lost(host)
        await self._switchboard.fail_host(host, _window_gone(host))
        await self._announce(host)

    async def _on_observation(self, sid: str, data: object) -> object:
        host = self._registry.host_of(sid)
        if host is not None and isinstance(data, Mapping):
            self.timelines.record_observation(host.window_id, data)
            await self._switchboard.answer(host.window_id, without_checkpoint(data))
        return RECEIVED

    async def _on_progress(self, sid: str, data: object) -> None:
        host = self._registry.host_of(sid)
        if host is not None and isinstance(data, Mapping):
            self.timelines.show_output(host.window_id, data)
            await self._switchboard.progress(host.window_id, data)

    async def _on_window_changed(self, sid: str, data: object) -> None:
        host = self._registry.host_of(sid)
        if host is None or not isinstance(data, Mapping):
            return
        window = self._registry.window(host.window_id)
        if isinstance(name := data.get("name"), str):
            window = replace(window, name=one_line(name[:_MAX_NAME_LENGTH]))
        if (folders := decode_folders(data.get("folders"))) is not None:
            kept = [
                Folder(each.name[:_MAX_NAME_LENGTH], each.path[:_MAX_PATH_LENGTH])
                for each in folders[:_MAX_ITEMS]
            ]
            window = replace(window, folders=tuple(kept))
        if isinstance(capabilities := data.get("capabilities"), list):
            names = frozenset(
                one_line(str(each)[:_MAX_NAME_LENGTH]) for each in capabilities[:_MAX_ITEMS]
            )
            window = replace(window, capabilities=names)
        self._registry.change(host, window)
        self._changes.publish("windows")

    def _approval_relay(self, event: str) -> Any:
        async def relay(sid: str, data: object) -> None:
            host = self._registry.host_of(sid)
            if host is None or not isinstance(data, Mapping):
                return
            message = {**data, "window_id": host.window_id}
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
            await self._runtimes.send(
                event, message, to=lambda who: who.is_person and who.may_see(host.owner)
            )

        return relay

    async def answer_as(self, who: Identity, place_id: PlaceId, question: str, answer: str) -> None:
        """Answer a question as a person who owns the window or session, or as an admin.

        Raises `AccessDenied` for agents, otherwise the errors of `answer`.
        """
        if not who.is_person:
            raise AccessDenied(
                "Only an admin or member may answer questions of windows and sessions, with a "
                "token of that scope"
            )
        asker = self.approvals.asker_of(place_id, question)
        if asker is not None and not who.may_see(asker.owner):
            raise AlreadyAnswered("Too late: the question is no longer open")
        await self.answer(place_id, question, answer, by=who.name)
        await AuditLog(self._store).write(
            who,
            "approval",
            owner="" if asker is None else asker.owner,
            session_id="" if asker is None or isinstance(asker, Host) else asker.session_id,
            place=place_id,
            question=question,
            answer=answer,
        )

    async def answer(self, place_id: PlaceId, question: str, answer: str, *, by: str) -> None:
        """Answer a question of a window or session.

        Raises `AlreadyAnswered`, also if the window is gone, and `InvalidRequest`.
        """
        asker, approval = self.approvals.answer(place_id, question, answer, by)
        if isinstance(asker, Host):
            message = {"id": question, "answer": answer, "by": by}
            await self._server.emit("approval.answered", message, to=asker.sid, namespace=WINDOW)
        else:
            await asker.on_answer(approval, answer, by)


def ensure_action(event: Mapping[str, Any]) -> EventId:
    """The id of an encoded action. Raises `InvalidAction`.

    An unknown kind passes: a newer window may know it, and validates it.
    """
    action_id = _ensure_id(event)
    if not isinstance(event.get("action"), str):
        raise InvalidAction("An action needs its kind in `action`")
    if event["action"] in ACTIONS:
        decode_action(event)
    return action_id


def _ensure_id(event: Mapping[str, Any]) -> EventId:
    action_id = event.get("id")
    try:
        UUID(action_id)
    except (ValueError, TypeError, AttributeError):
        raise InvalidAction("An action for a window needs an `id` that is a UUID") from None
    return EventId(str(action_id))


def _window_gone(host: Host) -> WindowGone:
    return WindowGone(
        f"The window {host.window_id} lost its connection{reconnect_advice([host])}",
        window_id=host.window_id,
        sent=True,
    )
