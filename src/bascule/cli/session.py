"""`bascule session`: create and manage the sessions of a hub."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import click

from bascule.core.errors import ForkNotMerged, InvalidRequest, UsageError
from bascule.core.printable import printable

from . import session_options as options
from .command_timeout import CommandTimeout
from .export import AsList, Output
from .export import export as write_export
from .help import CommandGroup
from .hub_target import HubTarget, HubUrl, use_hub
from .known_names import one_of, session_names
from .session_calls import AsJson, Which, call_hub, find, wait_until_started
from .session_choice import choose_session, ensure_free
from .session_forks import fork, forks, merge
from .session_refusal import in_options
from .session_view import lines_of, show_list
from .signatures import CommandArgument, CommandOption
from .stage_progress import show_stages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bascule.core.contracts import Runtime
    from bascule.link.sessions import HubSession, SessionCalls

session = CommandGroup(
    help="Create, use and remove sessions. A session has a workspace, a sandbox and VS Code.",
)

_PASS_FLAGS_TO_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_T = TypeVar("_T")
_PIECE = 1 << 20


@session.subcommand()
def create(
    hub: HubUrl = None,
    name: Annotated[str, CommandOption(help="Name of the session; must be unique.")] = "",
    git: Annotated[
        str, CommandOption(metavar="URL", help="Git repository to clone into the workspace.")
    ] = "",
    ref: Annotated[str, CommandOption(help="Branch, tag or commit to clone.")] = "",
    git_token: Annotated[
        str,
        CommandOption(
            metavar="NAME", help="Environment variable holding the HTTPS token for --git."
        ),
    ] = "",
    git_key: Annotated[
        Path | None, CommandOption(metavar="FILE", help="Private key file for --git over SSH.")
    ] = None,
    folder: Annotated[
        str, CommandOption(help="Folder on the hub's machine to use as the workspace (admin only).")
    ] = "",
    archive: Annotated[
        Path | None, CommandOption(help="Zip or tar file to unpack into the workspace.")
    ] = None,
    spawner: Annotated[
        str,
        CommandOption(
            help="Spawner, which starts the sandbox: local, docker or plain. [default: the first "
            "of the hub's setting `spawners`]",
            autocompletion=one_of("local", "docker", "plain"),
        ),
    ] = "",
    shells: Annotated[
        str,
        CommandOption(help="Kind of shells: pty or tmux.", autocompletion=one_of("pty", "tmux")),
    ] = "pty",
    env: Annotated[
        list[str] | None,
        CommandOption(
            metavar="NAME=VALUE", help="Environment variable of the session's shells; repeatable."
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        CommandOption(
            metavar="NAME",
            help="Name of an environment variable to copy from this process into the session. "
            "Records show its value as ***. Repeatable.",
        ),
    ] = None,
    runtime: Annotated[
        str,
        CommandOption(
            help="Where actions run: sandbox, or vscode for the session's VS Code window.",
            autocompletion=one_of("sandbox", "vscode"),
        ),
    ] = "sandbox",
    memory: Annotated[
        str | None,
        CommandOption(
            metavar="SIZE",
            help="Memory limit such as 4G or 512M, at least 64M; the word none: no limit. "
            "[default: 2G]",
        ),
    ] = None,
    cpus: Annotated[
        str | None,
        CommandOption(
            metavar="N", help="CPU limit such as 1.5; the word none: no limit. [default: 2]"
        ),
    ] = None,
    processes: Annotated[
        str | None,
        CommandOption(
            metavar="N",
            help="Maximum number of processes, at least 16; the word none: no limit. [default: "
            "1024]",
        ),
    ] = None,
    egress: Annotated[
        str | None,
        CommandOption(
            help="Network access. off: none. proxy: only to the names in --domain. open: the "
            "Internet. [default: with an https --git, proxy to the host in that URL; with "
            "--domain, proxy; off otherwise]",
            autocompletion=one_of("off", "proxy", "open"),
        ),
    ] = None,
    domain: Annotated[
        list[str] | None,
        CommandOption(
            help="Domain that the session may reach with --egress proxy; `*.example.org` matches "
            "all subdomains; repeatable."
        ),
    ] = None,
    image: Annotated[
        str, CommandOption(help="Container image to start from (spawner docker, admin only).")
    ] = "",
    checkpoints: Annotated[
        bool,
        CommandOption(help="Record the changes of each action, so that they can be undone."),
    ] = True,
    wait: Annotated[
        bool, CommandOption(help="Wait until the session is ready, or return at once.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Create a session and print its id.

    Progress is printed on stderr. --json prints all fields of the session.
    """
    source = options.source(git=git, ref=ref, folder=folder, archive=archive)
    if credential := options.credential(git=git, token=git_token, key=git_key):
        source["credential"] = credential
    body = {
        "name": name,
        "spawner": spawner,
        "runtime": runtime,
        "shells": shells,
        "image": image,
        "checkpoints": checkpoints,
        "limits": options.limits(memory, cpus, processes),
        "egress": options.egress(egress, domain or ()),
        "environment": dict(map(options.variable, env or ())),
        "secrets": dict(map(options.this_process_variable, secret or ())),
    }

    async def work(calls: SessionCalls) -> HubSession:
        if name:
            ensure_free(await calls.sessions(), name)
        if archive is not None:
            source["archive"] = await calls.upload_archive(_pieces(archive))
        with show_stages() as show:
            show("waiting for the hub")
            created = await calls.create({**body, "workspace": source})
            return await wait_until_started(calls, created.id, show) if wait else created

    typed = {
        "--name": name,
        "--spawner": spawner,
        "--runtime": runtime,
        "--shells": shells,
        "--image": image,
        "--ref": ref,
        "--folder": folder,
        "--memory": memory or "",
        "--cpus": cpus or "",
        "--processes": processes or "",
        "--egress": egress or "",
        "--domain": " ".join(domain or ()),
    }
    try:
        created = call_hub(use_hub(hub), work)
    except InvalidRequest as error:
        raise in_options(error, typed) from error
    click.echo(json.dumps(created.metadata, indent=2) if as_json else created.id)
    if sys.stdout.isatty() and not as_json:
        click.echo(f"VS Code: {created.vscode_url}", err=True)
    return 0


