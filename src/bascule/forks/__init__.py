"""Forks of a workspace: takes a snapshot, finds later changes, and merges them back.

Names are imported on first use, so that a module of the package can be used without the others.
"""

from typing import TYPE_CHECKING

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
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

_MODULES = {
    "LineConflict": "line_merge",
    "LineMerge": "line_merge",
    "Merge": "merge_rules",
    "PathChange": "change_set",
    "PathResult": "change_set",
    "PathVersion": "merge_rules",
    "Snapshot": "snapshot",
    "merge_lines": "line_merge",
    "merge_versions": "merge_rules",
    "take_snapshot": "snapshot",
}

__getattr__ = lazy_exports(__name__, _MODULES)
