"""Extensions that all share: VS Code's own by link, and ours unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bascule.core.errors import MissingTool
from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.shared import shared_extensions


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    own = tmp_path / "home/node_modules/code-server/lib/vscode/extensions"
    (own / "git").mkdir(parents=True)
    (own / "git/package.json").write_text("{}")
    (tmp_path / "home/.complete").touch()
    return Installation(tmp_path / "home")


def packed(file: Path, text: str) -> Path:
    with zipfile.ZipFile(file, "w") as package:
        package.writestr("extension/package.json", text)
        package.writestr("extension/dist/extension.js", "")
        package.writestr("[Content_Types].xml", "")
    return file


def test_built_in_and_bascule_extensions_are_in_one_directory(
    installation: Installation, tmp_path: Path
) -> None:
    place = shared_extensions(installation, packed(tmp_path / "a.vsix", "ours"))

    assert sorted(path.name for path in place.iterdir()) == ["bascule-vscode", "git"]
    assert (place / "bascule-vscode/package.json").read_text() == "ours"
    assert (place / "bascule-vscode/dist/extension.js").exists()
    assert (place / "git/package.json").read_text() == "{}"


def test_shared_extensions_can_be_moved_to_another_path(
    installation: Installation, tmp_path: Path
) -> None:
    place = shared_extensions(installation, packed(tmp_path / "a.vsix", "ours"))
    elsewhere = (tmp_path / "home").rename(tmp_path / "elsewhere")

    assert (elsewhere / place.name / "git/package.json").exists()


def test_the_shared_extensions_are_created_once_per_build(
    installation: Installation, tmp_path: Path
) -> None:
    first = shared_extensions(installation, packed(tmp_path / "a.vsix", "ours"))
    before = first.stat().st_ino
    again = shared_extensions(installation, tmp_path / "a.vsix")
    other = shared_extensions(installation, packed(tmp_path / "b.vsix", "newer"))

    assert (again, again.stat().st_ino) == (first, before)
    assert other != first
    assert not list(installation.home.glob("*.partial"))


def test_an_invalid_extension_leaves_nothing(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "a.vsix").write_text("nothing of the kind")

    with pytest.raises(MissingTool, match="is not a packaged extension"):
        shared_extensions(installation, tmp_path / "a.vsix")
    assert not list(installation.home.glob("extensions-*"))
