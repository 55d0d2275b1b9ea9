"""`bascule pair`: connect a user's own VS Code to a hub."""

from __future__ import annotations

import asyncio
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from bascule.core.errors import InvalidPairing
from bascule.core.printable import one_line
from bascule.core.windows import Window, WindowId

from .hub_target import HubTarget, HubUrl, use_hub
from .signatures import CommandOption
from .terminal import stdout

if TYPE_CHECKING:
    from bascule.link.hub import HubLink
    from bascule.link.hub_calls import Pairing


def pair(
    hub: HubUrl = None,
    no_wait: Annotated[
        bool, CommandOption("--no-wait", help="Print the code and exit without waiting.")
    ] = False,
) -> int:
    """Print a code that connects a VS Code window to the hub, and wait until a window connects.

    The code works once and expires after ten minutes. Needs the hub's admin token: BASCULE_TOKEN,
    or the token of the hub on this machine. Exits with 1 if no window connects in time.
    """
    asyncio.run(_pair(use_hub(hub), waits=not no_wait))
    return 0


async def _pair(target: HubTarget, *, waits: bool) -> None:
    from bascule.link.hub import HubLink
    from bascule.link.hub_calls import HubCalls

    with target.explaining_unreachable_hub():
        async with (
            HubCalls(target.url, target.token) as calls,
            HubLink(target.url, target.token) as link,
        ):
            if waits:
                await link.connect()
            known_windows = {each.id for each in await calls.windows() if each.status == "healthy"}
            pairing = await calls.pair()
            _show(target, pairing)
            if waits:
                window = await _new_window(link, known_windows, pairing)
                terminal = stdout()
                mark = terminal.styled("✓", "green")
                text = one_line(f"{window.name} is connected: VS Code {window.vscode_version}")
                terminal.print(f"{mark} {text}")


async def _new_window(link: HubLink, known_windows: set[WindowId], pairing: Pairing) -> Window:
    """Wait for the first new window. Raises `InvalidPairing` when the code expires."""
    remaining = datetime.fromisoformat(pairing.expires) - datetime.now(UTC)
    try:
        async with asyncio.timeout(remaining.total_seconds()):
            async for windows in link.watch():
                for window in windows:
                    if window.id not in known_windows and window.status == "healthy":
                        return window
    except TimeoutError:
        pass
    raise InvalidPairing(
        "no window connected before the code expired; run `bascule pair` again for a new code"
    )


def _show(target: HubTarget, pairing: Pairing) -> None:
    code = f"{pairing.code[:4]}-{pairing.code[4:]}"
    terminal = stdout()

    def bold(text: str) -> str:
        return terminal.styled(text, "bold")

    terminal.print("In your VS Code with the Bascule extension, run this command:")
    terminal.print(f"    {bold('Bascule: Connect to a Hub')}")
    terminal.print(f"  hub   {bold(target.url)}")
    terminal.print(f"  code  {bold(code)}   (works once, for ten minutes)")
    terminal.print("Or open this link on the machine where VS Code runs:")
    terminal.print(f"    {pairing.link}")
    if (package := _extension()) is not None:
        terminal.print("To install the extension first:")
        terminal.print(f"    code --install-extension {shlex.quote(package)}")


def _extension() -> str | None:
    from bascule.core.errors import MissingTool

    from .editor import extension

    try:
        return str(extension())
    except MissingTool:
        return None
