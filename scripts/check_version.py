"""Check that the package's version is the newest version in CHANGELOG.md, below `[Unreleased]`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def package_version(root: Path = ROOT) -> str:
    return _first(r'^__version__ = "(.+)"$', root / "src/bascule/__init__.py")


def changelog_version(root: Path = ROOT) -> str:
    return _first(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", root / "CHANGELOG.md")


def _first(pattern: str, file: Path) -> str:
    match = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        sys.exit(f"{file.name} has no line that looks like {pattern}")
    return match[1]


if __name__ == "__main__":
    package, changelog = package_version(), changelog_version()
    if package != changelog:
        sys.exit(f"src/bascule/__init__.py says {package}, CHANGELOG.md's newest is {changelog}")
