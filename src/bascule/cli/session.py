"""`bascule session`: the sessions of a hub."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer

from bascule.core.errors import InvalidRequest, UsageError
from bascule.core.printable import printable

from . import session_options as options
from .export import AsList, Output
from .export import export as write_export
from .help import CommandApp
from .hub_target import HubTarget, HubUrl, use_hub
from .known_names import one_of, session_names
from .session_choice import chosen, ensure_free
from .session_refusal import in_options
from .session_view import lines_of, show_list
from .stage_progress import show_stages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bascule.core.contracts import Runtime
    from bascule.link.sessions import HubSession, SessionCalls

session = CommandApp(
    help="Create, use and remove sessions. Each has a workspace, a sandbox and a VS Code.",
)

Which = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="Name or id of the session, or the first characters of its id.",
        autocompletion=session_names,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

_FLAGS_ARE_THE_COMMANDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_T = TypeVar("_T")
_PIECE = 1 << 20


@session.command()
def create(
    hub: HubUrl = None,
    name: Annotated[str, typer.Option(help="Name of the session; must be unique.")] = "",
    git: Annotated[
        str, typer.Option(metavar="URL", help="Git repository to clone into the workspace.")
    ] = "",
    ref: Annotated[str, typer.Option(help="Branch, tag or commit to clone.")] = "",
    git_token: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Environment variable holding the HTTPS token for --git."
        ),
    ] = "",
    git_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key file for --git over SSH.")
    ] = None,
    folder: Annotated[
        str, typer.Option(help="Folder on the hub's machine to use as the workspace (admin only).")
    ] = "",
    archive: Annotated[
        Path | None, typer.Option(help="Zip or tar file to unpack into the workspace.")
    ] = None,
    spawner: Annotated[
        str,
        typer.Option(
            help="Spawner to use: local, docker or plain. [default: the hub's first]",
            autocompletion=one_of("local", "docker", "plain"),
        ),
    ] = "",
    shells: Annotated[
        str,
        typer.Option(help="Kind of shells: pty or tmux.", autocompletion=one_of("pty", "tmux")),
    ] = "pty",
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Environment variable of the session's shells; repeatable."
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Environment variable to copy from here into the session; its value is "
            "masked in records; repeatable.",
        ),
    ] = None,
    runtime: Annotated[
        str,
        typer.Option(
            help="Where actions run: sandbox, or vscode for the session's VS Code window.",
            autocompletion=one_of("sandbox", "vscode"),
        ),
    ] = "sandbox",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory limit such as 4G or 512M, at least 64M; none for no limit. [default: 2G]",
        ),
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option(metavar="N", help="CPU limit such as 1.5; none for no limit. [default: 2]"),
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Limit on the number of processes, at least 16; none for no limit. [default: "
            "1024]",
        ),
    ] = None,
    egress: Annotated[
        str | None,
        typer.Option(
            help="Network access: off, proxy or open. [default: only what --git needs]",
            autocompletion=one_of("off", "proxy", "open"),
        ),
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(
            help="Domain the session may reach through the egress proxy; `*.example.org` matches "
            "subdomains; repeatable."
        ),
    ] = None,
    image: Annotated[
        str, typer.Option(help="Container image to start from (spawner docker, admin only).")
    ] = "",
    wait: Annotated[
        bool, typer.Option(help="Wait until the session is ready, or return at once.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Create a session and print its id.

    Progress goes to stderr. --json prints all fields of the session.
    """
    source = options.source(git=git, ref=ref, folder=folder, archive=archive)
    if opens := options.credential(git=git, token=git_token, key=git_key):
        source["credential"] = opens
    body = {
        "name": name,
        "spawner": spawner,
        "runtime": runtime,
        "shells": shells,
        "image": image,
        "limits": options.limits(memory, cpus, processes),
        "egress": options.egress(egress, domain or ()),
        "environment": dict(map(options.variable, env or ())),
        "secrets": dict(map(options.own_variable, secret or ())),
    }

    async def work(calls: SessionCalls) -> HubSession:
        if name:
            ensure_free(await calls.sessions(), name)
        if archive is not None:
            source["archive"] = await calls.upload_archive(_pieces(archive))
        with show_stages() as show:
            show("waiting for the hub")
            made = await calls.create({**body, "workspace": source})
            return await _started(calls, made.id, show) if wait else made

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
        made = _ask(use_hub(hub), work)
    except InvalidRequest as error:
        raise in_options(error, typed) from error
    typer.echo(json.dumps(made.metadata, indent=2) if as_json else made.id)
    if sys.stdout.isatty() and not as_json:
        typer.echo(f"VS Code: {made.vscode_url}", err=True)
    return 0


