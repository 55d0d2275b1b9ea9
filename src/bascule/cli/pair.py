"""`bascule pair`: let a VS Code of one's own into a hub."""

from __future__ import annotations

import asyncio
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import InvalidPairing
from bascule.core.windows import Window, WindowId

from .hub_target import HubTarget, HubUrl, use_hub

if TYPE_CHECKING:
    from bascule.link.hub import HubLink
    from bascule.link.hub_calls import Pairing


def pair(
    hub: HubUrl = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Print the code and exit without waiting.")
    ] = False,
) -> int:
    """Print a code that connects one VS Code window to the hub, and wait until it has connected.

    The code works once, for ten minutes. Needs the hub's admin token: BASCULE_TOKEN, or the token
    of the hub on this machine. Exits with 1 if no window connects in time.
    """
    asyncio.run(_pair(use_hub(hub), waits=not no_wait))
    return 0


async def _pair(place: HubTarget, *, waits: bool) -> None:
    from bascule.link.hub import HubLink
    from bascule.link.hub_calls import HubCalls

    with place.told_how_to_start():
        async with (
            HubCalls(place.url, place.token) as calls,
            HubLink(place.url, place.token) as link,
        ):
            if waits:
                await link.connect()
            here = {each.id for each in await calls.windows() if each.status == "healthy"}
            pairing = await calls.pair()
            _show(place, pairing)
            if waits:
                window = await _arrival(link, here, pairing)
                _say(f"[green]✓[/] {window.name} is connected: VS Code {window.vscode_version}")


async def _arrival(link: HubLink, here: set[WindowId], pairing: Pairing) -> Window:
    """The first window that was not there before."""
    left = datetime.fromisoformat(pairing.expires) - datetime.now(UTC)
    try:
        async with asyncio.timeout(left.total_seconds()):
            async for windows in link.watch():
                for window in windows:
                    if window.id not in here and window.status == "healthy":
                        return window
    except TimeoutError:
        pass
    raise InvalidPairing(
        "no window connected before the code expired; run `bascule pair` again for a new code"
    )


def _show(place: HubTarget, pairing: Pairing) -> None:
    code = f"{pairing.code[:4]}-{pairing.code[4:]}"
    _say("In your VS Code with the Bascule extension, run this command:")
    _say("    [bold]Bascule: Connect to a Hub[/]")
    _say(f"  hub   [bold]{place.url}[/]")
    _say(f"  code  [bold]{code}[/]   (works once, for ten minutes)")
    _say("Or open this link on the machine where VS Code runs:")
    _say(f"    {pairing.link}")
    if (package := _extension()) is not None:
        _say("To install the extension first:")
        _say(f"    code --install-extension {shlex.quote(package)}")


def _extension() -> str | None:
    from bascule.core.errors import MissingTool

    from .editor import extension

    try:
        return str(extension())
    except MissingTool:
        return None


def _say(text: str) -> None:
    from rich.console import Console

    Console(highlight=False).print(text, soft_wrap=True)
