"""Settings of the IPython kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IPythonSettings:
    python: str = ""
    """Interpreter for cells, which needs ipykernel; empty: the interpreter of this process."""
    prelude: str = ""
    """Code that every kernel runs before its first cell; cells can use its definitions."""
    follow_shell: bool = True
    """Start in the default shell's directory and change directory with it. False: start in the
    sandbox's working directory and stay there."""
