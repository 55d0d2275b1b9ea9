"""Virtual environments of the peers: made once under `.bench/`, kept until the pins change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

OPENHANDS = ("openhands-sdk", "openhands-tools", "openhands-agent-server")
VENVS: Mapping[str, Sequence[Sequence[str]]] = {
    "openhands": ([f"{name}==1.58.0" for name in OPENHANDS], OPENHANDS),
    "swe-rex": (["swe-rex==1.4.0"], ["swe-rex"]),
    "snakes": (["snakes==0.9.33"], ["snakes"]),
    "pm4py": (["pm4py==2.7.23.11"], ["pm4py"]),
}
"""By name: what to install, and what to try when that cannot be had (the newest)."""


WITH_US: Final = {"openhands-with-us": "v1", "openhands-v0": "v0"}
"""OpenHands beside what we need ourselves: the environments of our tests with it, by version."""


class VenvFailed(Exception):
    """An environment could not be made; the message says why, for the report."""


def python_of(name: str, root: Path, *, make: bool) -> Path:
    """The Python of environment `name`, which is made first if needed and allowed."""
    if name in WITH_US:
        return _with_us(WITH_US[name], root, make=make)
    home = root / ".bench" / name
    if not (home / "complete").exists():
        if not make:
            raise VenvFailed("not installed; a run without --quick installs it")
        _make(home, VENVS[name])
    return home / "bin" / "python"


def _with_us(which: str, root: Path, *, make: bool) -> Path:
    command = [str(root / "scripts" / "openhands"), which]
    done = subprocess.run(
        command if make else [*command, "--where"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise VenvFailed(
            done.stderr.strip() or f"not installed; `scripts/openhands {which}` does that"
        )
    return Path(done.stdout.strip())


def _make(home: Path, choices: Sequence[Sequence[str]]) -> None:
    interpreter = next(_interpreters(), None)
    if interpreter is None:
        raise VenvFailed("no Python 3.12 on this machine")
    _call([interpreter, "-m", "venv", str(home)])
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for attempt, packages in enumerate(choices, 1):
        try:
            _call([*pip, *packages])
            break
        except VenvFailed:
            if attempt == len(choices):
                raise
    (home / "complete").touch()


def _interpreters() -> Iterator[str]:
    """Every Python 3.12 that really starts: a pyenv shim on PATH may not."""
    found = [sys.executable] if sys.version_info[:2] == (3, 12) else []
    found += filter(None, [shutil.which("python3.12")])
    found += map(str, Path.home().glob(".pyenv/versions/3.12*/bin/python3.12"))
    for candidate in found:
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            yield candidate


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise VenvFailed(f"`{' '.join(command[1:6])} …` failed: {reason[-1]}")
