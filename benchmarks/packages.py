"""Peers that come from npm: installed once under `.bench/`, kept until the pin changes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class PackageMissing(Exception):
    """A package cannot be had here; the message says why, for the report."""


def command_of(package: str, root: Path, *, install: bool) -> tuple[str, ...]:
    """What starts the program of `name@version`, which is installed first if needed and allowed."""
    name = package.partition("@")[0]
    node = shutil.which("node")
    if node is None:
        raise PackageMissing("node is not installed")
    home = root / ".bench" / package
    if not (home / "complete").exists():
        if not install:
            raise PackageMissing("not installed; a run without --quick installs it")
        _install(package, home)
    return node, str(home / "node_modules" / name / "bin" / name)


def _install(package: str, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--prefix", str(home)]
    try:
        done = subprocess.run(
            ["npm", "install", *flags, package], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise PackageMissing("npm is not installed") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["no message"]
        raise PackageMissing(f"npm could not install {package}: {reason[-1]}")
    (home / "complete").touch()
