"""The ways a hub gets sandboxes for its sessions, by its settings."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bascule.core.errors import InvalidSetting, MissingTool

if TYPE_CHECKING:
    from bascule.core.contracts import Spawner
    from bascule.runtime.spawn.vscode import VSCodePlace

    from .hub_settings import HubFile

logger = logging.getLogger(__name__)


def make_spawners(settings: HubFile) -> Mapping[str, Spawner]:
    """Those of the setting `spawners`, the first being the one that is taken by default."""
    names = settings.spawners or (("plain",) if settings.allow_unisolated else ())
    return {name: _make(name, settings) for name in names}


def _make(name: str, settings: HubFile) -> Spawner:
    match name:
        case "plain":
            from bascule.runtime.spawn.plain import PlainSpawner

            return PlainSpawner(
                settings.run(), allow_unisolated=settings.allow_unisolated, vscode=_vscode()
            )
        case "local":
            from bascule.runtime.spawn.local import LocalSettings, LocalSpawner

            state = settings.state()
            given = LocalSettings(
                sessions_dir=state / "sessions",
                run_dir=settings.run(),
                state_dir=state / "warden",
                workspace_roots=tuple(settings.workspace_roots),
                allow_unisolated=settings.allow_unisolated,
                vscode=_vscode(),
            )
            return LocalSpawner(given)
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
                )
            )
        case _:
            raise InvalidSetting(
                f"spawners: there is no spawner {name!r}; there are: local, docker, plain"
            )


def _vscode() -> VSCodePlace | None:
    """Sessions go without one where none is installed, which is said once."""
    from bascule.runtime.spawn.vscode import VSCodePlace

    from . import editor

    try:
        return VSCodePlace(*editor.shared())
    except MissingTool as error:
        logger.warning("sessions have no VS Code: %s", error.message)
        return None
