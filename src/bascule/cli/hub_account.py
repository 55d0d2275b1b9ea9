"""Drops the hub's root privileges before it listens. Only its warden, a helper, keeps them."""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bascule.core.errors import InvalidSetting, NoSuchPath

if TYPE_CHECKING:
    from .hub_settings import HubFile

logger = logging.getLogger(__name__)

Warden = socket.socket | Path
"""The privileged helper process: a connected socket, or the path of the socket it listens on."""


@dataclass(frozen=True, slots=True)
class HubAccount:
    """The Unix user that the hub runs as."""

    name: str
    uid: int
    gid: int
    home: Path

    @classmethod
    def named(cls, name: str) -> Self:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise InvalidSetting(
                f"user: this machine has no user {name!r}; as root: useradd --system "
                f"--create-home --home-dir /var/lib/{name} {name}"
            ) from None
        return cls(found.pw_name, found.pw_uid, found.pw_gid, Path(found.pw_dir))

    def set_environment(self) -> None:
        """Set the environment variables so that state and cache directories are this user's."""
        os.environ.update(HOME=str(self.home), USER=self.name, LOGNAME=self.name)
        for name in [name for name in os.environ if name.startswith("XDG_")]:
            del os.environ[name]

    def create_directory(self, directory: Path, mode: int) -> None:
        """Create a directory of this user if it does not exist.

        In a directory of root it is created as root, otherwise as this user: root must not create
        anything where the user could replace a part of the path with a link. Raises `AccessDenied`
        for a path with a link that the user could have created.
        """
        from bascule.runtime.spawn.local.safe_open import open_real

        with contextlib.suppress(NoSuchPath):
            os.close(open_real(directory))
            return
        self.create_directory(directory.parent, 0o755)
        parent = open_real(directory.parent)
        try:
            if os.fstat(parent).st_uid == 0:
                self._make_as_root(parent, directory.name, mode)
            else:
                self._make_as_user(parent, directory, mode)
        finally:
            os.close(parent)

    def _make_as_root(self, parent: int, name: str, mode: int) -> None:
        os.mkdir(name, mode, dir_fd=parent)
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            os.fchown(made, self.uid, self.gid)
        finally:
            os.close(made)

    def _make_as_user(self, parent: int, directory: Path, mode: int) -> None:
        os.setegid(self.gid)
        os.seteuid(self.uid)
        try:
            os.mkdir(directory.name, mode, dir_fd=parent)
        except OSError as error:
            raise InvalidSetting(f"user {self.name} cannot create {directory}: {error}") from error
        finally:
            os.seteuid(0)
            os.setegid(0)

    def drop_privileges(self) -> None:
        """Switch to this user permanently. The process cannot become root again."""
        os.initgroups(self.name, self.gid)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def switch_user(settings: HubFile) -> Warden | None:
    """Switch to the user in the settings, and return the warden that keeps root's privileges.

    None: the spawner starts its own warden, with the privileges of this process. Call this first:
    files created before the switch belong to root.
    """
    if not settings.user:
        return settings.warden
    account = HubAccount.named(settings.user)
    if os.geteuid() == account.uid:
        return settings.warden
    if os.geteuid() != 0:
        raise InvalidSetting(
            f"user: only root can become {account.name}; start the hub as root, or as that user"
        )
    account.set_environment()
    make_directories(settings, account)
    warden = settings.warden or _start_warden(settings, account)
    account.drop_privileges()
    return warden


def warn_if_root() -> None:
    """Log a warning if the hub runs as root. Call it after the hub has started."""
    if os.geteuid() == 0:
        logger.warning(
            "the hub runs as root; set `user` to run it as that user, so that only the "
            "helper that starts sessions keeps root's rights"
        )


def make_directories(settings: HubFile, account: HubAccount) -> None:
    """Create the directories that the hub and its warden share."""
    account.create_directory(settings.state(), 0o700)
    account.create_directory(settings.run(), 0o711)


def _start_warden(settings: HubFile, account: HubAccount) -> Warden | None:
    from .spawners import installed_vscode, local_settings

    if "local" not in settings.spawners:
        return None
    from bascule.runtime.spawn.local import start_warden

    given = local_settings(settings, hub_uid=account.uid, vscode=installed_vscode())
    return start_warden(given)
