"""`bascule windows`: list the VS Code windows of a hub and export their actions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import click

from bascule.core.printable import one_line
from bascule.core.windows import Window

from .export import AsList, Output
from .export import export as write_export
from .help import CommandGroup
from .hub_target import HubTarget, HubUrl, use_hub
from .known_names import window_names
from .signatures import CommandArgument, CommandOption
from .terminal import Cell, stdout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bascule.link.sessions import SessionCalls

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COLOURS = {"healthy": "green", "unhealthy": "red", "gone": "dim"}


windows = CommandGroup(
    help="List the VS Code windows connected to the hub on this machine or at --hub.\n\nThe "
    "token is BASCULE_TOKEN, or the token of the hub on this machine.",
    invoke_without_command=True,
)


@windows.group_callback
def list_(
    context: click.Context,
    hub: HubUrl = None,
    as_json: Annotated[bool, CommandOption("--json", help="Print the result as JSON.")] = False,
) -> int:
    if context.invoked_subcommand is not None:
        return 0
    from bascule.wire.windows import encode_window

    found = asyncio.run(_ask(use_hub(hub, say=not as_json)))
    if as_json:
        click.echo(json.dumps([encode_window(each) for each in found], indent=2))
    else:
        _show(found)
    return 0


@windows.subcommand()
def export(
    which: Annotated[
        str,
        CommandArgument(
            metavar="WINDOW",
            help="Id of the window, a path in its folder, or its name. A window that is no longer "
            "connected can be named only by its id.",
            autocompletion=window_names,
        ),
    ],
    hub: HubUrl = None,
    output: Output = None,
    as_list: AsList = False,
) -> int:
    """Write the recorded actions of a window as an OpenHands trajectory.

    The file also has the result of each action. `bascule replay` runs the actions in such a file
    again.
    """

    async def pieces(calls: SessionCalls) -> AsyncIterator[bytes]:
        window_id = _chosen(await calls.windows(), which)
        async for piece in calls.timeline("windows", window_id, as_list=as_list):
            yield piece

    return write_export(use_hub(hub), pieces, output)


def _chosen(found: Sequence[Window], which: str) -> str:
    """The id of the window that `which` selects. A disconnected window needs its full id."""
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

    with place.explaining_unreachable_hub():
        async with HubCalls(place.url, place.token) as calls:
            return await calls.windows()


def _show(found: Sequence[Window]) -> None:
    terminal = stdout()
    if not found:
        terminal.print(
            "No window is connected. `bascule session url --sign-in NAME` prints an address that "
            "opens a session's VS Code; `bascule pair` connects your own."
        )
        return
    of_sessions = any(each.session_id for each in found)
    titles = ["ID", "STATUS", "NAME", "FOLDERS", "VS CODE", *(["SESSION"] if of_sessions else [])]
    rows: list[Sequence[Cell]] = [[(title, "bold") for title in titles]]
    rows += [
        [
            each.id,
            (each.status, _COLOURS[each.status]),
            one_line(each.name),
            "\n".join(one_line(folder.path) for folder in each.folders) or "none",
            one_line(f"{each.vscode_version}, {each.remote}"),
            *([each.session_id or ""] if of_sessions else []),
        ]
        for each in found
    ]
    terminal.print_table(rows, fold=range(2, len(titles)))
