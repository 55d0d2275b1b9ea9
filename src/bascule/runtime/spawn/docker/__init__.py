"""Sandboxes as containers of a Docker engine. Needs the extra `bascule[docker]`."""

from bascule.core.extras import missing_extra

try:
    import aiodocker as aiodocker
except ModuleNotFoundError as error:
    raise missing_extra(error) from error

from .settings import IMAGE, DockerSettings
from .spawner import DockerSpawner

__all__ = ["IMAGE", "DockerSettings", "DockerSpawner"]
