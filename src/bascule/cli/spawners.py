"""Creates the hub's spawners from its settings."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bascule.core.errors import InvalidSetting, MissingTool

if TYPE_CHECKING:
    from bascule.core.contracts import Spawner
    from bascule.runtime.spawn.local import LocalSettings
    from bascule.runtime.spawn.vscode import SharedVSCode

    from .hub_account import Warden
    from .hub_settings import HubFile

logger = logging.getLogger(__name__)

_WARDEN_DIR: Final = Path("/var/lib/bascule-warden")
"""The state of a warden that runs as root. A hub of another user cannot write there."""


def make_spawners(
    settings: HubFile, warden: Warden | None = None, *, in_roots_folders: bool = False
) -> Mapping[str, Spawner]:
    """The spawners of the setting `spawners`. The first is the default.

    `in_roots_folders`: sessions of the spawner `local`, which are never root themselves, may use
    folders of root even without the setting `allow_root`.
    """
    return {name: _make(name, settings, warden, in_roots_folders) for name in settings.spawners}


def local_settings(
    settings: HubFile, *, hub_uid: int | None = None, vscode: SharedVSCode | None = None
) -> LocalSettings:
    """Settings for the spawner and its warden. `hub_uid`: the hub's user id, if the warden runs as
    another user. `vscode`: the VS Code that the warden provides to sessions."""
    from bascule.runtime.spawn.local import LocalSettings

    state = settings.state()
    default = state / "warden" if hub_uid is None else _WARDEN_DIR / _tag(state)
    return LocalSettings(
        sessions_dir=state / "sessions",
        run_dir=settings.run(),
        state_dir=settings.warden_dir or default,
        workspace_roots=tuple(settings.workspace_roots),
        allow_unisolated=settings.allow_unisolated,
        allow_root=settings.allow_root,
        open_networks=settings.open_networks,
        vscode=vscode,
        hub_uid=hub_uid,
    )


def _tag(state: Path) -> str:
    """A name that is unique for each hub on this machine."""
    return hashlib.sha256(bytes(state)).hexdigest()[:12]


def _make(name: str, settings: HubFile, warden: Warden | None, in_roots_folders: bool) -> Spawner:
    match name:
        case "plain":
            from bascule.runtime.spawn.plain import PlainSpawner

            return PlainSpawner(
                settings.run(),
                allow_unisolated=settings.allow_unisolated,
                vscode=installed_vscode(),
            )
        case "local":
            from bascule.runtime.spawn.local import LocalSpawner

            vscode = installed_vscode() if warden is None else None
            local = local_settings(settings, vscode=vscode)
            allow_root = settings.allow_root or in_roots_folders
            return LocalSpawner(replace(local, allow_root=allow_root), warden=warden)
        case "docker":
            from bascule.runtime.spawn.docker import DockerSettings, DockerSpawner
            from bascule.runtime.spawn.docker.settings import ENGINE, IMAGE

            return DockerSpawner(
                DockerSettings(
                    sessions_dir=settings.state() / "sessions",
                    run_dir=settings.run(),
                    engine=settings.docker_engine or os.environ.get("DOCKER_HOST") or ENGINE,
                    image=settings.docker_image or IMAGE,
                    workspace_roots=settings.workspace_roots,
                    allow_root=settings.allow_root,
                    open_networks=settings.open_networks,
                )
            )
        case "kubernetes":
            return _kubernetes(settings)
        case _:
            raise InvalidSetting(
                f"spawners: there is no spawner {name!r}; use local, docker, kubernetes or plain"
            )


def _kubernetes(settings: HubFile) -> Spawner:
    from bascule.hub.sessions.session_directories import HUB_SOCKETS
    from bascule.runtime.spawn.kubernetes import KubernetesSettings, KubernetesSpawner
    from bascule.runtime.spawn.kubernetes.cluster_access import from_kubeconfig, in_cluster
    from bascule.runtime.spawn.kubernetes.settings import IMAGE

    config = settings.kubernetes_config
    access = (
        in_cluster(os.environ)
        if config is None
        else from_kubeconfig(config.expanduser(), settings.kubernetes_context)
    )
    return KubernetesSpawner(
        KubernetesSettings(
            sessions_dir=settings.state() / "sessions",
            run_dir=settings.run(),
            key_file=settings.kubernetes_key_file or settings.state() / "kubernetes.pem",
            namespace=settings.kubernetes_namespace,
            image=settings.kubernetes_image or IMAGE,
            image_pull_secrets=settings.kubernetes_image_pull_secrets,
            storage_class=settings.kubernetes_storage_class,
            volume_size=settings.kubernetes_volume_size,
            runtime_class=settings.kubernetes_runtime_class,
            allow_unisolated=settings.allow_unisolated,
            start_timeout=settings.start_timeout,
        ),
        access,
        hub_sockets_dir=settings.run() / HUB_SOCKETS,
    )


def installed_vscode() -> SharedVSCode | None:
    """The installed VS Code for sessions. None, with a logged warning, if it is not installed."""
    from bascule.runtime.spawn.vscode import SharedVSCode

    from . import editor

    try:
        return SharedVSCode(*editor.shared())
    except MissingTool as error:
        logger.warning("sessions have no VS Code: %s", error.message)
        return None
