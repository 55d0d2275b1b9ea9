"""Executors for OpenHands V1's own tools, on Bascule's shells, files and windows.

Importing this package registers `terminal`, `file_editor`, `glob`, `grep` and `vscode` with
OpenHands, as its own tool modules do. So OpenHands' agent server needs only the option
`--import-modules bascule.adapters.openhands_v1`. In a program, `use_bascule` chooses where agents
act. Written for openhands-sdk and openhands-tools 1.58, which need Python 3.12.
"""

from . import _requirements  # noqa: F401  # isort: skip  # first: checks the installation
from ._registry import use_bascule

__all__ = ["use_bascule"]
