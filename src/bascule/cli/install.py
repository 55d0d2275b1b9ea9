"""`bascule install`: what is too large, or not ours, to be part of the package."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bascule.core.errors import MissingTool

from . import editor


class What(StrEnum):
    """What can be fetched."""

    VSCODE = "vscode"


def install(
    what: Annotated[What, typer.Argument(help="vscode: code-server, for browsers (800 MB).")],
) -> int:
    """Fetch VS Code for the browser into the user's cache, once, and print where it is.

    It is code-server with a Node of its own, each package exactly as locked; nothing is compiled
    and root is not needed, nor is Node: without npm one is fetched for the occasion. Where our
    extension is built, it is put among those that the sessions of this machine share.
    """
    assert what is What.VSCODE
    installation = editor.find()
    editor.fetch(installation)
    try:
        editor.shared()
    except MissingTool as error:
        typer.echo(error.message, err=True)
    typer.echo(str(installation.home))
    return 0
