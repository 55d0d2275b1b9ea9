"""How the IPython kernel is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IPythonSettings:
    python: str = ""
    """The interpreter of cells, which needs ipykernel; empty: the one this runs on."""
    prelude: str = ""
    """Code that every kernel begins with, before the first cell; what it defines is there."""
    follow_shell: bool = True
    """Start in the default shell's directory, and go where it goes when it has moved. Off: start in
    the sandbox's directory and stay."""
