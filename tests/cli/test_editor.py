from __future__ import annotations

from pathlib import Path

import pytest

from bascule.cli.editor import extension, shared

from .processes import bascule, environment


@pytest.mark.slow
def test_without_vs_code_the_editor_command_says_how_to_install_it(tmp_path: Path) -> None:
    ran = bascule("editor", "where", env=environment(XDG_CACHE_HOME=str(tmp_path)))

    assert ran.returncode == 1
    assert "`bascule install vscode`" in ran.stderr


@pytest.mark.slow
@pytest.mark.editor
def test_the_directory_of_the_installed_vs_code_is_printed() -> None:
    installed = bascule("editor", "install")
    shown = bascule("editor", "where")

    assert shown.stdout == installed.stdout
    assert (Path(shown.stdout.strip()) / ".complete").exists()


@pytest.mark.slow
@pytest.mark.editor
def test_the_extension_of_a_clone_is_the_one_that_was_built(project: Path) -> None:
    assert extension() == project / "src/bascule/sandbox/vscode/dist/bascule.vsix"


@pytest.mark.slow
@pytest.mark.editor
def test_the_extension_is_installed_with_those_that_sessions_share() -> None:
    installed = bascule("install", "vscode")
    home, extensions = shared()

    assert installed.stdout == f"{home}\n"
    assert (extensions / "bascule-vscode/package.json").exists()