@session.command("list")
def list_(hub: HubUrl = None, as_json: AsJson = False) -> int:
    """List the sessions of a hub that the token can see."""
    found = _ask(use_hub(hub, say=not as_json), lambda calls: calls.sessions())
    if as_json:
        typer.echo(json.dumps([each.metadata for each in found], indent=2))
    else:
        show_list(found)
    return 0


@session.command()
def show(which: Which, hub: HubUrl = None, as_json: AsJson = False) -> int:
    """Print the state, workspace, limits, ports and addresses of a session."""

    async def work(calls: SessionCalls) -> tuple[HubSession, Sequence[Mapping[str, Any]]]:
        found = await _find(calls, which)
        return found, await calls.ports(found.id)

    found, ports = _ask(use_hub(hub), work)
    if as_json:
        typer.echo(json.dumps({**found.metadata, "ports": list(ports)}, indent=2))
        return 0
    for name, value in lines_of(found, ports):
        if value:
            typer.echo(f"{name:10} {printable(value)}")
    return 0


@session.command(context_settings=_FLAGS_ARE_THE_COMMANDS)
def exec(  # noqa: A001 - what people type
    which: Which,
    command: Annotated[
        list[str],
        typer.Argument(
            help="Command to run. A single argument is a line of bash; several arguments are "
            "passed as they are."
        ),
    ],
    hub: HubUrl = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="Seconds after which to stop the command. [default: no limit]"
        ),
    ] = None,
) -> int:
    """Run one command in a session and exit with its exit code.

    The other exit codes are those of `bascule exec`.
    """
    from bascule.core.actions import CmdRun

    from .exec import run_command

    words = command[1:] if command[0] == "--" and command[1:] else command  # as with `docker exec`
    text = words[0] if len(words) == 1 else shlex.join(words)
    action = CmdRun(text, blocking=True, timeout=timeout)
    return run_command(_place(use_hub(hub), which), action)


@session.command()
def attach(
    which: Which,
    hub: HubUrl = None,
    shell: Annotated[str, typer.Option(help="Name of the shell. [default: main]")] = "",
) -> int:
    """Open a prompt in a session's shell.

    Ctrl-D or `exit` at the prompt leaves; the shell keeps running in the session.
    """
    from .clean_exit import stops_cleanly
    from .loop import LoopThread
    from .prompt import Prompt

    place = _place(use_hub(hub), which)
    with stops_cleanly(), LoopThread() as loop, loop.hold(place.runtime()) as runtime:
        return Prompt(runtime, loop, shell=shell).converse()


@session.command()
def logs(
    which: Which,
    hub: HubUrl = None,
    lines: Annotated[int, typer.Option(min=1, help="Number of lines, counted from the end.")] = 100,
) -> int:
    """Print the last lines of the log of a session's action server.

    Works after the session has ended, too.
    """

    async def work(calls: SessionCalls) -> str:
        return await calls.logs((await _find(calls, which)).id, lines=lines)

    text = _ask(use_hub(hub), work)
    typer.echo(printable(text) or "The log is empty.", err=not text)
    return 0


@session.command()
def export(which: Which, hub: HubUrl = None, output: Output = None, as_list: AsList = False) -> int:
    """Write the actions of a session, running or not, as an OpenHands trajectory.

    `bascule replay` runs such a file again. Secrets are masked.
    """

    async def pieces(calls: SessionCalls) -> AsyncIterator[bytes]:
        found = await _find(calls, which)
        async for piece in calls.timeline("sessions", found.id, as_list=as_list):
            yield piece

    return write_export(use_hub(hub), pieces, output)


@session.command()
def url(
    which: Which,
    hub: HubUrl = None,
    sign_in: Annotated[
        bool,
        typer.Option(
            "--sign-in",
            help="Print an address that also signs a browser in; it works once, for a few minutes.",
        ),
    ] = False,
) -> int:
    """Print the address of a session's VS Code."""

    async def work(calls: SessionCalls) -> str:
        address = (await _find(calls, which)).vscode_url
        return await calls.sign_in_address(urlsplit(address).path) if sign_in else address

    typer.echo(_ask(use_hub(hub), work))
    return 0


