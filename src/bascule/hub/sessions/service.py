"""The sessions of a hub: creating, using and removing them."""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from bascule.core.actions import CHECKPOINT_ACTIONS, Action, IPythonRun
from bascule.core.broadcaster import Broadcaster
from bascule.core.contracts import Closable, OnProgress, Spawner
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    LinkError,
    NoSuchSandbox,
    NotSupported,
    StorageFailed,
)
from bascule.core.observations import Observation
from bascule.core.programs import Program, TerminalSize
from bascule.core.sessions import (
    EgressMode,
    RunningSandbox,
    SessionExpiry,
    SessionId,
    Usage,
)
from bascule.core.tracing import Tracing
from bascule.core.windows import Window
from bascule.hub.approvals import Approvals
from bascule.hub.changes import HubChanges
from bascule.hub.identity import DEFAULT_OWNER, Access, Identity
from bascule.hub.leases import TokenLeases
from bascule.hub.metrics import HubMetrics
from bascule.hub.records.record import Record
from bascule.hub.records.records import Records
from bascule.hub.settings import HubSettings
from bascule.hub.store import Store
from bascule.hub.tokens import hash_of
from bascule.sandbox.session.ports import DECLARED
from bascule.wire import encode_action

from .access_leases import AccessLeases
from .archives import UploadedArchives
from .event_streams import EventStreams
from .expiry import SessionExpiries
from .fork_files import ForkFiles
from .fork_removal import ensure_merged
from .hub_sockets import HubSockets, MakeHubApp
from .lifecycle import SandboxLifecycle
from .program_leases import ProgramLeases
from .quotas import running_claims
from .reconciler import Reconciler
from .rows import EventRow, SessionRow
from .rules_in_use import RuleInUse, rules_in_use
from .sandbox_client import SandboxClient
from .sandbox_messages import Port
from .session_creation import SessionCreation, SettingsFor, same_for_all
from .session_directories import SessionDirectories
from .session_questions import SessionQuestions
from .session_request import SessionRequest, allowed_egress
from .session_rules import SessionRules
from .session_table import SessionTable
from .sharing import SessionSharing
from .specs import spec_to_json
from .states import AT_REST, RUNNING, invalid_state
from .windows import SessionWindows

logger = logging.getLogger(__name__)

_RECORD_TIMEOUT: Final = 5.0
"""Maximum seconds to wait until the latest actions are recorded."""
_ACTIVITY_INTERVAL: Final = 10.0
"""Seconds between two updates of a session's last activity."""
_MAX_ARGUMENT: Final = 500
"""Maximum characters of each argument of an action in the audit log."""


