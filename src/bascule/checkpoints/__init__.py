"""Checkpoints: record the changes that agents make in a workspace, and restore earlier versions.

Names are imported on first use, so that a module of the package can be used without the store.
"""

from typing import TYPE_CHECKING

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .changes import Change, Conflict, RestorePlan
    from .database import Checkpoint
    from .limits import CheckpointLimits
    from .store import CheckpointStore, NotKept, Recorded, Restored
    from .versions import Version

__all__ = [
    "Change",
    "Checkpoint",
    "CheckpointLimits",
    "CheckpointStore",
    "Conflict",
    "NotKept",
    "Recorded",
    "RestorePlan",
    "Restored",
    "Version",
]

_MODULES = {
    "Change": "changes",
    "Checkpoint": "database",
    "CheckpointLimits": "limits",
    "CheckpointStore": "store",
    "Conflict": "changes",
    "NotKept": "store",
    "Recorded": "store",
    "RestorePlan": "changes",
    "Restored": "store",
    "Version": "versions",
}

__getattr__ = lazy_exports(__name__, _MODULES)
