"""The registry of windows and their extension hosts. Plain data; never awaits."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bascule.core.errors import NoSuchWindow, WindowGone, WindowUnhealthy
from bascule.core.identity import now
from bascule.core.windows import Window, WindowId, WindowStatus

_MAX_MISSES: Final = 2
"""With this many consecutive unanswered probes, a host counts as unhealthy."""


@dataclass(slots=True, eq=False)
class Host:
    """One extension host of a window. A reload or a second tab creates another host."""

    id: str
    sid: str
    """Id of the host's Socket.IO connection."""
    window_id: WindowId
    owner: str
    number: int
    """Increases with every registration; the newest host has the largest number."""
    is_connected: bool = True
    was_cut_off: bool = False
    """Whether the connection ended without a disconnect message, for example because the host's
    process died."""
    misses: int = 0
    """Number of unanswered probes since the last answered one."""
    reviews_merges: bool = False
    """Whether the host understands `merge.began` and `merge.ended`."""

    @property
    def is_healthy(self) -> bool:
        return self.is_connected and self.misses < _MAX_MISSES


@dataclass(slots=True)
class _Entry:
    window: Window
    hosts: dict[str, Host] = field(default_factory=dict)


class Registry:
    """Windows by id, with their hosts. The newest healthy host of a window gets its actions."""

    def __init__(self) -> None:
        self._entries: dict[WindowId, _Entry] = {}
        self._by_sid: dict[str, Host] = {}
        self._numbers = itertools.count()

    def register(self, window: Window, host_id: str, sid: str) -> tuple[Host, Sequence[Host]]:
        """Register a window's host.

        Also returns the hosts it replaces: the same host with an earlier socket, or another host
        that this socket had registered.
        """
        entry = self._entries.setdefault(window.id, _Entry(window))
        replaced = [
            host for host in (entry.hosts.get(host_id), self._by_sid.get(sid)) if host is not None
        ]
        for replaced_host in replaced:
            self.forget(replaced_host)
        self._entries[window.id] = entry
        host = Host(host_id, sid, window.id, window.owner, next(self._numbers))
        entry.hosts[host_id] = self._by_sid[sid] = host
        time_now = now()
        registered_at = entry.window.registered_at or time_now
        entry.window = replace(window, registered_at=registered_at, last_heartbeat=time_now)
        return host, replaced

    def change(self, host: Host, window: Window) -> None:
        """Update the properties that a window reports about itself."""
        if (entry := self._entries.get(host.window_id)) is not None:
            entry.window = window

    def host_of(self, sid: str) -> Host | None:
        return self._by_sid.get(sid)

    def active_host(self, window_id: WindowId) -> Host:
        """The host that gets the window's actions.

        Raises `NoSuchWindow`, `WindowGone`, or `WindowUnhealthy` when no editor answers.
        """
        hosts = self._entry(window_id).hosts.values()
        connected = [host for host in hosts if host.is_connected]
        if not connected:
            raise WindowGone(
                f"The window {window_id} is not connected{reconnect_advice(hosts)}",
                window_id=window_id,
                sent=False,
            )
        newest = max(connected, key=lambda host: (host.is_healthy, host.number))
        if not newest.is_healthy:
            raise WindowUnhealthy(
                f"The window {window_id} is connected, but its editor does not answer; "
                "reload it, or close it and open it again",
                window_id=window_id,
                sent=False,
            )
        return newest

    def connected_hosts(self, window_id: WindowId) -> Sequence[Host]:
        """The hosts of a window whose sockets are open. Raises `NoSuchWindow`."""
        return [host for host in self._entry(window_id).hosts.values() if host.is_connected]

    def has_active_host(self, window_id: WindowId) -> bool:
        entry = self._entries.get(window_id)
        return entry is not None and _status(entry) == "healthy"

    def probe_answered(self, host: Host) -> None:
        """Record that the host's editor answered a probe."""
        host.misses = 0
        self.touch(host.window_id)

    def probe_missed(self, host: Host) -> None:
        """Record that the host's editor did not answer a probe in time."""
        host.misses += 1

    def is_superseded(self, host: Host) -> bool:
        """Whether the host is unhealthy while another host of its window is healthy.

        This happens after a reload whose disconnect message was lost: the old host stays
        registered, with its actions.
        """
        return not host.is_healthy and self.has_active_host(host.window_id)

    def touch(self, window_id: WindowId) -> None:
        """Record activity of the window."""
        entry = self._entry(window_id)
        entry.window = replace(entry.window, last_heartbeat=now())

    def socket_closed(self, sid: str, *, was_cut_off: bool = False) -> Host | None:
        """Mark the host of a closed socket as disconnected, and return it, if any.

        The host stays registered in case it reconnects.
        """
        host = self._by_sid.pop(sid, None)
        if host is not None:
            host.is_connected = False
            host.was_cut_off = was_cut_off
        return host

    def forget(self, host: Host) -> None:
        """Remove a host, and its window with the last host."""
        self._forget_socket(host)
        entry = self._entries.get(host.window_id)
        if entry is None or entry.hosts.get(host.id) is not host:
            return
        del entry.hosts[host.id]
        if not entry.hosts:
            del self._entries[host.window_id]

    def unregister(self, window_id: WindowId) -> Sequence[Host]:
        """Remove a window; returns its hosts, whose sockets must be closed."""
        hosts = list(self._entry(window_id).hosts.values())
        for host in hosts:
            self.forget(host)
        return hosts

    def window(self, window_id: WindowId) -> Window:
        """The window with its current status. Raises `NoSuchWindow`."""
        entry = self._entry(window_id)
        connected = sum(host.is_connected for host in entry.hosts.values())
        return replace(entry.window, status=_status(entry), hosts=connected)

    def owner(self, window_id: WindowId) -> str:
        """The owner of the window. Raises `NoSuchWindow`."""
        return self._entry(window_id).window.owner

    def session_of(self, window_id: WindowId) -> str:
        """The session of the window; empty if it belongs to none. Raises `NoSuchWindow`."""
        return self._entry(window_id).window.session_id

    def has_several_hosts(self, window_id: WindowId) -> bool:
        """Whether more than one host may be running actions for the window."""
        return len(self._entry(window_id).hosts) > 1

    def windows(self) -> Sequence[Window]:
        """All windows, in order of registration."""
        return [self.window(window_id) for window_id in self._entries]

    def status_counts(self) -> Counter[WindowStatus]:
        return Counter(_status(entry) for entry in self._entries.values())

    def _forget_socket(self, host: Host | None) -> None:
        if host is not None and self._by_sid.get(host.sid) is host:
            del self._by_sid[host.sid]
            host.is_connected = False

    def _entry(self, window_id: WindowId) -> _Entry:
        entry = self._entries.get(window_id)
        if entry is None:
            raise NoSuchWindow(
                f"No window {window_id!r} is registered here", window_id=window_id, sent=False
            )
        return entry


def reconnect_advice(hosts: Iterable[Host]) -> str:
    """Advice for a person when none of these hosts is connected; empty if no advice helps.

    VS Code restarts an extension host that died only a few times. After that the window stays open
    without one until it is reloaded.
    """
    if not any(host.was_cut_off for host in hosts):
        return ""
    return (
        "; its extension host ended or lost the network. If the window is still open and does not "
        "reconnect, reload it"
    )


def _status(entry: _Entry) -> WindowStatus:
    connected = [host for host in entry.hosts.values() if host.is_connected]
    if not connected:
        return "gone"
    return "healthy" if any(host.is_healthy for host in connected) else "unhealthy"
