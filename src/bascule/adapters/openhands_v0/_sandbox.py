"""OpenHands V0 in a sandbox: on this machine, or a session of a hub."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import NoSuchPath, NoSuchSession
from bascule.runtime import CloudRuntime, LocalRuntime, SyncRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings

from ._hub import HubRuntime, HubRuntimes, vscode_address
from ._runtime import BasculeRuntime

_SOFT_TIMEOUT: Final = 10.0
"""Seconds without output after which a command returns. OpenHands' own server has the same default
and the same environment variable."""


_SUFFIX_LENGTH: Final = 8
"""Random characters that `mkdtemp` adds to a name."""


_WORKSPACE: Final = "/workspace"


class SandboxRuntime(BasculeRuntime):
    """Agents work in `workspace_base`, or in a directory created for the conversation. With
    BASCULE_HUB and BASCULE_TOKEN, they work in a session of that hub.

    The directory or session lasts until the conversation is deleted. Processes end with the
    runtime, unless OpenHands attached to an existing runtime or `keep_runtime_alive` is set.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self._hub_runtimes: HubRuntimes | None = None
        self._on_hub: HubRuntime | None = None
        self._cloud: CloudRuntime | None = None
        super().__init__(*args, **keywords)

    def _open(self) -> tuple[SyncRuntime, str]:
        self._hub_runtimes = HubRuntimes.from_environment()
        if self._hub_runtimes is not None:
            return self._open_session(self._hub_runtimes)
        directory = Path(self.config.workspace_base or _conversation_directory(self.sid)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        variables = self.config.sandbox.runtime_startup_env_vars
        soft_timeout = float(variables.get("NO_CHANGE_TIMEOUT_SECONDS", _SOFT_TIMEOUT))
        settings = SandboxSettings(shells=ShellSettings(soft_timeout=soft_timeout))
        runtime = SyncRuntime(LocalRuntime(directory, settings=settings, default_timeout=None))
        runtime.connect()
        return runtime, str(directory)

    def _open_session(self, hub: HubRuntimes) -> tuple[SyncRuntime, str]:
        if self.attach_to_existing:
            found = hub.find(self.sid)
            if found is None:
                raise NoSuchSession(f"The hub has no session for the conversation {self.sid!r}")
        else:
            user = "openhands" if self.config.run_as_openhands else "root"
            flags = ["--username", user]
            flags += [] if self.config.enable_browser else ["--no-enable-browser"]
            found = hub.start(self.sid, flags, self.config.sandbox.runtime_startup_env_vars)
        cloud = CloudRuntime(hub.url, hub.token, session_id=found.session_id, default_timeout=None)
        runtime = SyncRuntime(cloud)
        runtime.connect()
        self._on_hub, self._cloud = found, cloud
        return runtime, _WORKSPACE

    def close(self) -> None:
        was_open = self._runtime is not None
        super().close()
        is_kept = self.attach_to_existing or self.config.sandbox.keep_runtime_alive
        if was_open and self._hub_runtimes is not None and self._on_hub is not None and not is_kept:
            self._hub_runtimes.stop(self._on_hub)

    @property
    def vscode_url(self) -> str | None:
        """The URL of a session's VS Code. A sandbox on this machine has no VS Code."""
        if self._cloud is None or self._on_hub is None:
            return None
        return vscode_address(self._cloud.vscode_url, self._on_hub, _WORKSPACE)

    @property
    def web_hosts(self) -> dict[str, int]:
        return {} if self._on_hub is None else dict(self._on_hub.web_hosts)

    @property
    def session_api_key(self) -> str | None:
        return None if self._on_hub is None else self._on_hub.key

    def copy_to(self, host_src: str, sandbox_dest: str, recursive: bool = False) -> None:
        """Copy a file or directory into the directory `sandbox_dest`, under its own name."""
        source = Path(host_src)
        if not source.exists() or (source.is_dir() and not recursive):
            raise FileNotFoundError(f"There is no file {host_src} to copy")
        self._open_runtime.upload(source, str(self.workspace_root / sandbox_dest))

    def copy_from(self, path: str) -> Path:
        """Create a zip of `path`. The caller removes the zip."""
        source = self.workspace_root / path
        with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file:
            target = Path(file.name)
        try:
            return self._open_runtime.download(str(source), target)
        except NoSuchPath as error:
            target.unlink()
            raise FileNotFoundError(error.message) from error

    @classmethod
    async def delete(cls, conversation_id: str) -> None:
        hub = HubRuntimes.from_environment()
        remove = _remove_directories if hub is None else hub.remove
        await asyncio.to_thread(remove, conversation_id)


def _conversation_directory(conversation_id: str) -> Path:
    """The existing directory of the conversation, or a new directory."""
    known = _directories(conversation_id)
    return known[0] if known else Path(tempfile.mkdtemp(prefix=_prefix(conversation_id)))


def _remove_directories(conversation_id: str) -> None:
    for directory in _directories(conversation_id):
        shutil.rmtree(directory)


def _directories(conversation_id: str) -> list[Path]:
    """The conversation's directories that belong to this user. In the shared temporary directory,
    other users can create the same names."""
    prefix = _prefix(conversation_id)
    return [
        each
        for each in Path(tempfile.gettempdir()).iterdir()
        if each.name.startswith(prefix)
        and len(each.name) == len(prefix) + _SUFFIX_LENGTH
        and each.is_dir()
        and not each.is_symlink()
        and each.stat().st_uid == os.getuid()
    ]


def _prefix(conversation_id: str) -> str:
    return f"openhands_workspace_{conversation_id}_"
