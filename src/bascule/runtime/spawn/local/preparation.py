"""Prepares a sandbox: turns a `SandboxPlan` into the order for the zygote.

Hands over directories, leases a UID, creates the cgroup and builds the bubblewrap arguments.
All calls block. All steps can be undone: `PreparedSandbox` holds the descriptors, and the cleanup
after an ended sandbox removes the rest.
"""

from __future__ import annotations

import logging
import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import AccessDenied, InvalidRequest, MissingTool, QuotaExceeded
from bascule.core.sessions import SandboxPlan, SessionId
from bascule.runtime.spawn import session_paths
from bascule.runtime.spawn.egress.networks import network_reach, own_addresses
from bascule.runtime.spawn.layout_links import links_for
from bascule.sandbox.session.launch import SandboxLaunch

from . import bind_mounts, safe_open, sudo, view
from .bind_mounts import MountOwner
from .directories import EGRESS_SOCKET, WardenDirectories, egress_dir
from .machine import Machine, hash_of
from .records import SandboxRecord, SandboxRecords, UidLeases
from .settings import LocalSettings

logger = logging.getLogger(__name__)

_ID: Final = re.compile(r"[a-z0-9]{8,40}")
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_SLIRP: Final = (
    *("--configure", "--mtu", "65520", "--disable-host-loopback"),
    *("--enable-sandbox", "--enable-seccomp"),
)
_SLIRP_RESOLVER: Final = "10.0.2.3"


@dataclass(slots=True)
class PreparedSandbox:
    """A sandbox ready to be ordered from the zygote."""

    record: SandboxRecord
    order: Mapping[str, Any]
    descriptors: Mapping[str, int]
    """Descriptors to pass to the zygote, by name."""

    def close(self) -> None:
        for descriptor in set(self.descriptors.values()):
            os.close(descriptor)


