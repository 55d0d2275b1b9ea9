"""`bascule demo`: a short scripted agent at work in a VS Code window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final

from bascule.core.errors import AccessDenied, ConsentDenied
from bascule.core.printable import one_line
from bascule.core.windows import Window

from .hub_target import HubTarget, HubUrl, use_hub
from .known_names import window_names
from .signatures import CommandOption
from .terminal import stdout

if TYPE_CHECKING:
    from bascule.link.hub import HubLink
    from bascule.link.hub_calls import HubCalls
    from bascule.link.sessions import SessionCalls
    from bascule.runtime.demo import DemoMessage

_PAUSE: Final = 2.0
"""Seconds between two steps, so that a person can follow."""
_HOUR: Final = 3600.0


def demo(
    hub: HubUrl = None,
    window: Annotated[
        str,
        CommandOption(
            envvar="BASCULE_WINDOW",
            help="Window to act in: its id, a path in its folder, or its name. Needed only if "
            "several windows are connected.",
            autocompletion=window_names,
        ),
    ] = "",
    fast: Annotated[bool, CommandOption("--fast", help="Do not pause between steps.")] = False,
    timeout: Annotated[
        float, CommandOption(min=1, help="Seconds to wait for a window to connect.")
    ] = 300.0,
) -> int:
    """Run a scripted agent in a VS Code window: it writes code, runs it and fixes the errors.

    If no window is connected, prints an address that opens a window, and waits until the window
    connects. Exits with 2 if no window connects within --timeout. The window asks its user whether
    the agent may act; the answer "Allow in This Workspace" covers all steps. The agent writes its
    files to the folder `bascule-demo`.
    """
    pause = 0.0 if fast else _PAUSE
    return asyncio.run(_demo(use_hub(hub), window, pause=pause, timeout=timeout))


async def _demo(target: HubTarget, selector: str, *, pause: float, timeout: float) -> int:
    from bascule.link.hub import HubLink
    from bascule.link.sessions import SessionCalls
    from bascule.runtime.demo import AGENT, play
    from bascule.runtime.vscode import VSCodeRuntime

    with target.explaining_unreachable_hub():
        async with SessionCalls(target.url, target.token) as calls:
            async with HubLink(target.url, target.token) as link:
                await link.connect()
                window = await _window_in_time(link, calls, selector, timeout)
            terminal = stdout()
            agent_name = terminal.styled(AGENT, "bold")
            terminal.print(f"{agent_name} in {one_line(window.name)} ({window.id})")
            asks = "The window asks whether the agent may act: answer there."
            terminal.print(terminal.styled(asks, "dim"))
            async with (
                _token(calls, target.token) as token,
                VSCodeRuntime(target.url, token, window=window.id) as agent,
            ):
                try:
                    await play(agent, say=_show, pause=lambda: asyncio.sleep(pause))
                except ConsentDenied as error:
                    terminal.print(f"{terminal.styled('Stopped:', 'yellow')} {error.message}")
                    return 1
    return 0


async def _window_in_time(
    link: HubLink, calls: SessionCalls, selector: str, timeout: float
) -> Window:
    from bascule.core.errors import NoWindow

    try:
        async with asyncio.timeout(timeout):
            return await _window(link, calls, selector)
    except TimeoutError:
        raise NoWindow(
            f"no VS Code window connected within {timeout:g} seconds; open the address "
            "above in a browser, or connect your own VS Code with `bascule pair`, then run "
            "`bascule demo` again (--timeout sets a longer wait)"
        ) from None


async def _window(link: HubLink, calls: SessionCalls, selector: str) -> Window:
    """Wait for the window that matches `selector`.

    Raises `AmbiguousWindow`, or `NoWindow` if windows are connected but none matches.
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
                choose(
                    windows, selector
                )  # raises unless it matches an unhealthy window, which may recover
            if not waiting:
                terminal = stdout()
                terminal.print(
                    "No VS Code window is connected. Open this address in a browser (it works\n"
                    "once), or connect your own VS Code with `bascule pair`:\n"
                    f"    {await _address(calls)}"
                )
                terminal.print(terminal.styled("Waiting…", "dim"))
            waiting = True
    raise AssertionError("a watch does not end")


async def _address(calls: SessionCalls) -> str:
    """An address that signs a browser in and opens a session's VS Code, or the hub's page if no
    session runs."""
    ready = [each for each in await calls.sessions() if each.state == "ready"]
    return await calls.sign_in_address(f"/watch/{ready[0].id}" if ready else "/")


@asynccontextmanager
async def _token(calls: HubCalls, own_token: str) -> AsyncIterator[str]:
    """A temporary token with the agent's name; `own_token` if it may not create tokens."""
    from bascule.runtime.demo import AGENT

    try:
        await calls.revoke_token(AGENT)
        token = await calls.create_token(AGENT, "agent", lifetime=_HOUR)
    except AccessDenied:
        yield own_token
        return
    try:
        yield token
    finally:
        await calls.revoke_token(AGENT)


def _show(message: DemoMessage) -> None:
    terminal = stdout()
    match message.kind:
        case "step":
            terminal.print(f"{terminal.styled('•', 'cyan')} {message.text}")
        case "seen":
            for line in message.text.splitlines():
                terminal.print(f"    {terminal.styled(line, 'dim')}")
        case "done":
            terminal.print(f"{terminal.styled('✓', 'green')} It {message.text}.")
            hint = "The Bascule view of the window lists every action."
            terminal.print(terminal.styled(hint, "dim"))