@session.command()
def pause(which: Which, hub: HubUrl = None) -> int:
    """Freeze all processes of a session until it is resumed."""
    return _change(hub, which, lambda calls, found: calls.pause(found))


@session.command()
def resume(which: Which, hub: HubUrl = None) -> int:
    """Resume a paused session, or restart a stopped or failed one."""

    async def work(calls: SessionCalls, found: str) -> HubSession:
        await calls.resume(found)
        with show_stages() as show:
            return await calls.until_ready(found, on_stage=show)

    return _change(hub, which, work)


@session.command()
def stop(which: Which, hub: HubUrl = None) -> int:
    """Stop a session's processes and keep its files."""
    return _change(hub, which, lambda calls, found: calls.stop(found))


@session.command()
def rm(
    which: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SESSION",
            help="Sessions to remove: names, ids, or the first characters of ids.",
            autocompletion=session_names,
        ),
    ] = None,
    hub: HubUrl = None,
    every: Annotated[
        bool, typer.Option("--all", help="Remove every session that the token can see.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation with --all.")
    ] = False,
) -> int:
    """Stop sessions and delete their files. A host folder used as a workspace is kept.

    At a terminal, --all asks for confirmation.
    """
    if bool(which) == every:
        raise UsageError("name the sessions to remove, or give --all")

    place = use_hub(hub)
    found = _ask(place, lambda calls: calls.sessions())
    doomed = found if every else [chosen(found, each) for each in which or ()]
    if every and doomed and not yes and sys.stdin.isatty():
        what = "1 session" if len(doomed) == 1 else f"{len(doomed)} sessions"
        if not _is_sure(f"Remove {what}, including files? [y/N] "):
            return 1

    async def work(calls: SessionCalls) -> None:
        import asyncio

        with show_stages(only_last=True) as show:
            show(f"removing sessions ({len(doomed)})")
            async with asyncio.TaskGroup() as tasks:
                for each in doomed:
                    tasks.create_task(calls.remove(each.id))

    _ask(place, work)
    for each in doomed:
        typer.echo(each.id)
    return 0


def _is_sure(question: str) -> bool:
    typer.echo(question, nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SessionPlace:
    hub: HubTarget
    session_id: str

    def runtime(self) -> Runtime:
        from bascule.runtime import CloudRuntime

        return CloudRuntime(
            self.hub.url, self.hub.token, session_id=self.session_id, default_timeout=None
        )


def _place(hub: HubTarget, which: str) -> _SessionPlace:
    return _SessionPlace(hub, _ask(hub, lambda calls: _find(calls, which)).id)


def _ask(place: HubTarget, work: Callable[[SessionCalls], Coroutine[Any, Any, _T]]) -> _T:
    import asyncio

    async def ask() -> _T:
        from bascule.link.sessions import SessionCalls

        with place.told_how_to_start():
            async with SessionCalls(place.url, place.token) as calls:
                return await work(calls)

    return asyncio.run(ask())


def _change(
    hub: str | None,
    which: str,
    work: Callable[[SessionCalls, str], Coroutine[Any, Any, HubSession]],
) -> int:
    async def change(calls: SessionCalls) -> HubSession:
        return await work(calls, (await _find(calls, which)).id)

    typer.echo(_ask(use_hub(hub), change).state)
    return 0


async def _find(calls: SessionCalls, which: str) -> HubSession:
    return chosen(await calls.sessions(), which)


async def _started(calls: SessionCalls, made: str, show: Callable[[str], None]) -> HubSession:
    """A start that fails leaves a session: whoever asked is told that there is one."""
    from bascule.core.errors import SandboxStartFailed

    try:
        return await calls.until_ready(made, on_stage=show)
    except SandboxStartFailed as error:
        raise SandboxStartFailed(
            f"{error.message}\nThe session still exists: `bascule session resume {made}` "
            f"tries again, `bascule session rm {made}` removes it",
            session_id=made,
        ) from error


async def _pieces(archive: Path) -> AsyncIterator[bytes]:
    import asyncio

    try:
        file = archive.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read --archive {archive}: {error.strerror}") from error
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
