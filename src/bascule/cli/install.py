"""`bascule install`: download programs that are too large for the package."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import click

from bascule.core.errors import MissingTool

from . import editor
from .signatures import CommandArgument


class Installable(StrEnum):
    """The programs that can be installed."""

    VSCODE = "vscode"


def install(
    what: Annotated[
        Installable, CommandArgument(help="VS Code for the browser (code-server, 800 MB).")
    ],
) -> int:
    """Download VS Code for the browser into the user's cache and print its directory.

    VS Code for the browser is code-server. It is installed with its own Node, both in pinned
    versions, and needs neither root nor a compiler. If npm is missing, it is downloaded too. If
    code-server is already installed, nothing is downloaded. If the Bascule extension is built, it
    is added to the extensions of all sessions on this machine.
    """
    assert what is Installable.VSCODE
    installation = editor.find()
    editor.fetch(installation)
    try:
        editor.shared()
    except MissingTool as error:
        click.echo(error.message, err=True)
    click.echo(str(installation.home))
    return 0
