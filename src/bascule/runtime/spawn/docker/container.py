"""The engine's configuration for the container of a sandbox. Pure rules, no I/O."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import NotSupported
from bascule.core.sessions import Egress, RunningSandbox, SandboxPlan, SessionId
from bascule.runtime.spawn.layout_links import links_for
from bascule.runtime.spawn.local.directories import EGRESS_SOCKET, egress_dir
from bascule.runtime.spawn.local.preparation import ensure_user
from bascule.runtime.spawn.session_paths import (
    EGRESS_DIR,
    HUB_DIR,
    PATH,
    ROOT,
    RUN_DIR,
    STATE_DIR,
    USER,
    account_files,
    home_of,
)
from bascule.sandbox.session.launch import SandboxLaunch

from .foreign_image import ForeignImage
from .portable import INTERPRETER, PORTABLE, PROGRAMS
from .settings import DockerSettings

SCOPE: Final = "org.bascule.scope"
SESSION: Final = "org.bascule.session"
_RUN_DIR: Final = "org.bascule.run-dir"
_UID: Final = "org.bascule.uid"
_EGRESS: Final = "org.bascule.egress"

_VSCODE: Final = "org.bascule.vscode"
"""Label of an image: the path of VS Code in it."""
_VSCODE_EXTENSIONS: Final = "org.bascule.vscode-extensions"

_LOG: Final = {"max-size": "1m", "max-file": "2"}


@dataclass(frozen=True, slots=True)
class HostOwner:
    """The owner of a session's files on the host."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container that is still to be created."""

    settings: DockerSettings
    plan: SandboxPlan
    owner: HostOwner
    is_rootless: bool = False
    """Whether the engine runs without root. Root in a container is then the engine's user
    outside."""
    foreign: ForeignImage | None = None
    """Set for an image that does not contain Bascule."""

    @property
    def name(self) -> str:
        return container_name(self.settings, self.plan.session_id)

    @property
    def image(self) -> str:
        return self.plan.image or self.settings.image

    @property
    def workspace(self) -> Path:
        return self.plan.folder or self.plan.directory / "workspace"

    @property
    def user(self) -> str:
        """The user name inside the container."""
        return self.plan.user or USER

    @property
    def home(self) -> str:
        return home_of(self.user)

    @property
    def user_ids(self) -> HostOwner:
        """The user and group id inside the container."""
        return HostOwner(0, 0) if self.is_rootless else self.owner

    def configuration(self) -> dict[str, Any]:
        """The body for the engine's `containers/create`.

        The body contains no secret, because everyone with access to the engine can read it.
        """
        first, *rest = self.command
        path = {} if self.foreign is None else {"PATH": f"{self.foreign.path}:{PROGRAMS}"}
        variables = {"HOME": self.home, "USER": self.user, **path}
        return {
            "Image": self.image,
            "Entrypoint": [first],
            "Cmd": rest,
            "User": f"{self.user_ids.uid}:{self.user_ids.gid}",
            "WorkingDir": self.settings.workspace,
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "Hostname": "sandbox",
            "Labels": self._labels(),
            # The launch settings are written to stdin once; stdin ends when that connection closes.
            "OpenStdin": True,
            "StdinOnce": True,
            "StopSignal": "SIGTERM",
            "HostConfig": self._host(),
        }

    @property
    def interpreter(self) -> tuple[str, ...]:
        """Command that starts Bascule's Python in the container."""
        return self.settings.command[:1] if self.foreign is None else INTERPRETER

    @property
    def command(self) -> tuple[str, ...]:
        """Command of the first process of the sandbox."""
        return self.interpreter + self.settings.command[1:]

    def launch(self, image: Mapping[str, Any]) -> SandboxLaunch:
        """The launch settings of the sandbox. `image` is the engine's description of the image."""
        plan, labels = self.plan, labels_of(image)
        user = self.user
        own = {"HOME": self.home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash"}
        default = {"PATH": PATH, "LANG": "C.UTF-8"}
        return SandboxLaunch(
            key=plan.key,
            working_dir=self.settings.workspace,
            run_dir=RUN_DIR,
            state_dir=STATE_DIR,
            environment={**default, **environment_of(image), **own, **plan.environment},
            shells=plan.shells,
            browser=plan.browser,
            checkpoints=plan.checkpoints,
            window_asks=plan.window_asks,
            file_layout=plan.file_layout,
            hub_socket=f"{HUB_DIR}/{plan.hub_socket.name}" if plan.hub_socket else "",
            egress_socket=f"{EGRESS_DIR}/{EGRESS_SOCKET}" if self._is_proxied else "",
            session_id=plan.session_id,
            vscode=labels.get(_VSCODE, ""),
            vscode_extensions=labels.get(_VSCODE_EXTENSIONS, ""),
            confine=True,
            # If the session has the UID of a person, set-ID files would run as that person.
            set_id_files=self.owner.uid in self.settings.lent_uids,
            is_isolated=True,
        )

    def initial_files(self) -> bytes:
        """A tar for `/`: files that give the user id a name, and links."""
        accounts = account_files(self.user_ids.uid, self.user_ids.gid, self.user)
        if self.foreign is not None:
            accounts = self.foreign.with_accounts(accounts)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, text in accounts.items():
                content = text.encode()
                entry = tarfile.TarInfo(f"etc/{name}")
                entry.size, entry.mode = len(content), 0o644
                tar.addfile(entry, io.BytesIO(content))
            environment = str(Path(self.settings.command[0]).parent.parent)
            for path, target in links_for(self.plan.file_layout, environment).items():
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)
        return packed.getvalue()

    @property
    def _is_proxied(self) -> bool:
        return self.plan.egress.mode == "proxy"

    def _labels(self) -> dict[str, str]:
        return {
            SCOPE: self.settings.scope,
            SESSION: self.plan.session_id,
            _RUN_DIR: str(self.plan.run_dir),
            _UID: str(self.owner.uid),
            _EGRESS: json.dumps(asdict(self.plan.egress)),
        }

    def _host(self) -> dict[str, Any]:
        limits = self.plan.limits
        return {
            "Mounts": list(self._mounts()),
            "NetworkMode": self.settings.network if self.plan.egress.mode == "open" else "none",
            "Init": True,  # reaps the orphans of a session's shells
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            # UIDs are the same inside and outside, even if the engine remaps them elsewhere.
            "UsernsMode": "" if self.is_rootless else "host",
            "Memory": limits.memory or 0,
            "MemorySwap": limits.memory or 0,  # the sum of both: no swap
            "NanoCpus": int((limits.cpus or 0) * 1e9),
            "PidsLimit": limits.processes,
            "ShmSize": self.settings.shared_memory,
            "LogConfig": {"Type": "json-file", "Config": _LOG},
            "RestartPolicy": {"Name": "no"},
        }

    def _mounts(self) -> Sequence[dict[str, Any]]:
        plan, directory = self.plan, self.plan.directory
        writable = {
            self.settings.workspace: self.workspace,
            self.home: directory / "home",
            STATE_DIR: directory / "state",
            RUN_DIR: plan.run_dir,
        }
        readable: dict[str, Path] = {}
        if self._is_proxied:
            readable[EGRESS_DIR] = egress_dir(self.settings.run_dir, plan.session_id)
        if plan.hub_socket is not None:
            readable |= _hub_view(plan.hub_socket, plan.session_id)
        return (
            [_bind(host_path, inside, read_only=False) for inside, host_path in writable.items()]
            + [_bind(host_path, inside, read_only=True) for inside, host_path in readable.items()]
            + [*self.program_mounts, _terminals_mount(self.settings.max_terminals)]
        )

    @property
    def program_mounts(self) -> Sequence[dict[str, Any]]:
        """The mount of Bascule itself, for an image that does not contain it."""
        if self.foreign is None:
            return ()
        return (_bind(self.foreign.portable, PORTABLE, read_only=True),)


