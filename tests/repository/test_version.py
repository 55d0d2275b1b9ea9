"""The version, the changelog and the pins tell one story."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import bascule
from scripts.check_version import changelog_version, package_version


def test_the_version_is_the_changelogs_newest() -> None:
    assert bascule.__version__ == package_version() == changelog_version()


def test_unreleased_is_not_a_version(tmp_path: Path) -> None:
    text = "## [Unreleased]\n\n## [2.1.0] - 2030-01-31\n\n## [2.0.0] - 2030-01-01\n"
    (tmp_path / "CHANGELOG.md").write_text(text)

    assert changelog_version(tmp_path) == "2.1.0"


def test_a_changelog_without_a_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")

    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no line"):
        changelog_version(tmp_path)


def test_every_dependency_is_pinned_to_one_version(project: Path) -> None:
    pins = {}
    apart = project / "tests/adapters/openhands_v1/constraints.txt"
    for file in (apart, project / "constraints.txt"):
        for line in file.read_text().splitlines():
            if not line.startswith("#"):
                name, version = line.split("==")
                pins[_normal(name)] = version
    settings = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    groups = (settings["dependencies"], *settings["optional-dependencies"].values())
    wanted = {_normal(requirement) for group in groups for requirement in group}

    assert wanted - {"bascule"} <= pins.keys()


def _normal(requirement: str) -> str:
    """`uvicorn[standard]>=0.54` and `Uvicorn` are the same package."""
    name = re.split(r"[\[<>=!~; ]", requirement)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
