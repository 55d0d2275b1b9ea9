"""Chooses the user that a sandbox runs as, and makes this user the owner of the directories.

All functions block.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from bascule.core.errors import AccessDenied, NoSuchPath, QuotaExceeded, SandboxStartFailed
from bascule.core.sessions import SandboxPlan
from bascule.runtime.spawn import trees
from bascule.runtime.spawn.local import safe_open
from bascule.runtime.spawn.local.machine import hash_of

from .container import HostOwner
from .settings import DockerSettings


def prepare(settings: DockerSettings, plan: SandboxPlan, taken: Collection[int]) -> HostOwner:
    """Choose the user, create missing directories and change their owner. `taken`: UIDs in use."""
    if plan.directory != settings.sessions_dir / plan.session_id:
        raise AccessDenied(f"{plan.directory} is not a session directory of this hub")
    workspace = plan.folder or plan.directory / "workspace"
    if plan.folder is None:
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        _ensure_may_be_used(settings, plan.folder)
    for each in (plan.directory / "home", plan.directory / "state", plan.run_dir):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = _owner(settings, plan, workspace, taken)
    _hand_over(settings, plan, owner)
    return owner


def _ensure_may_be_used(settings: DockerSettings, folder: Path) -> None:
    try:
        real = folder.resolve(strict=True)
    except OSError as error:
        raise SandboxStartFailed(f"{folder} cannot be a workspace: {error.strerror}") from error
    if not real.is_dir():
        raise SandboxStartFailed(f"{folder} is not a directory on this machine")
    if real != folder:
        raise AccessDenied(f"{folder} is a link to {real}; links are not followed")
    if not any(real.is_relative_to(root) for root in settings.workspace_roots):
        named = ", ".join(map(str, settings.workspace_roots)) or "none is set"
        raise AccessDenied(f"{folder} is not below any of the workspace_roots ({named})")


def _owner(
    settings: DockerSettings, plan: SandboxPlan, workspace: Path, taken: Collection[int]
) -> HostOwner:
    found = workspace.stat()
    if os.geteuid() != 0:
        if found.st_uid != os.geteuid():
            raise AccessDenied(
                f"{workspace} belongs to another user; a hub that is not root can share only "
                "its own user's folders"
            )
        return HostOwner(os.geteuid(), os.getegid())
    if plan.folder is not None:
        if found.st_uid == 0 and not settings.allow_root:
            raise AccessDenied(
                f"{plan.folder} belongs to root, so the session would be root in its container: "
                "give the folder to another user (chown), use the spawner local, in which no "
                "session is root, or set allow_root"
            )
        return HostOwner(found.st_uid, found.st_gid)
    uids = settings.lent_uids
    if found.st_uid in uids:
        return HostOwner(found.st_uid, found.st_uid)  # from an earlier start
    first = hash_of(plan.session_id) % settings.uid_count
    for step in range(settings.uid_count):
        uid = uids[(first + step) % settings.uid_count]
        if uid not in taken:
            return HostOwner(uid, uid)
    raise QuotaExceeded(f"All {settings.uid_count} UIDs of sessions are in use; raise uid_count")


def _hand_over(settings: DockerSettings, plan: SandboxPlan, owner: HostOwner) -> None:
    if os.geteuid() != 0:
        plan.run_dir.chmod(0o700)
        return
    names = ["home", "state"] if plan.folder is not None else ["home", "state", "workspace"]
    for name in names:
        directory = os.open(plan.directory / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            safe_open.hand_over(directory, owner.uid, owner.gid, lambda _owner: True)
        finally:
            os.close(directory)
    group = os.getegid() if settings.socket_gid is None else settings.socket_gid
    os.chown(plan.run_dir, owner.uid, group, follow_symlinks=False)
    plan.run_dir.chmod(0o2770)


def remove_directory(directory: Path) -> None:
    """Remove a directory with its contents, whatever their permissions.

    Symlinks are not followed.
    """
    try:
        opened = safe_open.open_beneath(directory.parent, directory)
    except NoSuchPath:
        return
    try:
        trees.clear(opened)
    finally:
        os.close(opened)
    directory.rmdir()


def clear_sockets(run_dir: Path) -> None:
    for each in run_dir.glob("*.sock"):
        each.unlink(missing_ok=True)
