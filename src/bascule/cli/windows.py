"""`bascule windows`: the VS Code windows that are connected to a hub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from bascule.core.windows import Window

from .hub_place import HubPlace, HubUrl, find_hub

_WIDE = 1000
"""Columns where no screen limits them: programs that read lines want them whole."""
_COLOURS = {"healthy": "green", "unhealthy": "red", "gone": "dim"}


def windows(
    hub: HubUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the hub says.")] = False,
) -> int:
    """List the windows of a hub: the one on this machine, or the one at --hub.

    The token is BASCULE_TOKEN, or that of the hub on this machine.
    """
    from bascule.wire.windows import encode_window

    found = asyncio.run(_ask(find_hub(hub)))
    if as_json:
        typer.echo(json.dumps([encode_window(each) for each in found], indent=2))
    else:
        _show(found)
    return 0


async def _ask(place: HubPlace) -> Sequence[Window]:
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
            "No window is connected. Open the address of VS Code that `bascule up` printed, or "
            "connect your own VS Code with `bascule pair`.",
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
            Text(each.name),
            Text("\n".join(folder.path for folder in each.folders) or "none"),
            Text(f"{each.vscode_version}, {each.remote}"),
            *([Text(each.session_id or "")] if any(sessions) else []),
        )
    console.print(table)
