"""Executors for OpenHands V1's own tools, on Bascule's shells, files and windows.

Importing this registers `terminal`, `file_editor`, `glob`, `grep` and `vscode` with OpenHands, as
its own tool modules do; so `--import-modules bascule.adapters.openhands_v1` is all its agent
server needs. `use_bascule` says in a program where agents act. Made for openhands-sdk and
openhands-tools 1.58, which need Python 3.12.
"""

from . import _requirements  # noqa: F401  # isort: skip  # says what is missing, before all else
from ._registry import use_bascule

__all__ = ["use_bascule"]