@dataclass(slots=True)
class SandboxPreparation:
    """Prepares sandboxes."""

    settings: LocalSettings
    machine: Machine
    records: SandboxRecords
    leases: UidLeases
    directories: WardenDirectories
    logs: Path
    system: Sequence[str] = field(init=False)
    etc: Mapping[str, str] = field(init=False)
    readable: Sequence[Path] = field(init=False)
    has_sudo: bool = field(init=False)
    stage: Path = field(init=False)
    """Directory in which a starting sandbox attaches its mounts, in its own mount namespace."""

    def __post_init__(self) -> None:
        self.stage = self.settings.state_dir / "mounts"
        self.stage.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.system = view.system()
        self.etc = view.etc()
        self.has_sudo = sudo.is_available()
        paths = {*view.python_paths(), *self.settings.visible}
        self.readable = view.outermost(path for path in paths if os.access(path, os.R_OK))

    def prepare(self, plan: SandboxPlan) -> PreparedSandbox | None:
        """Prepare a sandbox.

        Returns None if a sandbox of that session runs or starts. Raises an error if the plan is
        impossible.
        """
        opened: dict[str, int] = {}
        try:
            return self._prepare(plan, opened)
        except BaseException:
            for descriptor in opened.values():
                os.close(descriptor)
            raise

    def _prepare(self, plan: SandboxPlan, opened: dict[str, int]) -> PreparedSandbox | None:
        ensure_id(plan.session_id)
        ensure_user(plan.user)
        self._ensure_network(plan)
        self._open_directories(plan, opened)
        before = _earlier_user(opened) if plan.folder is not None else None
        uid, gid = self._choose_user(plan, opened)
        root = self._lease_root(plan, opened)
        record = SandboxRecord(
            session_id=plan.session_id,
            uid=uid,
            root=root,
            network=self._lease_network_user(plan, opened),
            run_dir=str(plan.run_dir),
            is_isolated=bool(self.machine.bubblewrap),
            egress=plan.egress,
        )
        lock = self.records.take(record)
        if lock is None:
            for descriptor in opened.values():
                os.close(descriptor)
            return None
        opened["lock"] = lock
        names = ("home", "state") if plan.folder is not None else ("home", "state", "workspace")
        self._hand_over(
            names, opened, MountOwner(uid, gid), before=before, check_entries=root is not None
        )
        if self._uses_descriptors:
            _clone_mounts(opened)
        opened["log"] = os.open(
            self.logs / plan.session_id,
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        opened["launch"] = _memory_file(self._launch(plan, root).to_json())
        order = self._order(plan, gid, record)
        # Bubblewrap opens the other directories by path, so their descriptors are not needed.
        named = {word[1:] for word in order["bubblewrap"] if word.startswith("@")}
        for name in [name for name in opened if name.startswith("dir:") and name not in named]:
            os.close(opened.pop(name))
        return PreparedSandbox(record, order, opened)

    def _ensure_network(self, plan: SandboxPlan) -> None:
        machine = self.machine
        if plan.egress.mode == "open" and machine.bubblewrap and machine.network_problem:
            raise MissingTool(
                "A session with egress 'open' needs slirp4netns, which does not work here: "
                f"{machine.network_problem}. Use egress 'off' or 'proxy'"
            )

    def _open_directories(self, plan: SandboxPlan, opened: dict[str, int]) -> None:
        directories = self.directories
        own = opened["own"] = directories.open_session(plan.directory)
        for name in ("home", "state"):
            opened[f"dir:{name}"] = safe_open.make_dir(own, name)
        if plan.folder is not None:
            opened["dir:workspace"] = directories.open_folder(plan.folder)
        else:
            opened["dir:workspace"] = safe_open.make_dir(own, "workspace")
        owner = os.fstat(opened["dir:workspace"]).st_uid
        opened["dir:run"] = directories.make_run_dir(plan.run_dir, owner)
        os.close(opened.pop("own"))
        self._open_shared(plan, opened)

    def _open_shared(self, plan: SandboxPlan, opened: dict[str, int]) -> None:
        """Open the other directories that the sandbox sees and that the hub's user could
        replace."""
        if self.settings.vscode is not None:
            opened["dir:vscode"] = safe_open.open_real(self.settings.vscode.home)
        if plan.egress.mode == "proxy":
            path = egress_dir(self.settings.run_dir, plan.session_id)
            opened["dir:egress"] = self.directories.open_in_run_dir(path)
        if plan.hub_socket is not None:
            opened["dir:hub"] = self.directories.open_in_run_dir(plan.hub_socket.parent)
            if plan.hub_socket.parent.name != plan.session_id:
                opened["dir:hub"] = safe_open.open_socket(
                    opened.pop("dir:hub"), plan.hub_socket.name
                )

    def _choose_user(self, plan: SandboxPlan, opened: dict[str, int]) -> tuple[int, int]:
        """The UID and GID of the session's user. If the UID is leased, adds the lease to
        `opened`."""
        workspace = os.fstat(opened["dir:workspace"])
        if not self.machine.is_root:
            return os.geteuid(), os.getegid()
        if not self.machine.bubblewrap:
            uid = self.settings.hub_uid or os.geteuid()
            return uid, uid
        if plan.folder is not None and workspace.st_uid == 0 and not self.settings.allow_root:
            raise AccessDenied(
                f"{plan.folder} belongs to root; sessions may use root's folders only if "
                "allow_root is set"
            )
        first, count = self.settings.first_uid, self.settings.uid_count
        before = os.fstat(opened["dir:home"]).st_uid
        uid = self._lease("lease", [before, first + hash_of(plan.session_id) % count], opened)
        if plan.folder is not None and not self._map_owner(plan.folder, opened, uid):
            os.close(opened.pop("lease"))
            self.leases.tidy(uid)
            return workspace.st_uid, workspace.st_gid
        return uid, uid

    def _map_owner(self, folder: Path, opened: dict[str, int], uid: int) -> bool:
        """Mount the folder with its owner mapped to that UID.

        Returns False if this is not possible. The session must then run as the owner, but never as
        root.
        """
        directory = opened["dir:workspace"]
        found = os.fstat(directory)
        try:
            opened["mount:workspace"] = bind_mounts.clone(
                directory,
                owner=MountOwner(found.st_uid, found.st_gid),
                shown_as=MountOwner(uid, uid),
            )
        except OSError as error:
            if found.st_uid == 0:
                raise AccessDenied(
                    f"{folder} belongs to root and cannot be mapped to the user of a session, "
                    "which has another UID: its file system does not support id-mapped mounts here "
                    f"({error}). Give the folder to another user (chown), or create the session "
                    "without a folder"
                ) from error
            logger.warning(
                "%s has no id-mapped mounts (%s): its session runs as UID %d, the folder's owner",
                *(folder, error, found.st_uid),
            )
            return False
        return True

    @property
    def _uses_descriptors(self) -> bool:
        return self.machine.is_root and bool(self.machine.bubblewrap)

    def _lease_root(self, plan: SandboxPlan, opened: dict[str, int]) -> int | None:
        """Lease the UID of the second user, root, for a session that needs such a user.

        Returns None on machines where this is impossible, and in a host folder: files of two UIDs
        cannot both map to the folder's owner.
        """
        needs_root = (
            plan.file_layout == "openhands"
            and plan.user != session_paths.ROOT
            and plan.folder is None
        )
        if not (needs_root and self.has_sudo and "lease" in opened):
            return None
        return self._lease("lease:root", [], opened)

    def _lease_network_user(self, plan: SandboxPlan, opened: dict[str, int]) -> int | None:
        """The user for the process that connects the session's network: a leased UID if
        possible."""
        if plan.egress.mode != "open" or not (self.machine.is_root and self.machine.bubblewrap):
            return None
        return self._lease("lease:network", [], opened)

    def _lease(self, name: str, wanted: Sequence[int], opened: dict[str, int]) -> int:
        lease = self.leases.take(wanted)
        if lease is None:
            count = self.settings.uid_count
            raise QuotaExceeded(f"All {count} UIDs of sessions are in use; raise uid_count")
        uid, opened[name] = lease
        return uid

    def _hand_over(
        self,
        names: Sequence[str],
        opened: Mapping[str, int],
        user: MountOwner,
        *,
        before: int | None,
        check_entries: bool,
    ) -> None:
        """Give directories to the user.

        `before`: the UID of the session's earlier user, if this was not a leased UID.
        """
        if not self.machine.is_root:
            os.fchmod(opened["dir:run"], 0o700)
            return
        hub = self.settings.hub_uid
        hub_uids = {os.geteuid() if hub is None else hub}
        if before is not None and (before != 0 or hub is None):
            hub_uids.add(before)
        for name in names:
            safe_open.hand_over(
                opened[f"dir:{name}"],
                user.uid,
                user.gid,
                lambda owner: owner in hub_uids or owner in self.leases,
                check_entries=check_entries,
            )
        os.fchown(opened["dir:run"], user.uid, _socket_gid(self.settings))
        os.fchmod(opened["dir:run"], 0o2770)

    def _launch(self, plan: SandboxPlan, root: int | None) -> SandboxLaunch:
        isolated = bool(self.machine.bubblewrap)
        proxied = plan.egress.mode == "proxy"
        egress = egress_dir(self.settings.run_dir, plan.session_id)
        hub = plan.hub_socket
        inside_hub = f"{session_paths.HUB_DIR}/{hub.name}" if isolated and hub else str(hub or "")
        vscode, extensions = self._vscode(isolated=isolated)
        return SandboxLaunch(
            key=plan.key,
            working_dir=session_paths.WORKSPACE
            if isolated
            else str(plan.folder or plan.directory / "workspace"),
            run_dir=session_paths.RUN_DIR if isolated else str(plan.run_dir),
            state_dir=session_paths.STATE_DIR if isolated else str(plan.directory / "state"),
            environment={
                **self._environment(plan, root),
                **plan.environment,
            },
            shells=plan.shells,
            browser=plan.browser,
            checkpoints=plan.checkpoints,
            window_asks=plan.window_asks,
            file_layout=plan.file_layout,
            hub_socket=inside_hub,
            session_id=plan.session_id,
            is_isolated=isolated,
            vscode=vscode,
            vscode_extensions=extensions,
            egress_socket=""
            if not proxied
            else str(Path(session_paths.EGRESS_DIR if isolated else egress, EGRESS_SOCKET)),
        )

    def _vscode(self, *, isolated: bool) -> tuple[str, str]:
        vscode = self.settings.vscode
        if vscode is None:
            return "", ""
        return vscode.seen_at(session_paths.VSCODE if isolated else str(vscode.home))

    def _environment(self, plan: SandboxPlan, root: int | None) -> dict[str, str]:
        user = plan.user or session_paths.USER
        home = (
            session_paths.home_of(user) if self.machine.bubblewrap else str(plan.directory / "home")
        )
        return {
            "PATH": session_paths.PATH if root is None else f"{sudo.PLACE}:{session_paths.PATH}",
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
        }

    def _order(self, plan: SandboxPlan, gid: int, record: SandboxRecord) -> dict[str, Any]:
        machine, limits = self.machine, plan.limits
        uid, root = record.uid, record.root
        reach = network_reach(self.settings.open_networks, own_addresses())
        groups = [] if machine.cgroups is None else machine.cgroups.make(plan.session_id, limits)
        is_open = plan.egress.mode == "open"
        sandbox_view = self._view(plan, uid, gid, is_open=is_open)
        if root is not None:
            sandbox_view = replace(sandbox_view, scratch=(sudo.HOME, sudo.PLACE))
        no_cgroups = machine.cgroups is None
        return {
            "bubblewrap": sandbox_view.arguments(machine.bubblewrap) if machine.bubblewrap else [],
            "stage": str(self.stage),
            "etc": self.etc,
            "files": dict(sandbox_view.files()),
            "cgroups": [str(path) for path in groups],
            "own_network": True,
            "own_user": machine.own_user,
            "network": [machine.slirp, *_SLIRP] if is_open and machine.bubblewrap else [],
            "network_uid": os.geteuid() if record.network is None else record.network,
            "rejected": reach.rejected,
            "allowed_networks": reach.allowed_networks,
            "uid": uid,
            "gid": gid,
            "as_root": plan.user == session_paths.ROOT and bool(machine.bubblewrap),
            "root": root,
            "terminals": self.settings.max_terminals,
            # A leased UID may own set-ID files: they give no other user additional rights.
            "set_id_files": machine.is_root and plan.folder is None,
            "memory": limits.memory if no_cgroups else None,
            "processes": limits.processes if no_cgroups and machine.own_user else None,
            "environment": self._environment(plan, root),
        }

    def _view(self, plan: SandboxPlan, uid: int, gid: int, *, is_open: bool) -> view.SandboxView:
        own = plan.directory

        def source(name: str, path: Path) -> str:
            return f"@dir:{name}" if self._uses_descriptors else str(path)

        read_only = {str(path): str(path) for path in self.readable}
        if self.settings.vscode is not None:
            read_only[session_paths.VSCODE] = source("vscode", self.settings.vscode.home)
        if plan.egress.mode == "proxy":
            egress = egress_dir(self.settings.run_dir, plan.session_id)
            read_only[session_paths.EGRESS_DIR] = source("egress", egress)
        if plan.hub_socket is not None:
            inside, host_path = _hub_view(plan.hub_socket, plan.session_id)
            read_only[inside] = source("hub", host_path)
        return view.SandboxView(
            system=self.system,
            etc={"/etc": "@etc"} if self._uses_descriptors else self.etc,
            workspace=source("workspace", plan.folder or own / "workspace"),
            home=source("home", own / "home"),
            run_dir=source("run", plan.run_dir),
            state=source("state", own / "state"),
            uid=uid,
            gid=gid,
            user=plan.user or session_paths.USER,
            links=links_for(plan.file_layout),
            read_only=read_only,
            own_user=self.machine.own_user,
            resolver=_SLIRP_RESOLVER if is_open else "",
        )


def _earlier_user(opened: Mapping[str, int]) -> int | None:
    """The folder's owner, if an earlier version ran the session as that user."""
    home, folder = (os.fstat(opened[f"dir:{name}"]).st_uid for name in ("home", "workspace"))
    return home if home == folder else None


def _clone_mounts(opened: dict[str, int]) -> None:
    """Hold each directory as a mount, so that a later rename has no effect."""
    for name in [name for name in opened if name.startswith("dir:")]:
        mapped = opened.pop(name.replace("dir:", "mount:"), None)
        mount = bind_mounts.clone(opened[name]) if mapped is None else mapped
        os.close(opened[name])
        opened[name] = mount


def ensure_id(session_id: str) -> None:
    if not _ID.fullmatch(session_id):
        raise InvalidRequest(f"{session_id!r} is not a session id")


def ensure_user(name: str) -> None:
    if name and not _USER.fullmatch(name):
        raise InvalidRequest(f"{name!r} is not a valid user name")


def _socket_gid(settings: LocalSettings) -> int:
    if settings.socket_gid is not None:
        return settings.socket_gid
    if settings.hub_uid is None:
        return os.getegid()
    try:
        return pwd.getpwuid(settings.hub_uid).pw_gid
    except KeyError:
        return settings.hub_uid


def _hub_view(hub_socket: Path, session_id: SessionId) -> tuple[str, Path]:
    """The path to mount, inside the session and on the host.

    This is the socket's directory if only this session uses the directory, because a restarted hub
    creates a new socket there. Otherwise it is the socket itself.
    """
    if hub_socket.parent.name == session_id:
        return session_paths.HUB_DIR, hub_socket.parent
    return f"{session_paths.HUB_DIR}/{hub_socket.name}", hub_socket


def _memory_file(content: bytes) -> int:
    number = os.memfd_create("launch", os.MFD_CLOEXEC)
    os.write(number, content)
    os.lseek(number, 0, os.SEEK_SET)
    return number