@session.subcommand("list")
def list_(hub: HubUrl = None, as_json: AsJson = False) -> int:
    """List the sessions of a hub.

    Lists the sessions of the token's owner; with an admin token, all sessions.
    """
    found = call_hub(use_hub(hub, say=not as_json), lambda calls: calls.sessions())
    if as_json:
        click.echo(json.dumps([each.metadata for each in found], indent=2))
    else:
        show_list(found)
    return 0


@session.subcommand()
def show(which: Which, hub: HubUrl = None, as_json: AsJson = False) -> int:
    """Print the state, workspace, limits, ports and addresses of a session."""

    async def work(calls: SessionCalls) -> tuple[HubSession, Sequence[Mapping[str, Any]]]:
        found = await find(calls, which)
        return found, await calls.ports(found.id)

    found, ports = call_hub(use_hub(hub), work)
    if as_json:
        click.echo(json.dumps({**found.metadata, "ports": list(ports)}, indent=2))
        return 0
    for name, value in lines_of(found, ports):
        if value:
            click.echo(f"{name:10} {printable(value)}")
    return 0


@session.subcommand(context_settings=_PASS_FLAGS_TO_COMMAND)
def exec(  # noqa: A001 - the name of the subcommand
    which: Which,
    command: Annotated[
        list[str],
        CommandArgument(
            help="Command to run. A single argument is a line of bash. Several arguments are a "
            "program and its arguments, passed unchanged."
        ),
    ],
    hub: HubUrl = None,
    timeout: CommandTimeout = None,
) -> int:
    """Run one command in a session and exit with its exit code.

    Exits with 124 if --timeout expired, 125 if the command could not be run, 2 for invalid
    arguments or an unknown session, and 1 if the hub does not answer.
    """
    from bascule.core.actions import CmdRun

    from .exec import run_command

    words = command[1:] if command[0] == "--" and command[1:] else command  # as with `docker exec`
    text = words[0] if len(words) == 1 else shlex.join(words)
    action = CmdRun(text, blocking=True, timeout=timeout)
    return run_command(_target(use_hub(hub), which), action)


@session.subcommand()
def attach(
    which: Which,
    hub: HubUrl = None,
    shell: Annotated[
        str,
        CommandOption(
            help="Which of the session's shells to use, by name; a new name starts a new shell. "
            "[default: main]"
        ),
    ] = "",
) -> int:
    """Open a prompt in a session's shell.

    Ctrl-D or `exit` closes the prompt; the shell keeps running in the session.
    """
    from .clean_exit import stops_cleanly
    from .loop import LoopThread
    from .prompt import Prompt

    target = _target(use_hub(hub), which)
    with stops_cleanly(), LoopThread() as loop, loop.hold(target.runtime()) as runtime:
        return Prompt(runtime, loop, shell=shell).run_until_exit()


@session.subcommand()
def logs(
    which: Which,
    hub: HubUrl = None,
    lines: Annotated[
        int, CommandOption(min=1, help="Number of lines, counted from the end.")
    ] = 100,
) -> int:
    """Print the end of the log of a session's action server.

    The action server is the process that executes the session's actions. Its log is also available
    after the session has stopped.
    """

    async def work(calls: SessionCalls) -> str:
        return await calls.logs((await find(calls, which)).id, lines=lines)

    text = call_hub(use_hub(hub), work)
    click.echo(printable(text) or "The log is empty.", err=not text)
    return 0