def ensure_can(plan: SandboxPlan, *, is_rootless: bool) -> None:
    """Raise an error for a plan that a container cannot fulfil."""
    ensure_user(plan.user)
    if plan.user == ROOT and not is_rootless:
        raise NotSupported(
            "The spawner docker cannot run a session as root, which would have root's access to "
            "files of this machine. Use another user (OpenHands: run_as_openhands), or the spawner "
            "local",
            user=plan.user,
        )


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """One of our containers, read from its labels and state."""

    id: str
    session_id: SessionId
    run_dir: Path
    uid: int
    egress: Egress
    status: str
    """One of `created running paused restarting removing exited dead`."""

    @property
    def is_running(self) -> bool:
        return self.status in ("running", "paused", "restarting")

    @property
    def is_paused(self) -> bool:
        return self.status == "paused"

    def as_running(self) -> RunningSandbox:
        return RunningSandbox(session_id=self.session_id, is_paused=self.is_paused, uid=self.uid)

    @classmethod
    def read(cls, id: str, labels: Mapping[str, str], status: str) -> ContainerInfo:
        return cls(
            id=id,
            session_id=SessionId(labels[SESSION]),
            run_dir=Path(labels[_RUN_DIR]),
            uid=int(labels[_UID]),
            egress=Egress(**json.loads(labels[_EGRESS])),
            status=status,
        )


def container_name(settings: DockerSettings, session_id: SessionId) -> str:
    """The name of the session's container. The engine refuses a second container of the same
    name."""
    return f"bascule-{settings.scope}-{session_id}"


def environment_of(image: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables that an image sets."""
    variables = (image.get("Config") or {}).get("Env") or ()
    return dict(each.split("=", 1) for each in variables if "=" in each)


def labels_of(image: Mapping[str, Any]) -> Mapping[str, str]:
    return (image.get("Config") or {}).get("Labels") or {}


def _bind(host_path: Path, inside: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(host_path), "Target": inside, "ReadOnly": read_only}


def _terminals_mount(maximum: int) -> dict[str, Any]:
    """A mount of `/dev/pts` with a limit; the engine's own mount has no limit and no options.

    The mount is an anonymous volume that contains a new devpts. The engine removes the volume with
    the container.
    """
    options = f"nosuid,noexec,ptmxmode=0666,mode=0620,max={maximum}"
    mount = {"type": "devpts", "device": "devpts", "o": options}
    driver = {"Name": "local", "Options": mount}
    return {
        "Type": "volume",
        "Target": "/dev/pts",
        "VolumeOptions": {"NoCopy": True, "DriverConfig": driver},
    }


def _hub_view(hub_socket: Path, session_id: SessionId) -> dict[str, Path]:
    """The mount for the hub's socket.

    The mount is the socket's directory, because a restarted hub creates a new socket there, and a
    mounted socket would stay the old one. If other sessions use this directory too, only the socket
    is mounted.
    """
    if hub_socket.parent.name == session_id:
        return {HUB_DIR: hub_socket.parent}
    return {f"{HUB_DIR}/{hub_socket.name}": hub_socket}
