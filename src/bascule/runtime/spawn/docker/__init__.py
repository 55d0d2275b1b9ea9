"""Sandboxes as containers of a Docker engine."""

from .settings import IMAGE, DockerSettings
from .spawner import DockerSpawner

__all__ = ["IMAGE", "DockerSettings", "DockerSpawner"]
