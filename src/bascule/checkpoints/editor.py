"""The contract with an editor that has files of the workspace open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass


class EditorRefused(Exception):
    """The editor does not write a file. The message has the reason."""


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """Files that are open in an editor, relative to the workspace."""

    unsaved: Set[str] = frozenset()
    """Files with changes that the user has not saved. A restore never changes these files."""
    saved: Set[str] = frozenset()
    """Files that the editor shows as they are on disk."""


class OpenFileEditor(ABC):
    """An editor that shows files of the workspace. A restore changes open files through the
    editor, so that the user sees the change in the editor and can undo it there."""

    @abstractmethod
    def open_files(self) -> OpenFiles:
        """The files that are open now."""

    @abstractmethod
    def write(self, path: str, content: bytes) -> bool:
        """Replace the text of an open file, and save it.

        Returns False, and changes nothing, if the editor cannot write exactly these bytes. Raises
        `EditorRefused`, for example if the user has changed the file since `open_files`.
        """
