"""Convenience methods for what a VS Code window shows."""

from __future__ import annotations

from bascule.core.view_events import (
    ListOpenEditors,
    ListPorts,
    OpenEditors,
    OpenPorts,
    Screenshot,
    TakeScreenshot,
)

from .verbs import Verbs


class ViewVerbs(Verbs):
    """`Verbs`, and methods that look at the window."""

    async def open_editors(self) -> OpenEditors:
        """The open editors: what is visible, selected and unsaved."""
        return await self._do(ListOpenEditors(), OpenEditors)

    async def list_ports(self) -> OpenPorts:
        """Ports on which programs listen where the window's extensions run."""
        return await self._do(ListPorts(), OpenPorts)

    async def screenshot(self, *, timeout: float | None = None) -> Screenshot:
        """A picture of the window of a session with `runtime: vscode`.

        Windows of users cannot be photographed (`NotSupported`).
        """
        return await self._do(TakeScreenshot(timeout=timeout), Screenshot)
