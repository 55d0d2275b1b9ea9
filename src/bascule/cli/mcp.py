"""`bascule mcp`: an MCP server on stdin and stdout, for the client that starts it."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from bascule.core.errors import NoSuchPath, UsageError

from .hub_target import HubUrl, use_hub
from .known_names import session_names, window_names
from .logs import configure_logging
from .sandbox_target import Key, SandboxTarget, Url, WorkingDir
from .signatures import CommandOption

if TYPE_CHECKING:
    from bascule.adapters.mcp import ToolTargets
    from bascule.core.contracts import Runtime


def mcp(
    context: click.Context,
    working_dir: WorkingDir = None,
    root: Annotated[
        list[Path] | None,
        CommandOption(
            help="Directory that the file tools of a new sandbox may use; repeatable. "
            "[default: --working-dir]"
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        CommandOption(
            metavar="FILE",
            help="TOML file with rules for commands in a new sandbox; a command that needs "
            "approval is refused. [default: every command runs]",
        ),
    ] = None,
    url: Url = None,
    key: Key = "",
    hub: HubUrl = None,
    window: Annotated[
        str | None,
        CommandOption(
            envvar="BASCULE_WINDOW",
            help="VS Code window of the hub to act in: its id, a path in its folder, or its name. "
            "The client can choose another window later.",
            autocompletion=window_names,
        ),
    ] = None,
    session: Annotated[
        str | None,
        CommandOption(
            envvar="BASCULE_SESSION",
            help="Session of the hub to act in: its name or id. The client can choose another "
            "session later.",
            autocompletion=session_names,
        ),
    ] = None,
) -> int:
    """Serve tools to an MCP client on stdin and stdout until the client disconnects.

    By default the tools act in a new sandbox, which ends with the client. With --url they act in a
    running sandbox; with --hub, --window or --session they act in the hub's windows and sessions.
    --root limits the file tools only: commands can do whatever the current user can.

    --working-dir, --root and --rules always start a new sandbox. The environment variables of
    --url, --hub, --window and --session are then ignored.
    """
    configure_logging("warning")
    if working_dir is not None or root or rules is not None:
        url, hub, window, session = _from_command_line(
            context, url=url, hub=hub, window=window, session=session
        )
        if any(each is not None for each in (url, hub, window, session)):
            raise UsageError(
                "--working-dir, --root and --rules are for a new sandbox; they cannot be combined "
                "with --url, --hub, --window or --session"
            )
    if window is not None and session is not None:
        raise UsageError("give only one of --window and --session")
    is_at_hub = any(each is not None for each in (hub, window, session))
    if url is not None and is_at_hub:
        raise UsageError("--url cannot be combined with --hub, --window or --session")
    if is_at_hub:
        targets = _at_hub(hub, window=window or "", session=session or "")
    else:
        targets = _sandbox(url, key, working_dir or Path.cwd(), root or [], rules)
    asyncio.run(_serve(targets))
    return 0


def _from_command_line(context: click.Context, **given: str | None) -> list[str | None]:
    """The values given on the command line; None for those from environment variables."""

    def is_given(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    return [value if is_given(name) else None for name, value in given.items()]


async def _serve(targets: ToolTargets) -> None:
    from bascule.adapters.mcp.stdio import serve_stdio

    server = asyncio.ensure_future(serve_stdio(targets))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.cancel)
    await asyncio.wait([server])
    if not server.cancelled():
        server.result()


def _at_hub(hub: str | None, *, window: str, session: str) -> ToolTargets:
    from bascule.adapters.mcp import HubTargets, RemoteSessions
    from bascule.link.hub import HubLink

    target = use_hub(hub)
    return HubTargets(
        partial(HubLink, target.url, target.token),
        sessions=RemoteSessions(target.url, target.token),
        window=window,
        session=session,
    )


def _sandbox(
    url: str | None, key: str, working_dir: Path, roots: list[Path], rules: Path | None
) -> ToolTargets:
    from bascule.adapters.mcp import SingleTarget
    from bascule.runtime import LocalRuntime
    from bascule.sandbox.settings import SandboxSettings

    if url is not None:
        return SingleTarget(
            partial(_connected, SandboxTarget(url=url, key=key, working_dir=working_dir).runtime())
        )
    directory = working_dir.resolve()
    for option, each in (("--working-dir", directory), *(("--root", each) for each in roots)):
        if not each.is_dir():
            raise NoSuchPath(f"{option} is not a directory: {each}")
    settings = SandboxSettings(roots=tuple(each.resolve() for each in roots) or (directory,))
    runtime = LocalRuntime(directory, settings=settings, rules=rules, default_timeout=None)
    return SingleTarget(partial(_connected, runtime))


async def _connected(runtime: Runtime) -> Runtime:
    await runtime.connect()
    return runtime