class Sessions(Closable):
    """All sessions of the hub: their stored rows and their sandboxes.

    Closing ends no session. Sandboxes keep running, and the next hub with the same state adopts
    them and continues interrupted starts, stops and removals.
    """

    def __init__(
        self,
        settings: HubSettings,
        store: Store,
        spawners: Mapping[str, Spawner],
        *,
        make_hub_app: MakeHubApp,
        windows: SessionWindows,
        records: Records | None = None,
        changes: HubChanges | None = None,
        leases: TokenLeases | None = None,
        approvals: Approvals | None = None,
        base_path: Callable[[SessionId, int], str] = lambda _session_id, _n: "",
        on_end: Callable[[SessionId], None] = lambda _: None,
        on_unshared: Callable[[SessionId], None] = lambda _: None,
        settings_for: SettingsFor | None = None,
        metrics: HubMetrics | None = None,
        tracing: Tracing | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`base_path`: URL path of a session's app; empty if the app has its own origin.

        `on_end` is called when the hub ends a session's sandbox, or finds that it has ended.
        `on_unshared` is called when a user lost access to a session. `settings_for` returns the
        settings with the quotas of an owner.
        """
        metrics = metrics or HubMetrics()
        self._tracing = tracing
        self.windows = windows
        self._leases = leases or TokenLeases()
        self._programs = ProgramLeases(
            self._leases, lambda session_id: self._lifecycle.client(session_id)
        )
        self._settings = settings
        self._settings_for = settings_for or same_for_all(settings)
        self._records = records = records or Records(settings)
        self._store = store
        self.rules = SessionRules(settings)
        self._clock = clock
        broadcaster: Broadcaster[EventRow] = Broadcaster()
        self._table = SessionTable(
            store,
            broadcaster,
            clock,
            changes or HubChanges(),
            without_paths=settings.without_paths,
        )
        self.access_leases = AccessLeases(self._table)
        self._on_unshared = on_unshared
        self.sharing = SessionSharing(self._table, self._unshared)
        self._events = EventStreams(store, self._table, broadcaster)
        self._creation = SessionCreation(
            settings,
            self._table,
            lifecycle=lambda: self._lifecycle,
            until_stopped=self._events.until_stopped,
            settings_for=self._settings_for,
            clock=clock,
        )
        self._optional_lifecycle: SandboxLifecycle | None = None
        self._reconciler: Reconciler | None = None
        self._expiries: SessionExpiries | None = None
        directories = SessionDirectories.of(settings)
        if directories is not None and spawners:
            lifecycle = SandboxLifecycle(
                settings,
                store,
                table=self._table,
                directories=directories,
                spawners=spawners,
                hub_sockets=HubSockets(make_hub_app, settings),
                windows=windows,
                records=records,
                questions=SessionQuestions(
                    approvals or Approvals(changes or HubChanges()), self.rules, store
                ),
                metrics=metrics,
                base_path=base_path,
                on_end=lambda session_id: self._sandbox_ended(session_id, on_end),
            )
            self._optional_lifecycle = lifecycle
            self._expiries = SessionExpiries(
                self._table, lifecycle, clock=clock, until_ready=self._events.until_ready
            )
            self._reconciler = Reconciler(
                settings,
                store,
                table=self._table,
                lifecycle=lifecycle,
                records=records,
                windows=windows,
                metrics=metrics,
                clock=clock,
            )
        records.mask_of = self._table.mask

    @property
    def are_available(self) -> bool:
        """Whether this hub can have sessions: it needs a `state_dir` and a spawner."""
        return self._optional_lifecycle is not None

    @property
    def can_start_sandboxes(self) -> bool:
        """Whether a spawner works on this machine, or the hub has no spawners at all."""
        states = self.usable_spawners()
        return not states or any(states.values())

    def usable_spawners(self) -> Mapping[str, bool]:
        """Whether each spawner of the hub works on this machine."""
        lifecycle = self._optional_lifecycle
        return {} if lifecycle is None else lifecycle.spawner_states()

    def all_rows(self) -> Sequence[SessionRow]:
        """All sessions, whoever owns them."""
        return self._table.all()

    async def open(self) -> None:
        """Adopt running sandboxes, continue interrupted operations, and reconcile periodically."""
        if self._optional_lifecycle is None or self._reconciler is None:
            await self._records.sweep(None, self.windows.registered_ids())
            return
        await self._optional_lifecycle.open()
        await self._table.open()
        rows = self._table.all()
        await asyncio.to_thread(self._optional_lifecycle.vault.sweep, {row.id for row in rows})
        for row in rows:
            secrets = await asyncio.to_thread(self._optional_lifecycle.vault.get, row.id)
            if secrets is not None:
                self._table.set_mask(row.id, secrets.mask())
        await self._reconciler.open()
        if self._expiries is not None:
            self._expiries.open()
        owners = {token.hash: token.owner for token in await self._store.list_tokens()}
        owners[hash_of(self._settings.admin_token)] = DEFAULT_OWNER
        for row in self._table.all():
            if row.state in RUNNING:
                self._programs.adopt(row.id, owners)

    def finish_streams(self) -> None:
        """End all event streams, so that a stopping server does not wait for them."""
        self._events.close()

    async def aclose(self) -> None:
        self.finish_streams()
        await self._programs.aclose()
        if self._expiries is not None:
            await self._expiries.aclose()
        if self._reconciler is not None:
            await self._reconciler.aclose()
        if self._optional_lifecycle is not None:
            await self._optional_lifecycle.aclose()

    async def reconcile(self) -> None:
        """Make rows and sandboxes agree, and pause or stop idle sessions."""
        if self._reconciler is not None:
            await self._reconciler.reconcile()

    # Operations -----------------------------------------------------------------------------

    async def create(self, who: Identity, request: SessionRequest) -> SessionRow:
        """Create a session and start it in the background.

        The same `request_key` returns the same session. If that session is being removed, wait for
        its removal and create a new one.
        """
        if who.scope == "viewer":
            raise AccessDenied("A viewer may not create sessions; ask an admin for the role member")
        row = await self._creation.create(who, request)
        if self._expiries is not None:
            self._expiries.on_change()
        return row

    def list(self, who: Identity) -> Sequence[SessionRow]:
        """All sessions that `who` may see, also those that others share."""
        return [row for row in self._table.all() if self._table.access_of(who, row) is not None]

    def get(self, who: Identity, session_id: SessionId, *, needs: Access = "act") -> SessionRow:
        """The session. Raises `NoSuchSession`, also for a session this identity may not see, and
        `AccessDenied` if it lacks the access `needs`."""
        return self._table.get_visible(who, session_id, needs=needs)

    def find(self, session_id: SessionId) -> SessionRow | None:
        """The session, whoever owns it; None if it does not exist."""
        return self._table.find(session_id)

    def access_of(self, who: Identity, row: SessionRow) -> Access | None:
        """The access of an identity to a session; None if it may not see the session."""
        return self._table.access_of(who, row)

    async def pause(self, who: Identity, session_id: SessionId) -> SessionRow:
        self._table.get_visible(who, session_id)
        return await self._lifecycle.pause(session_id, who)

    async def resume(
        self, who: Identity, session_id: SessionId, changes: Mapping[str, Any] | None = None
    ) -> SessionRow:
        """Resume a paused session, or start a stopped or failed one. No effect on a running one.

        `changes`: fields of the spec to change first, only for a stopped or failed session.
        """
        row = self._table.get_visible(who, session_id, needs="own" if changes else "act")
        if changes:
            spec = await self._creation.validate_spec(who, replace(row.spec, **changes))
            await self._table.change_spec(session_id, spec)
            await self._table.audit(who, row, "change", spec=spec_to_json(spec))
        return await self._resume(session_id, who)

    async def stop(self, who: Identity, session_id: SessionId) -> SessionRow:
        """End the sandbox and keep the files."""
        row = self._table.get_visible(who, session_id)
        if row.state in AT_REST:
            return row
        await self._table.audit(who, row, "stop")
        return await self._lifecycle.stop(session_id)

    async def set_expiry(
        self, who: Identity, session_id: SessionId, expiry: SessionExpiry | None
    ) -> SessionRow:
        """Change the end of the session's lifetime."""
        row = self._table.get_visible(who, session_id, needs="own")
        detail = None if expiry is None else {"at": expiry.at, "action": expiry.action}
        await self._table.audit(who, row, "change", expiry=detail)
        assert self._expiries is not None, "there is a session"
        await self._expiries.set_expiry(session_id, expiry)
        return self._table.get(session_id)

    async def remove(self, who: Identity, session_id: SessionId, *, force: bool = False) -> None:
        """End the sandbox and remove all files of the session.

        Raises `ForkNotMerged` for a fork with changes that were not merged, unless `force`
        is given.
        """
        row = self._table.get_visible(who, session_id, needs="own")
        if row.spec.workspace.kind == "fork" and row.is_filled and not force:
            await ensure_merged(self._lifecycle.forks, row)
        try:
            await self._mark_for_removal(who, session_id)
        except StorageFailed:
            if not await self._lifecycle.make_room(session_id):
                raise
            await self._mark_for_removal(who, session_id)
        await self._lifecycle.remove(session_id)

    async def act(
        self,
        who: Identity,
        session_id: SessionId,
        action: Action,
        *,
        on_progress: OnProgress | None = None,
        disconnected: asyncio.Event | None = None,
    ) -> Observation:
        """Run one action in the session; resumes a paused session.

        The action must be valid: decoded, or checked by `prepared`.

        `disconnected` is set when the caller has disconnected. The session's window then withdraws
        its question about the action.
        """
        async with self.access_leases.scope(who, session_id):
            return await self._act(who, session_id, action, on_progress, disconnected)

    async def _act(
        self,
        who: Identity,
        session_id: SessionId,
        action: Action,
        on_progress: OnProgress | None,
        disconnected: asyncio.Event | None,
    ) -> Observation:
        row = self._table.get_visible(who, session_id)
        client, _ = await self.enter(session_id)
        # A resume takes seconds, in which the owner may have taken back the access.
        row = self._table.get_visible(who, session_id)
        event = encode_action(action)
        kind, args = event["action"], self._describe_args(session_id, event["args"])
        await self._table.audit(who, row, "act", action=kind, args=args)
        # The sandbox manages checkpoints, also if actions run in the session's window.
        if row.spec.runtime == "vscode" and not isinstance(action, CHECKPOINT_ACTIONS):
            window = await self.window(who, session_id)
            observation = await self.windows.act(
                who, window, action, event, on_progress=on_progress, disconnected=disconnected
            )
        else:
            async with self._leases.scope(who):
                observation = await self._send(client, action, event, on_progress)
        done = {"id": str(action.id), "action": kind, "who": who.name, "args": args}
        outcome = type(observation).__name__
        try:
            await self._table.publish_event(session_id, "action", {**done, "observation": outcome})
        except StorageFailed as error:  # the action is done, so the caller must get its result
            logger.warning(
                "session %s: an action could not be added to its events: %s", session_id, error
            )
        return observation

    async def _send(
        self,
        client: SandboxClient,
        action: Action,
        event: Mapping[str, Any],
        on_progress: OnProgress | None,
    ) -> Observation:
        if self._tracing is None:
            return await client.runtime.send(action, event, on_progress=on_progress)
        attributes = {"bascule.action": action.kind}
        with self._tracing.span(f"sandbox {action.kind}", "client", attributes=attributes) as span:
            observation = await client.runtime.send(action, event, on_progress=on_progress)
            span.set_observation(observation)
            return observation

    async def start_program(
        self,
        who: Identity,
        session_id: SessionId,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        terminal: TerminalSize | None = None,
        secret_env: Mapping[str, str] | None = None,
        unread_limit: float | None = None,
        joins_stderr: bool = False,
        waits_for_reader: bool = False,
    ) -> Program:
        """Start a program with pipes in the session's sandbox; resumes a paused session.

        The program ends when the token of `who` is revoked, and when `who` loses the access to the
        session. So does the HTTP request that the current task works for.
        """
        args = {"argv": shlex.join(map(str, argv)), "cwd": cwd, "user": user}
        async with self.access_leases.scope(who, session_id), self._leases.scope(who):
            await self.program_starts(who, session_id, self._describe_args(session_id, args))
            client, _ = await self.enter(session_id)
            return await client.runtime.start_program_for(
                who.token_id,
                argv,
                env=env,
                cwd=cwd,
                user=user,
                terminal=terminal,
                secret_env=secret_env,
                unread_limit=unread_limit,
                joins_stderr=joins_stderr,
                waits_for_reader=waits_for_reader,
            )

    async def program_starts(
        self, who: Identity, session_id: str, args: Mapping[str, str] | None = None
    ) -> None:
        """Write an audit entry, and end the program when the token or the access of `who` ends.
        Called before a program starts."""
        row = self._table.get_visible(who, SessionId(session_id))
        await self._table.audit(who, row, "act", action="program", args=dict(args or {}))
        self.access_leases.hold(who, row)
        self._programs.open(row.id, who.token_hash, who.owner)

    async def cell_starts(self, who: Identity, session_id: SessionId, code: str) -> None:
        """Write an audit entry before a cell runs in a kernel of its own."""
        row = self._table.get_visible(who, session_id)
        args = self._describe_args(session_id, {"code": code})
        await self._table.audit(who, row, "act", action=IPythonRun.kind, args=args)

    def _sandbox_ended(self, session_id: SessionId, on_end: Callable[[SessionId], None]) -> None:
        self._programs.forget(session_id)
        on_end(session_id)

    def _unshared(self, session_id: SessionId, user_name: str) -> None:
        self.access_leases.end(session_id, user_name)
        self._programs.end_of_user(session_id, user_name)
        self._on_unshared(session_id)

    async def window(self, who: Identity, session_id: SessionId) -> Window:
        """The session's window, as soon as it accepts actions.

        If necessary, a headless window is opened, which stays open when no browser shows it.
        """
        row = self._table.get_visible(who, session_id)
        await self._audit_admin_access(who, row, "window")
        client, _ = await self.enter(session_id)
        await self.windows.open(session_id, client, headless=True)
        return await self.windows.wait_for_window(session_id, timeout=self._settings.start_timeout)

    async def wake(self, session_id: SessionId) -> None:
        """Resume the session because its window is about to get an action."""
        if session_id in self._table:
            await self.enter(session_id)

    async def ports(self, who: Identity, session_id: SessionId) -> Sequence[Port]:
        row = self._table.get_visible(who, session_id, needs="view")
        if row.state != "ready":
            return []
        try:
            return await (await self._lifecycle.client(session_id)).ports()
        except LinkError:
            found = self._table.find(session_id)
            if found is not None and found.state == "ready":
                raise
            return []  # it was stopped or removed meanwhile

    async def declared_ports(self, who: Identity, session_id: SessionId) -> Mapping[int, int]:
        """Port numbers of apps whose URLs are fixed in advance, by app number.

        Resumes a paused session.
        """
        self._table.get_visible(who, session_id)
        client, _ = await self.enter(session_id)
        return await client.declared_ports()

    async def log_tail(self, who: Identity, session_id: SessionId, *, lines: int) -> str:
        """The last lines of the action server's log, with secrets masked."""
        row = self._table.get_visible(who, session_id, needs="view")
        await self._audit_admin_access(who, row, "logs")
        spawner = self._lifecycle.spawner(row.spec.spawner)
        return self._table.mask(session_id).text(await spawner.log_tail(session_id, lines=lines))

    async def rules_in_use(self, who: Identity, session_id: SessionId) -> Sequence[RuleInUse]:
        """The session's rules for commands and what each decided. Resumes no paused session."""
        row = self._table.get_visible(who, session_id)
        await self._audit_admin_access(who, row, "rules")
        uses = None
        if row.state == "ready":
            uses = await (await self._lifecycle.client(session_id)).rule_uses()
        mask = self._table.mask(session_id)
        return rules_in_use(await self.rules.all_rules(), uses, agent=row.created_by, mask=mask)

    def events(
        self, session_id: SessionId, *, after: int = 0
    ) -> AsyncGenerator[EventRow | None, None]:
        """Stored events after number `after`, then new ones as they happen. None is a heartbeat."""
        return self._events.stream(session_id, after=after)

    async def until_ready(self, session_id: SessionId) -> SessionRow:
        """Wait until a start has ended. Raises `SandboxStartFailed` with the cause."""
        return await self._events.until_ready(session_id)

    async def until_stopped(self, session_id: SessionId) -> SessionRow | None:
        """Wait until a stop or removal has ended. None: the session is removed."""
        return await self._events.until_stopped(session_id)

    def masked(self, session_id: SessionId, text: str) -> str:
        """`text` with the values of the session's secrets masked."""
        return self._table.mask(session_id).text(text)

    # Inspection -------------------------------------------------------------------------------

    async def usage(self, who: Identity, session_id: SessionId) -> Usage | None:
        """The sandbox's resource usage; None while there is no sandbox."""
        row = self._table.get_visible(who, session_id, needs="view")
        if row.state not in RUNNING:
            return None
        try:
            return await self._lifecycle.spawner(row.spec.spawner).usage(session_id)
        except NoSuchSandbox:
            return None

    async def sandbox_client(self, who: Identity, session_id: SessionId) -> SandboxClient:
        """The client of a session's sandbox, for files and terminals. Resumes a paused session.

        The HTTP request that the current task works for ends when `who` loses the access.
        """
        row = self._table.get_visible(who, session_id)
        self.access_leases.hold(who, row)
        await self._audit_admin_access(who, row, "files and terminals")
        client, _ = await self.enter(session_id)
        self._table.get_visible(who, session_id)  # for callers without a request
        return client

    async def timeline(
        self, who: Identity, session_id: SessionId, *, after: int, epoch: str
    ) -> AsyncGenerator[tuple[str, Sequence[Mapping[str, Any]]], None]:
        """Entries of the session's timeline with their epoch, until the session is removed.

        Secrets are masked. Following a timeline does not count as activity and does not resume a
        paused session.
        """
        record = await self.record(who, session_id)
        async with aclosing(record.follow(after=after, epoch=epoch)) as timeline:
            async for update in timeline:
                yield update

    async def record(self, who: Identity, session_id: SessionId) -> Record:
        """The record of a session, running or not."""
        row = self._table.get_visible(who, session_id, needs="view")
        await self._audit_admin_access(who, row, "record")
        return await self._records.of_session(session_id)

    async def up_to_date_record(self, who: Identity, session_id: SessionId) -> Record:
        """The record, as soon as it contains every action answered so far.

        If the sandbox does not answer in time, the record may lack the newest actions.
        """
        record = await self.record(who, session_id)
        if self._table.get(session_id).state == "ready":
            try:
                async with asyncio.timeout(_RECORD_TIMEOUT):
                    last = await (await self._lifecycle.client(session_id)).timeline_last()
                    await record.until_recorded(last.epoch, last.n)
            except (BasculeError, TimeoutError) as error:
                logger.info(
                    "session %s: its record may lack the latest actions: %s", session_id, error
                )
        return record

    @property
    def spawners(self) -> Sequence[str]:
        """The usable kinds of spawner, the default first."""
        if self._optional_lifecycle is None:
            return []
        first = self._optional_lifecycle.default_spawner
        return [
            first,
            *(kind for kind in self._optional_lifecycle.usable_spawners if kind != first),
        ]

    def allowed_egress(self, who: Identity) -> Sequence[EgressMode]:
        """The egress modes this identity may request for a session."""
        return allowed_egress(who, self._settings)

    # Forks ----------------------------------------------------------------------------------

    @property
    def fork_files(self) -> ForkFiles:
        return self._lifecycle.forks

    @asynccontextmanager
    async def new_base(self, row: SessionRow, *, with_secrets: bool) -> AsyncIterator[str]:
        """A new snapshot of a session's workspace; kept if a session that uses it is created."""
        async with self._lifecycle.new_base(row, with_secrets=with_secrets) as base:
            yield base

    async def secret_values(self, who: Identity, session_id: SessionId) -> Mapping[str, str]:
        """The values of a session's secret variables, for a fork of it."""
        row = self._table.get_visible(who, session_id, needs="own")
        await self._table.audit(who, row, "enter", what="secrets, for a fork")
        return (await self._lifecycle.secrets(session_id)).values

    async def audit_forks(
        self, who: Identity, row: SessionRow, forks: Sequence[SessionRow], *, with_secrets: bool
    ) -> None:
        ids = [each.id for each in forks]
        await self._table.audit(who, row, "fork", forks=ids, secrets=with_secrets)

    async def audit_merge(
        self, who: Identity, fork: SessionRow, target: SessionRow, paths: int
    ) -> None:
        await self._table.audit(who, target, "merge", fork=fork.id, paths=paths)

    # For the proxy --------------------------------------------------------------------------

    def owner_of(self, session_id: SessionId) -> str | None:
        row = self._table.find(session_id)
        return None if row is None or row.is_being_removed else row.owner

    def is_running_or_paused(self, session_id: SessionId) -> bool:
        """Whether the session runs or is paused. The next visit resumes a paused session."""
        row = self._table.find(session_id)
        return row is not None and row.state in RUNNING and not row.is_being_removed

    async def enter(
        self, session_id: SessionId, *, is_visit: bool = True
    ) -> tuple[SandboxClient, RunningSandbox]:
        """The client and the running sandbox of a session.

        A visit counts as activity and resumes a paused session.
        """
        row = self._table.get(session_id)
        if row.state == "paused" and is_visit:
            row = await self._resume(session_id, None)
        if row.state != "ready":
            raise invalid_state(row.state, "be entered")
        if is_visit and self._clock() - row.last_active > _ACTIVITY_INTERVAL:
            await self._table.change(session_id, last_active=self._clock())
        client = await self._lifecycle.client(session_id)
        return client, self._lifecycle.running.get(
            session_id, RunningSandbox(session_id=session_id)
        )

    def keeps_prefix(self, session_id: SessionId, n: int) -> bool:
        """Whether app `n` gets requests with their full path."""
        apps = dict(zip(DECLARED, self._table.get(session_id).spec.apps, strict=False))
        return n in apps and apps[n].keeps_prefix

    async def key_of(self, session_id: SessionId) -> str:
        return (await self._lifecycle.secrets(session_id)).key

    @property
    def directories(self) -> SessionDirectories:
        return self._lifecycle.directories

    @property
    def archives(self) -> UploadedArchives:
        return self._lifecycle.archives

    @property
    def default_spawner(self) -> str:
        return self._lifecycle.default_spawner

    # ----------------------------------------------------------------------------------------

    @property
    def _lifecycle(self) -> SandboxLifecycle:
        if self._optional_lifecycle is None:
            raise NotSupported("This hub has no sessions: it was given no spawner, or no state_dir")
        return self._optional_lifecycle

    async def audit_reading(self, who: Identity, session_id: SessionId, what: str) -> None:
        """Write an audit entry if `who` does not own the session, before other parts of the hub
        return data of the session. Raises `NoSuchSession` if `who` may not see it."""
        await self._audit_admin_access(who, self._table.get_visible(who, session_id), what)

    async def _audit_admin_access(self, who: Identity, row: SessionRow, what: str) -> None:
        """Write an audit entry if an admin accesses another owner's session.

        Actions, starts and stops are always audited.
        """
        if who.owner != row.owner:
            await self._table.audit(who, row, "enter", what=what)

    async def _mark_for_removal(self, who: Identity, session_id: SessionId) -> None:
        """Mark the session for removal, which then continues even after a restart of the hub."""
        await self._table.audit(who, self._table.get(session_id), "remove")
        await self._table.change(session_id, is_being_removed=True)

    def _describe_args(self, session_id: SessionId, args: Mapping[str, Any]) -> dict[str, str]:
        """The arguments of an action, shortened.

        Secrets are masked first, so that no part of a secret remains after shortening.
        """
        mask = self._table.mask(session_id)
        return {
            name: mask.text(str(value))[:_MAX_ARGUMENT] for name, value in args.items() if value
        }

    async def _resume(self, session_id: SessionId, who: Identity | None) -> SessionRow:
        row = self._table.get(session_id)
        if row.state in AT_REST:
            claims = running_claims(row.spec, await self._settings_for(row.owner))
            await self._store.reserve(session_id, row.owner, claims)
        return await self._lifecycle.resume(session_id, who)
