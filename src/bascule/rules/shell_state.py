"""The known state of the shell between two commands of a text. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

_MAX_DIRECTORIES = 32


@dataclass(frozen=True)
class KnownShellState:
    """The known state of the shell at one point of the text.

    `directories` are the possible working directories; None if any is possible. `is_repeated`: a
    loop with `cd` is running, so each `..` may apply several times. `has_input`: stdin is a pipe, a
    file or a here-document.
    """

    directories: frozenset[str] | None
    is_repeated: bool = False
    has_input: bool = False

    def in_directories(self, directories: frozenset[str] | None) -> KnownShellState:
        if directories is not None and len(directories) > _MAX_DIRECTORIES:
            directories = None
        return replace(self, directories=directories)

    def merged_with(self, other: KnownShellState) -> KnownShellState:
        """The state that covers both: the shell is in this or in the other state."""
        if self.directories is None or other.directories is None:
            return self.in_directories(None)
        return self.in_directories(self.directories | other.directories)


@dataclass(frozen=True)
class After:
    """The state after a command: `success` if it succeeded, `any` whether it succeeded or not."""

    success: KnownShellState
    any: KnownShellState


def merge_states(states: Sequence[KnownShellState]) -> After:
    """The state after a compound command that ends in any one of `states`, with any status."""
    found = states[0]
    for state in states[1:]:
        found = found.merged_with(state)
    return After(found, found)
