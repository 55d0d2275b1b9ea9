"""`bascule demo`: a short scripted agent at work in a VS Code window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bascule.core.errors import AccessDenied, ConsentDenied
from bascule.core.windows import Window

from .hub_place import HubPlace, HubUrl, use_hub
from .known_names import window_names

if TYPE_CHECKING:
    from bascule.link.hub import HubLink
    from bascule.link.hub_calls import HubCalls
    from bascule.runtime.demo import Said

_PAUSE: Final = 2.0
"""Seconds in which a person takes in what was done."""
_HOUR: Final = 3600.0


def demo(
    hub: HubUrl = None,
    window: Annotated[
        str,
        typer.Option(
            envvar="BASCULE_WINDOW",
            help="The window, if there are several: its id, a path in its folder, or its name.",
            autocompletion=window_names,
        ),
    ] = "",
    fast: Annotated[bool, typer.Option("--fast", help="Without pauses to watch.")] = False,
) -> int:
    """Play an agent in a connected window: it writes, runs, reads problems, mends, runs again.

    Waits for a window if there is none. The window asks its user whether the agent may act: once,
    if the answer is "Allow in This Workspace". What it makes is in a folder of its own,
    `bascule-demo`.
    """
    return asyncio.run(_demo(use_hub(hub), window, pause=0.0 if fast else _PAUSE))


async def _demo(place: HubPlace, selector: str, *, pause: float) -> int:
    from bascule.link.hub import HubLink
    from bascule.link.hub_calls import HubCalls
    from bascule.runtime.demo import AGENT, play
    from bascule.runtime.vscode import VSCodeRuntime

    with place.told_how_to_start():
        async with HubCalls(place.url, place.token) as calls:
            async with HubLink(place.url, place.token) as link:
                await link.connect()
                window = await _window(link, selector)
            _say(f"[bold]{AGENT}[/] in {window.name} ({window.id})")
            _say("[dim]When the window asks whether it may act, answer there.[/]")
            async with (
                _token(calls, place.token) as token,
                VSCodeRuntime(place.url, token, window=window.id) as agent,
            ):
                try:
                    await play(agent, say=_show, pause=lambda: asyncio.sleep(pause))
                except ConsentDenied as error:
                    _say(f"[yellow]Nothing more is done:[/] {error.message}")
                    return 1
    return 0


async def _window(link: HubLink, selector: str) -> Window:
    """The one that is meant, as soon as there is any.

    Raises `AmbiguousWindow`, or `NoWindow` if there are others and it is none of them.
    """
    from bascule.core.errors import NoWindow
    from bascule.core.window_choice import choose

    waiting = False
    async for windows in link.watch():
        healthy = [each for each in windows if each.status == "healthy"]
        try:
            return choose(healthy, selector)
        except NoWindow:
            if healthy:
                choose(windows, selector)  # else it is there, and may get well
            if not waiting:
                _say("[dim]Waiting for a window: open the address of VS Code that `bascule up`[/]")
                _say("[dim]printed, or connect your own VS Code with `bascule pair`.[/]")
            waiting = True
    raise AssertionError("a watch does not end")


@asynccontextmanager
async def _token(calls: HubCalls, given: str) -> AsyncIterator[str]:
    """One by the agent's name for as long as it plays; the given one if that may not make any."""
    from bascule.runtime.demo import AGENT

    try:
        await calls.revoke_token(AGENT)
        token = await calls.create_token(AGENT, "agent", lifetime=_HOUR)
    except AccessDenied:
        yield given
        return
    try:
        yield token
    finally:
        await calls.revoke_token(AGENT)


def _show(said: Said) -> None:
    from rich.markup import escape

    match said.kind:
        case "step":
            _say(f"[cyan]•[/] {escape(said.text)}")
        case "seen":
            for line in said.text.splitlines():
                _say(f"    [dim]{escape(line)}[/]")
        case "done":
            _say(f"[green]✓[/] It {escape(said.text)}.")
            _say("[dim]The window's Bascule view has the list of all it did.[/]")


def _say(text: str) -> None:
    from rich.console import Console

    Console(highlight=False).print(text, soft_wrap=True)
