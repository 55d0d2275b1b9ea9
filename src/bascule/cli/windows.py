"""`bascule windows`: the VS Code windows that are connected to a hub."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.printable import one_line
from bascule.core.windows import Window

from .export import AsList, Output
from .export import export as write_export
from .help import CommandApp
from .hub_target import HubTarget, HubUrl, use_hub
from .known_names import window_names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bascule.link.sessions import SessionCalls

_WIDE = 1000
"""Columns where no screen limits them: programs that read lines want them whole."""
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COLOURS = {"healthy": "green", "unhealthy": "red", "gone": "dim"}


windows = CommandApp(
    help="List the VS Code windows connected to the hub on this machine or at --hub.\n\nThe "
    "token is BASCULE_TOKEN, or the token of the hub on this machine.",
    invoke_without_command=True,
)


@windows.callback()
def list_(
    context: typer.Context,
    hub: HubUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    if context.invoked_subcommand is not None:
        return 0
    from bascule.wire.windows import encode_window

    found = asyncio.run(_ask(use_hub(hub, say=not as_json)))
    if as_json:
        typer.echo(json.dumps([encode_window(each) for each in found], indent=2))
    else:
        _show(found)
    return 0


@windows.command()
def export(
    which: Annotated[
        str,
        typer.Argument(
            metavar="WINDOW",
            help="Id of the window, a path in its folder, or its name. A window that is no "
            "longer connected: its id.",
            autocompletion=window_names,
        ),
    ],
    hub: HubUrl = None,
    output: Output = None,
    as_list: AsList = False,
) -> int:
    """Write the actions of a window as an OpenHands trajectory.

    `bascule replay` runs such a file again.
    """

    async def pieces(calls: SessionCalls) -> AsyncIterator[bytes]:
        window_id = _chosen(await calls.windows(), which)
        async for piece in calls.timeline("windows", window_id, as_list=as_list):
            yield piece

    return write_export(use_hub(hub), pieces, output)


def _chosen(found: Sequence[Window], which: str) -> str:
    """One that is not connected can be named by its id alone."""
    from bascule.core.errors import NoWindow
    from bascule.core.window_choice import choose

    try:
        return choose(found, which).id
    except NoWindow:
        if not _ID.fullmatch(which):
            raise
        return which


async def _ask(place: HubTarget) -> Sequence[Window]:
    from bascule.link.hub_calls import HubCalls

    with place.told_how_to_start():
        async with HubCalls(place.url, place.token) as calls:
            return await calls.windows()


def _show(found: Sequence[Window]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    if not found:
        console.print(
            "No window is connected. `bascule session url --sign-in NAME` prints an address that "
            "opens a session's VS Code; `bascule pair` connects your own.",
            soft_wrap=True,
        )
        return
    sessions = [each.session_id for each in found]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("ID", no_wrap=True)
    table.add_column("STATUS", no_wrap=True)
    for title in ("NAME", "FOLDERS", "VS CODE", *(["SESSION"] if any(sessions) else [])):
        table.add_column(title, overflow="fold")
    for each in found:
        table.add_row(
            Text(each.id),
            Text(each.status, style=_COLOURS[each.status]),
            Text(one_line(each.name)),
            Text("\n".join(one_line(folder.path) for folder in each.folders) or "none"),
            Text(one_line(f"{each.vscode_version}, {each.remote}")),
            *([Text(each.session_id or "")] if any(sessions) else []),
        )
    console.print(table)
