"""`bascule editor`: VS Code for the browser, on this machine."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import MissingTool

from .user_dirs import cache_dir

if TYPE_CHECKING:
    from bascule.sandbox.vscode.installation import Installation


class EditorCommand(StrEnum):
    """What can be done with it."""

    INSTALL = "install"
    WHERE = "where"
    EXTENSION = "extension"


def editor(
    verb: Annotated[
        EditorCommand,
        typer.Argument(
            help="install: download VS Code for the browser. where: print its directory. "
            "extension: print the path of the Bascule extension (.vsix) for your own VS Code."
        ),
    ],
) -> int:
    """Print where VS Code for the browser, or the Bascule extension, is installed.

    Exits with 1 if it is not installed. `bascule editor install` does the same as `bascule install
    vscode`.
    """
    if verb is EditorCommand.EXTENSION:
        typer.echo(str(extension()))
        return 0
    installation = find()
    if verb is EditorCommand.INSTALL:
        fetch(installation)
    installation.ensure_complete()
    typer.echo(str(installation.home))
    return 0


def find() -> Installation:
    """The installation of this user, complete or not."""
    from bascule.sandbox.vscode.installation import Installation

    return Installation.below(cache_dir())


def extension() -> Path:
    """Our extension, packed: a wheel has it, `make editor` builds it in a clone."""
    from bascule.sandbox import vscode

    package = Path(vscode.__file__).parent / "dist/bascule.vsix"
    if not package.is_file():
        raise MissingTool("the Bascule extension is not built; in a clone, run `make editor`")
    return package


def shared() -> tuple[Path, Path]:
    """The installation, and the extensions that all sessions on this machine share, made when
    they are not there. Raises `MissingTool`."""
    from bascule.sandbox.vscode.shared import shared_extensions

    installation = find()
    return installation.home, shared_extensions(installation, extension())


def fetch(installation: Installation) -> None:
    """Install it unless it is there; a person sees how far it is."""
    if installation.is_complete:
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from bascule.sandbox.vscode.installation import SIZE, VERSION

    console = Console(stderr=True, highlight=False)
    console.print(f"Installing code-server {VERSION} (about {SIZE}) into {installation.home}")
    bar = Progress(
        TextColumn("packages"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("packages", total=None)
        installation.install(lambda done, of: bar.update(task, completed=done, total=of))
