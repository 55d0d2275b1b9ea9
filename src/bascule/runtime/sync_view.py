"""What a VS Code window shows, for synchronous code."""

from __future__ import annotations

from bascule.core.view_events import OpenEditors, OpenPorts, Screenshot

from .sync import SyncRuntime
from .view_verbs import ViewVerbs


class SyncView(SyncRuntime):
    """`SyncRuntime` with the methods of `ViewVerbs`."""

    _window: ViewVerbs

    def open_editors(self) -> OpenEditors:
        return self._wait(self._window.open_editors())

    def list_ports(self) -> OpenPorts:
        return self._wait(self._window.list_ports())

    def screenshot(self, *, timeout: float | None = None) -> Screenshot:
        return self._wait(self._window.screenshot(timeout=timeout))
