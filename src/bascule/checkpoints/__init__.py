"""Checkpoints: record the changes that agents make in a workspace, and restore earlier versions."""

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
