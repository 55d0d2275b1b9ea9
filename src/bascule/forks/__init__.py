"""Forks of a workspace: taking a snapshot, finding what changed since, and merging it back."""

from .change_set import PathChange, PathResult
from .line_merge import LineConflict, LineMerge, merge_lines
from .merge_rules import Merge, PathVersion, merge_versions
from .snapshot import Snapshot, take_snapshot

__all__ = [
    "LineConflict",
    "LineMerge",
    "Merge",
    "PathChange",
    "PathResult",
    "PathVersion",
    "Snapshot",
    "merge_lines",
    "merge_versions",
    "take_snapshot",
]
