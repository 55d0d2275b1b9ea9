"""Sandboxes as containers of a Docker engine. Needs the extra `bascule[docker]`."""

from bascule.core.errors import MissingTool

try:
    import aiodocker as aiodocker
except ModuleNotFoundError as error:
    raise MissingTool("Sandboxes in containers need aiodocker: pip install aiodocker") from error

from .settings import IMAGE, DockerSettings
from .spawner import DockerSpawner

__all__ = ["IMAGE", "DockerSettings", "DockerSpawner"]
