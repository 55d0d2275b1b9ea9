"""The limits of a checkpoint store. Files that exceed a limit are reported by name."""

from __future__ import annotations

from dataclasses import dataclass

from bascule.core.errors import InvalidSetting

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class CheckpointLimits:
    """Limits of one store, in bytes unless the name says otherwise."""

    file_bytes: int = 10 * _MIB
    """Largest file that is copied. Files that are unchanged since git stored them are not copied:
    the store keeps hard links to git's objects."""
    ignored_file_bytes: int = _MIB
    """Largest file that is copied of those that `.gitignore` excludes."""
    ignored_total_bytes: int = 50 * _MIB
    """Sum of all copied files that `.gitignore` excludes. The smallest files are copied first."""
    workspace_bytes: int = 2 * _GIB
    """Sum of all files that are copied for the current state of the workspace."""
    entries: int = 200_000
    """Maximum number of files and directories. A workspace with more gets no checkpoints."""
    store_bytes: int = 4 * _GIB
    """Size of the whole store. The oldest checkpoints are removed to stay below this limit."""
    free_disk_bytes: int = _GIB
    """Copying stops when less space than this is free on the store's disk."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise InvalidSetting(f"{name} must not be negative: {getattr(self, name)}")


def human_size(count: int) -> str:
    """A number of bytes as text, such as `10 MiB`, `1.5 GiB` or `12 bytes`."""
    for size, unit in ((_GIB, "GiB"), (_MIB, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} bytes"