@session.subcommand()
def export(which: Which, hub: HubUrl = None, output: Output = None, as_list: AsList = False) -> int:
    """Write the recorded actions of a session as an OpenHands trajectory.

    The file also has the result of each action. The session may be running or stopped. `bascule
    replay` runs the actions in such a file again. Values of the session's secrets appear as ***.
    """

    async def pieces(calls: SessionCalls) -> AsyncIterator[bytes]:
        found = await find(calls, which)
        async for piece in calls.timeline("sessions", found.id, as_list=as_list):
            yield piece

    return write_export(use_hub(hub), pieces, output)


@session.subcommand()
def url(
    which: Which,
    hub: HubUrl = None,
    sign_in: Annotated[
        bool,
        CommandOption(
            "--sign-in",
            help="Print an address that also signs a browser in. It works once and expires after "
            "a few minutes.",
        ),
    ] = False,
) -> int:
    """Print the address of a session's VS Code."""

    async def work(calls: SessionCalls) -> str:
        address = (await find(calls, which)).vscode_url
        return await calls.sign_in_address(urlsplit(address).path) if sign_in else address

    click.echo(call_hub(use_hub(hub), work))
    return 0


@session.subcommand()
def pause(which: Which, hub: HubUrl = None) -> int:
    """Freeze all processes of a session until the session is resumed."""
    return _change(hub, which, lambda calls, found: calls.pause(found))


@session.subcommand()
def resume(which: Which, hub: HubUrl = None) -> int:
    """Resume a paused session, or restart a stopped or failed session."""

    async def work(calls: SessionCalls, found: str) -> HubSession:
        await calls.resume(found)
        with show_stages() as show:
            return await calls.until_ready(found, on_stage=show)

    return _change(hub, which, work)


@session.subcommand()
def stop(which: Which, hub: HubUrl = None) -> int:
    """Stop a session's processes and keep its files."""
    return _change(hub, which, lambda calls, found: calls.stop(found))


@session.subcommand()
def rm(
    which: Annotated[
        list[str] | None,
        CommandArgument(
            metavar="SESSION",
            help="Sessions to remove: names, ids, or the first characters of ids.",
            autocompletion=session_names,
        ),
    ] = None,
    hub: HubUrl = None,
    every: Annotated[
        bool,
        CommandOption("--all", help="Remove every session that `bascule session list` lists."),
    ] = False,
    yes: Annotated[
        bool, CommandOption("--yes", "-y", help="Do not ask for confirmation with --all.")
    ] = False,
    force: Annotated[
        bool,
        CommandOption("--force", help="Also remove forks with unmerged changes."),
    ] = False,
) -> int:
    """Stop sessions and delete their files. A workspace that is a folder of the host is kept.

    At a terminal, --all asks for confirmation. A fork with unmerged changes is removed only with
    --force. If such a fork is kept, the exit code is 1.
    """
    if bool(which) == every:
        raise UsageError("name the sessions to remove, or give --all")

    target = use_hub(hub)
    found = call_hub(target, lambda calls: calls.sessions())
    chosen_sessions = found if every else [choose_session(found, each) for each in which or ()]
    if every and chosen_sessions and not yes and sys.stdin.isatty():
        what = "1 session" if len(chosen_sessions) == 1 else f"{len(chosen_sessions)} sessions"
        if not _is_sure(f"Remove {what}, including files? [y/N] "):
            return 1

    kept: dict[str, str] = {}

    async def remove(calls: SessionCalls, session_id: str) -> None:
        try:
            await calls.remove(session_id, force=force)
        except ForkNotMerged as error:
            kept[session_id] = error.message

    async def work(calls: SessionCalls) -> None:
        import asyncio

        with show_stages(only_last=True) as show:
            show(f"removing sessions ({len(chosen_sessions)})")
            async with asyncio.TaskGroup() as tasks:
                for each in chosen_sessions:
                    tasks.create_task(remove(calls, each.id))

    call_hub(target, work)
    for each in chosen_sessions:
        if each.id in kept:
            click.echo(f"kept {each.id}: {printable(kept[each.id])}", err=True)
        else:
            click.echo(each.id)
    return 1 if kept else 0


for _command in (fork, forks, merge):
    session.subcommand()(_command)


def _is_sure(question: str) -> bool:
    click.echo(question, nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SessionTarget:
    hub: HubTarget
    session_id: str

    def runtime(self) -> Runtime:
        from bascule.runtime import CloudRuntime

        return CloudRuntime(
            self.hub.url, self.hub.token, session_id=self.session_id, default_timeout=None
        )


def _target(hub: HubTarget, which: str) -> _SessionTarget:
    return _SessionTarget(hub, call_hub(hub, lambda calls: find(calls, which)).id)


def _change(
    hub: str | None,
    which: str,
    work: Callable[[SessionCalls, str], Coroutine[Any, Any, HubSession]],
) -> int:
    async def change(calls: SessionCalls) -> HubSession:
        return await work(calls, (await find(calls, which)).id)

    click.echo(call_hub(use_hub(hub), change).state)
    return 0


async def _pieces(archive: Path) -> AsyncIterator[bytes]:
    import asyncio

    try:
        file = archive.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read --archive {archive}: {error.strerror}") from error
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
