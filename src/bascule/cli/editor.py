"""`bascule editor`: VS Code for the browser, on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from bascule.core.errors import MissingTool

from .signatures import CommandArgument
from .terminal import progress, stderr
from .user_dirs import cache_dir

if TYPE_CHECKING:
    from bascule.sandbox.vscode.installation import Installation


class EditorCommand(StrEnum):
    """The subcommands of `bascule editor`."""

    INSTALL = "install"
    WHERE = "where"
    EXTENSION = "extension"


def editor(
    verb: Annotated[
        EditorCommand,
        CommandArgument(
            help="install: download VS Code for the browser, like `bascule install vscode`. where: "
            "print the directory of VS Code for the browser. extension: print the path of the "
            "Bascule extension (a .vsix file), which you can install in your own VS Code."
        ),
    ],
) -> int:
    """Find or install VS Code for the browser, or find the Bascule extension.

    `where` exits with 1 if VS Code for the browser is not installed, and `extension` exits with 1
    if the extension is not built.
    """
    if verb is EditorCommand.EXTENSION:
        click.echo(str(extension()))
        return 0
    installation = find()
    if verb is EditorCommand.INSTALL:
        fetch(installation)
    installation.ensure_complete()
    click.echo(str(installation.home))
    return 0


def find() -> Installation:
    """The installation of this user, complete or not."""
    from bascule.sandbox.vscode.installation import Installation

    return Installation.below(cache_dir())


def extension() -> Path:
    """The packed Bascule extension (.vsix). It is part of a wheel; `make editor` builds it in a
    clone. Raises `MissingTool`."""
    from bascule.sandbox import vscode

    package = Path(vscode.__file__).parent / "dist/bascule.vsix"
    if not package.is_file():
        raise MissingTool("the Bascule extension is not built; in a clone, run `make editor`")
    return package


def shared() -> tuple[Path, Path]:
    """The installation, and the directory of extensions that all sessions on this machine share,
    which is created if missing. Raises `MissingTool`."""
    from bascule.sandbox.vscode.shared import shared_extensions

    installation = find()
    return installation.home, shared_extensions(installation, extension())


def fetch(installation: Installation) -> None:
    """Install VS Code for the browser if it is not installed. Shows progress on stderr."""
    if installation.is_complete:
        return
    from bascule.sandbox.vscode.installation import SIZE, VERSION

    stderr().print(f"Installing code-server {VERSION} (about {SIZE}) into {installation.home}")
    with progress("packages") as update:
        installation.install(lambda done, of: update(done, of, ""))
