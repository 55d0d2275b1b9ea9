"""A hub, and a VS Code in the browser that is connected to it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from bascule.adapters.mcp import McpMount
from bascule.core.contracts import Closable
from bascule.core.errors import InvalidSetting, MissingTool, SandboxStartFailed
from bascule.hub import Hub
from bascule.sandbox.vscode.server import VSCodeServer, VSCodeSettings

from .editor import extension, find
from .hub_place import announced
from .hub_settings import HubFile
from .machine import checks

_MONTH: Final = 30 * 86400.0
_SECRETS: Final = ("BASCULE_TOKEN", "SESSION_API_KEY")


class Workbench(Closable):
    """Opens on `folder`; closing ends all of it. Where there is no VS Code the hub runs alone."""

    def __init__(
        self,
        hub: HubFile,
        token: str,
        folder: Path,
        *,
        is_trusted: bool,
        environment: Mapping[str, str],
    ) -> None:
        self._settings = hub
        self._token = token
        self._folder = folder
        self.is_trusted = is_trusted
        self._environment = {
            name: value for name, value in environment.items() if name not in _SECRETS
        }
        self._stack = contextlib.AsyncExitStack()
        self.hub_url = ""
        self.local_hub_url = ""
        self.vscode_url = ""
        self.address = ""
        """What to open in a browser; empty when there is no VS Code."""
        self.complaint = ""
        """Why there is none, and what to do about it."""

    async def start(self) -> None:
        hub = await self._open_hub()
        self.hub_url = hub.url
        self.local_hub_url = hub.local_url
        state = self._settings.state()
        await asyncio.to_thread(self._stack.enter_context, announced(state, hub.local_url))
        try:
            await self._open_vscode(hub, state)
        except (MissingTool, SandboxStartFailed) as error:
            self.complaint = error.message

    async def aclose(self) -> None:
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def _open_hub(self) -> Hub:
        """On the port of the settings; if that is only the usual one and taken, on any."""
        settings = self._settings.settings(self._token)
        try:
            return await self._stack.enter_async_context(
                Hub(settings, mounts=(McpMount,), checks=checks)
            )
        except InvalidSetting:
            if "port" in self._settings.model_fields_set:
                raise
        elsewhere = Hub(replace(settings, port=0), mounts=(McpMount,), checks=checks)
        return await self._stack.enter_async_context(elsewhere)

    async def _open_vscode(self, hub: Hub, state: Path) -> None:
        installation = await asyncio.to_thread(find)
        await asyncio.to_thread(installation.ensure_complete)
        name = f"VS Code of {os.getpid()}-{secrets.token_hex(4)}"
        token = await hub.tokens.create(name, "window", lifetime=_MONTH)
        self._stack.push_async_callback(hub.tokens.revoke, name)
        settings = VSCodeSettings(
            data=state / "vscode" / _name_of(self._folder),
            extension=await asyncio.to_thread(extension),
            hub=hub.local_url,
            token=token,
            user={"security.workspace.trust.enabled": not self.is_trusted},
            machine={"bascule.python": sys.executable},
            environment=self._environment,
        )
        server = VSCodeServer(installation, settings)
        await self._stack.enter_async_context(server)
        self.vscode_url = server.url
        self.address = server.address(self._folder)


def _name_of(folder: Path) -> str:
    digest = hashlib.sha256(str(folder).encode()).hexdigest()
    return f"{folder.name}-{digest[:8]}"
