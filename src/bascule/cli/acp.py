"""`bascule acp`: runs an agent for the ACP client that starts this command."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bascule.core.errors import UsageError

from . import session_options as options
from .hub_target import HubTarget, HubUrl, use_hub
from .known_names import one_of, session_names, window_names
from .logs import configure_logging
from .session_choice import choose_session
from .signatures import CommandArgument, CommandOption

if TYPE_CHECKING:
    from bascule.adapters.acp.workspaces import AgentCommand, AgentWorkspace
    from bascule.link.agent_calls import AgentPlace

_ASK = ("both", "client", "hub")


def acp(
    agent: Annotated[
        list[str],
        CommandArgument(
            metavar="AGENT...",
            help="Command line of the ACP agent. Put -- before it. In a session, the program must "
            "be installed in the session.",
        ),
    ],
    hub: HubUrl = None,
    session: Annotated[
        str | None,
        CommandOption(
            envvar="BASCULE_SESSION",
            help="Session in which the agent runs: its name or id.",
            autocompletion=session_names,
        ),
    ] = None,
    new: Annotated[
        bool, CommandOption("--new", help="Create a session for the agent. It is kept afterwards.")
    ] = False,
    folder: Annotated[
        str,
        CommandOption(
            help="With --new: folder on the hub's machine to use as the workspace (admin only). "
            "[default: an empty workspace]"
        ),
    ] = "",
    git: Annotated[
        str,
        CommandOption(
            metavar="URL", help="With --new: git repository to clone into the workspace."
        ),
    ] = "",
    name: Annotated[
        str, CommandOption(help="With --new: name of the session; must be unique.")
    ] = "",
    window: Annotated[
        str | None,
        CommandOption(
            envvar="BASCULE_WINDOW",
            help="VS Code window whose files and terminals the agent uses: its id, a path in its "
            "folder, or its name. The agent itself runs on this machine.",
            autocompletion=window_names,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        CommandOption(
            metavar="NAME",
            help="Name of an environment variable to copy from this process to the agent. Records "
            "do not show its value. Repeatable.",
        ),
    ] = None,
    ask: Annotated[
        str,
        CommandOption(
            help="Who answers the agent's questions, if no rule does. client: the ACP client. hub: "
            "the people at the hub's page. both: both are asked, and the first answer counts.",
            autocompletion=one_of(*_ASK),
        ),
    ] = "both",
) -> int:
    """Run an ACP agent in a session or beside a VS Code window.

    Give this command to an ACP client as the agent's command line. The client and the agent talk
    over stdin and stdout as usual. The agent and its children end with the client.

    Exits with the agent's exit code if the agent ends first, with 0 if the client disconnects, and
    with 1 or 2 if the agent cannot be started. SIGTERM, SIGINT and SIGHUP end the agent; then the
    exit code is 128 plus the number of the signal.
    """
    configure_logging("warning")
    if new + (session is not None) + (window is not None) != 1:
        raise UsageError("give one of --session, --new and --window")
    if (folder or git or name) and not new:
        raise UsageError("--folder, --git and --name are only for --new")
    if ask not in _ASK:
        raise UsageError(f"--ask is {ask!r}; it must be one of {', '.join(_ASK)}")
    from bascule.adapters.acp.workspaces import AgentCommand

    words = agent[1:] if agent[0] == "--" and agent[1:] else agent
    secrets = dict(options.this_process_variable(each, option="--env") for each in env or ())
    command = AgentCommand(argv=words, secrets=secrets)
    target = use_hub(hub)
    if window is not None:
        place = _Window(target, window)
        return asyncio.run(_serve(target, place.open, command, ask))
    body: dict[str, Any] | None = None
    if new:
        source = options.source(git=git, ref="", folder=folder, archive=None)
        body = {"name": name or f"agent: {Path(words[0]).name}", "workspace": source}
    return asyncio.run(_serve(target, _Session(target, session or "", body).open, command, ask))


Open = Callable[[AsyncExitStack], Awaitable[tuple["AgentWorkspace", "AgentPlace"]]]


async def _serve(target: HubTarget, open_place: Open, command: AgentCommand, ask: str) -> int:
    from bascule.adapters.acp.oversight import HubOversight
    from bascule.adapters.acp.stdio import serve_client
    from bascule.link.agent_calls import AgentCalls

    async def work() -> int:
        async with AsyncExitStack() as opened:
            workspace, place = await open_place(opened)
            oversight = HubOversight(
                AgentCalls(target.url, target.token), place, asks_people=ask != "client"
            )
            opened.push_async_callback(oversight.aclose)
            return await serve_client(
                workspace, command, oversight=oversight, asks_client=ask != "hub"
            )

    serving = asyncio.ensure_future(work())
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        serving.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    await asyncio.wait([serving])
    return 128 + received[0] if serving.cancelled() else serving.result()


@dataclass(frozen=True, slots=True)
class _Session:
    target: HubTarget
    which: str
    body: dict[str, Any] | None
    """Body for a new session; None: use the session `which`."""

    async def open(self, opened: AsyncExitStack) -> tuple[AgentWorkspace, AgentPlace]:
        from bascule.adapters.acp.workspaces import SessionWorkspace
        from bascule.link.agent_calls import AgentPlace
        from bascule.link.sessions import SessionCalls
        from bascule.runtime import CloudRuntime

        session_id = ""
        with self.target.explaining_unreachable_hub():
            if self.body is None:
                async with SessionCalls(self.target.url, self.target.token) as calls:
                    session_id = choose_session(await calls.sessions(), self.which).id
            runtime = CloudRuntime(
                self.target.url,
                self.target.token,
                session_id=session_id,
                session=self.body,
                default_timeout=None,
            )
            await opened.enter_async_context(runtime)
        workspace = runtime.session.metadata["workspace"]
        place = AgentPlace(session_id=runtime.session_id)
        folder = str(workspace.get("folder") or "")
        return SessionWorkspace(runtime, runtime, folder=folder), place


@dataclass(frozen=True, slots=True)
class _Window:
    target: HubTarget
    which: str

    async def open(self, opened: AsyncExitStack) -> tuple[AgentWorkspace, AgentPlace]:
        from bascule.adapters.acp.workspaces import WindowWorkspace
        from bascule.link.agent_calls import AgentPlace
        from bascule.runtime import LocalRuntime, VSCodeRuntime

        window = VSCodeRuntime(
            self.target.url, self.target.token, window=self.which, default_timeout=None
        )
        local = LocalRuntime(Path.cwd(), default_timeout=None)
        with self.target.explaining_unreachable_hub():
            await opened.enter_async_context(window)
        await opened.enter_async_context(local)
        mcp_server = {
            "name": "bascule",
            "command": sys.executable,
            "args": [
                "-m",
                "bascule",
                "mcp",
                "--hub",
                self.target.url,
                "--window",
                window.window.id,
            ],
            "env": [{"name": "BASCULE_TOKEN", "value": self.target.token}],
        }
        place = AgentPlace(window_id=window.window.id)
        return WindowWorkspace(window.window, window, local, mcp_server=mcp_server), place
