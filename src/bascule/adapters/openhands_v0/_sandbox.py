"""OpenHands V0 in a sandbox on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from bascule.core.errors import NoSuchPath
from bascule.runtime import LocalRuntime, SyncRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings

from ._runtime import BasculeRuntime

_SOFT_TIMEOUT: Final = 10.0
"""Seconds; OpenHands' own server has the same, and the same variable to change it."""


_RANDOM: Final = 8
"""Letters that `mkdtemp` adds to a name."""


class SandboxRuntime(BasculeRuntime):
    """Agents work in `workspace_base`, or in a directory that is made for the conversation.

    That directory lasts until the conversation is deleted; processes end with the runtime.
    """

    def _open(self) -> tuple[SyncRuntime, str]:
        directory = Path(self.config.workspace_base or _made_for(self.sid)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        given = self.config.sandbox.runtime_startup_env_vars
        soft = float(given.get("NO_CHANGE_TIMEOUT_SECONDS", _SOFT_TIMEOUT))
        settings = SandboxSettings(shells=ShellSettings(soft_timeout=soft))
        runtime = SyncRuntime(LocalRuntime(directory, settings=settings, default_timeout=None))
        runtime.connect()
        return runtime, str(directory)

    def copy_to(self, host_src: str, sandbox_dest: str, recursive: bool = False) -> None:
        """Into the directory `sandbox_dest`; a directory keeps its name there."""
        source = Path(host_src)
        if not source.exists() or (source.is_dir() and not recursive):
            raise FileNotFoundError(f"There is no file {host_src} to copy")
        self._open_runtime.upload(source, str(self.workspace_root / sandbox_dest))

    def copy_from(self, path: str) -> Path:
        """A zip of `path`; whoever asked removes it."""
        where = self.workspace_root / path
        with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file:
            target = Path(file.name)
        try:
            return self._open_runtime.download(str(where), target)
        except NoSuchPath as error:
            target.unlink()
            raise FileNotFoundError(error.message) from error

    @classmethod
    async def delete(cls, conversation_id: str) -> None:
        await asyncio.to_thread(_remove_made_for, conversation_id)


def _made_for(conversation_id: str) -> Path:
    """The directory the conversation had before, or a new one."""
    known = _directories(conversation_id)
    return known[0] if known else Path(tempfile.mkdtemp(prefix=_prefix(conversation_id)))


def _remove_made_for(conversation_id: str) -> None:
    for directory in _directories(conversation_id):
        shutil.rmtree(directory)


def _directories(conversation_id: str) -> list[Path]:
    """Only our own: in a directory for everybody, anybody can make one of that name."""
    prefix = _prefix(conversation_id)
    return [
        each
        for each in Path(tempfile.gettempdir()).iterdir()
        if each.name.startswith(prefix)
        and len(each.name) == len(prefix) + _RANDOM
        and each.is_dir()
        and not each.is_symlink()
        and each.stat().st_uid == os.getuid()
    ]


def _prefix(conversation_id: str) -> str:
    return f"openhands_workspace_{conversation_id}_"
