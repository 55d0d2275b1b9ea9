"""Opens the directories in which a warden works. Each request opens them again. Most functions
block.

The hub's user owns the parents of these directories, can rename the directories at any moment, and
may be controlled by an attacker. So each path of the settings is opened step by step
(`safe_open.open_real`) and must belong to the hub or to root, and all work is done on descriptors.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule.core.errors import AccessDenied, NoSuchPath
from bascule.core.sessions import SessionId
from bascule.runtime.spawn import disk, trees

from . import safe_open
from .settings import LocalSettings

EGRESS_SOCKET: Final = "proxy.sock"


def egress_dir(run_dir: Path, session_id: SessionId) -> Path:
    """The directory of a session's egress proxy socket; the sandbox sees this directory."""
    return run_dir / "egress" / session_id


@dataclass(frozen=True, slots=True)
class WardenDirectories:
    """Opens directories; the caller closes the returned descriptors.

    Raises `AccessDenied` for a directory elsewhere or of another user, and `NoSuchPath` for a
    missing directory.
    """

    settings: LocalSettings
    is_lent: Callable[[int], bool]
    """Whether a UID is in the range that is leased to sessions."""

    def ensure_usable(self) -> None:
        """Check existing directories at the start, so that the operator sees errors at once."""
        for root in (self.settings.sessions_dir, self.settings.run_dir):
            try:
                os.close(self._open_root(root))
            except NoSuchPath:
                continue

    def open_session(self, directory: Path) -> int:
        """The directory of a session, directly in `sessions_dir`."""
        return self._open_child(self.settings.sessions_dir, directory)

    def open_folder(self, folder: Path) -> int:
        return safe_open.open_folder(self.settings.workspace_roots, folder)

    def make_run_dir(self, run_dir: Path, uid: int) -> int:
        """The run directory of a session, directly in `run_dir`; created if missing.

        `uid`: another permitted owner, from an earlier start of the session.
        """
        root = self._open_root_of(self.settings.run_dir, run_dir)
        try:
            directory = safe_open.make_dir(root, run_dir.name)
        finally:
            os.close(root)
        return self._ensure_owner(directory, run_dir, uid)

    def open_in_run_dir(self, path: Path) -> int:
        """A directory anywhere in `run_dir`, such as the directory with the hub's socket."""
        if not path.is_relative_to(self.settings.run_dir) or ".." in path.parts:
            raise AccessDenied(f"{path} is not in {self.settings.run_dir}")
        root = self._open_root(self.settings.run_dir)
        return safe_open.open_below(root, path.relative_to(self.settings.run_dir))

    async def used(self, directory: Path, uid: int | None = None) -> int:
        """Bytes of the directory and of the run directory with its name; 0 for a missing directory.

        `uid`: another permitted owner of the run directory, while the session runs.
        """
        run_dir = self.settings.run_dir / directory.name
        own = await _measure(lambda: self.open_session(directory))
        return own + await _measure(lambda: self._open_child(self.settings.run_dir, run_dir, uid))

    def remove(self, directory: Path) -> None:
        """Remove a session's directory with its contents, if it exists."""
        self._remove(self.settings.sessions_dir, directory)

    def remove_run_dir(self, run_dir: Path, uid: int) -> None:
        self._remove(self.settings.run_dir, run_dir, uid)

    def _remove(self, root: Path, directory: Path, uid: int | None = None) -> None:
        try:
            parent = self._open_root_of(root, directory)
        except NoSuchPath:
            return
        try:
            found = safe_open.open_below(os.dup(parent), Path(directory.name))
            opened = self._ensure_owner(found, directory, uid)
            try:
                trees.clear(opened)
                _ensure_same(directory, opened, parent)
            finally:
                os.close(opened)
            os.rmdir(directory.name, dir_fd=parent)
        except NoSuchPath:
            return
        finally:
            os.close(parent)

    def _open_child(self, root: Path, directory: Path, uid: int | None = None) -> int:
        parent = self._open_root_of(root, directory)
        return self._ensure_owner(
            safe_open.open_below(parent, Path(directory.name)), directory, uid
        )

    def _open_root_of(self, root: Path, directory: Path) -> int:
        if directory.parent != root or directory.name in ("", "..", "."):
            raise AccessDenied(f"{directory} is not directly in {root}")
        return self._open_root(root)

    def _open_root(self, root: Path) -> int:
        return self._ensure_owner(safe_open.open_real(root), root)

    def _ensure_owner(self, opened: int, path: Path, uid: int | None = None) -> int:
        """The descriptor, if the directory belongs to the hub, to us or to a session."""
        owner = os.fstat(opened).st_uid
        hub = self.settings.hub_uid
        if owner in (0, os.geteuid(), hub, uid) or self.is_lent(owner):
            return opened
        os.close(opened)
        raise AccessDenied(
            f"{path} belongs to the user {owner}; the warden uses directories of "
            f"{'root' if hub is None else f'the hub (user {hub}), of root'} and of sessions"
        )


async def _measure(opening: Callable[[], int]) -> int:
    try:
        opened = await asyncio.to_thread(opening)
    except NoSuchPath:
        return 0
    try:
        return await disk.used(opened)
    finally:
        os.close(opened)


def _ensure_same(path: Path, opened: int, parent: int) -> None:
    """Ensure that the name in `parent` still refers to the opened directory."""
    try:
        now = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if now is None or not os.path.samestat(now, os.fstat(opened)):
        raise AccessDenied(f"{path} was replaced during its removal")
