"""Sandboxes as pods of a Kubernetes cluster. The hub's part needs the extra `bascule[hub]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .settings import KubernetesSettings
    from .spawner import KubernetesSpawner

__all__ = ["KubernetesSettings", "KubernetesSpawner"]

# The gateway in a pod imports this package, and needs neither of these.
_HOMES: Final[Mapping[str, str]] = {
    "KubernetesSettings": "settings",
    "KubernetesSpawner": "spawner",
}

__getattr__ = lazy_exports(__name__, _HOMES)
