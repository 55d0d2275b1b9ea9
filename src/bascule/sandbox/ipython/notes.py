"""Notes added before and after a cell's output, for people and models.

The bracketed lines come from OpenHands: its agents are trained on them and its tests check them.
The worker's own notes are in `_worker_main.py`, which the VS Code extension shares.
"""

from __future__ import annotations

NO_OUTPUT = "[Code executed successfully with no output]"
WORKER_GONE = (
    "[The process that ran the kernel has ended, and the kernel with it. All variables are gone; "
    "the next cell gets a new kernel.]"
)


def location_note(cwd: str, python: str) -> str:
    return f"[Jupyter current working directory: {cwd}]\n[Jupyter Python interpreter: {python}]"
