"""`bascule session fork`, `forks` and `merge`: forks of a session, and merging them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from bascule.core.errors import NoSuchSession, UsageError
from bascule.core.printable import one_line

from .hub_target import HubUrl, use_hub
from .known_names import session_names
from .session_calls import AsJson, Which, call_hub, find, wait_until_started
from .session_choice import choose_session
from .signatures import CommandArgument, CommandOption
from .stage_progress import show_stages

if TYPE_CHECKING:
    from bascule.link.sessions import HubSession, SessionCalls

_CONFLICTS = 1
_LETTERS = {"added": "A", "changed": "M", "removed": "D"}
_MAX_SHOWN = 20
"""Maximum number of paths that a list shows for each fork."""

Fork = Annotated[
    str,
    CommandArgument(
        metavar="FORK",
        help="Name or id of the fork, or the first characters of its id.",
        autocompletion=session_names,
    ),
]


def fork(
    source: Annotated[
        str,
        CommandArgument(
            metavar="FOLDER|SESSION",
            help="Session to fork, or a folder of the hub's machine (admin only).",
            autocompletion=session_names,
        ),
    ],
    hub: HubUrl = None,
    count: Annotated[int, CommandOption(metavar="N", min=1, max=100, help="Number of forks.")] = 1,
    name: Annotated[
        str,
        CommandOption(
            help="Prefix of the forks' names, followed by a number. [default: the session's name "
            "and `-fork`]"
        ),
    ] = "",
    secrets: Annotated[
        bool,
        CommandOption(
            "--secrets",
            help="Also copy files whose names suggest secrets, such as .env, and the values of the "
            "session's secret variables.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Create sessions that start with a copy of a workspace, and print their ids.

    Each fork has its own files and its own git repository, and cannot access the workspace that was
    copied. If you fork a folder, the folder is first opened as a session, unless a session has it
    open already. You can merge the forks into that session.
    """
    path_given = Path(source).expanduser()
    folder = path_given.resolve() if path_given.is_dir() else None

    async def work(calls: SessionCalls) -> Sequence[HubSession]:
        with show_stages() as show:
            session = await _source_session(calls, source, folder)
            if session.state == "starting":
                session = await wait_until_started(calls, session.id, show)
            show("copying the workspace")
            body = {"count": count, "name": name, "secrets": secrets}
            return [
                await wait_until_started(calls, each.id, show)
                for each in await calls.fork(session.id, body)
            ]

    created = call_hub(use_hub(hub), work)
    if as_json:
        click.echo(json.dumps([each.metadata for each in created], indent=2))
        return 0
    for each in created:
        click.echo(each.id)
    return 0


def forks(which: Which, hub: HubUrl = None, as_json: AsJson = False) -> int:
    """List the forks of a session and their unmerged changes.

    The end of the list has the paths that were changed more than once: by several forks, or by a
    fork and the session itself.
    """

    async def work(calls: SessionCalls) -> Mapping[str, Any]:
        return await calls.forks((await find(calls, which)).id)

    found = call_hub(use_hub(hub), work)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return 0
    names = {each["id"]: one_line(each["name"] or each["id"]) for each in found["forks"]}
    names[found["id"]] = "the session itself"
    for each in found["forks"]:
        count = each["count"]
        what = "nothing to merge" if not count else f"{count} changed"
        click.echo(f"{names[each['id']]}  {each['state']}  {what}")
        for change in each["changes"][:_MAX_SHOWN]:
            click.echo(f"  {_LETTERS[change['change']]} {one_line(change['path'])}")
        if count > _MAX_SHOWN:
            click.echo(f"  and {count - _MAX_SHOWN} more")
    for each in found["overlaps"][:_MAX_SHOWN]:
        who = ", ".join(names[one] for one in each["sessions"])
        click.echo(f"overlap: {one_line(each['path'])} ({who})")
    if found["overlap_count"] > _MAX_SHOWN:
        click.echo(f"overlap: {found['overlap_count'] - _MAX_SHOWN} more paths")
    return 0


def merge(
    which: Fork,
    hub: HubUrl = None,
    path: Annotated[
        list[str] | None,
        CommandOption(help="Only this file or directory of the workspace; repeatable."),
    ] = None,
    take: Annotated[
        list[str] | None,
        CommandOption(
            metavar="PATH", help="Settle a conflict with the fork's version; repeatable."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        CommandOption(
            metavar="PATH", help="Settle a conflict with the target session's version; repeatable."
        ),
    ] = None,
    into: Annotated[
        str | None,
        CommandOption(
            metavar="SESSION",
            help="Session to merge into. [default: the session that was forked]",
            autocompletion=session_names,
        ),
    ] = None,
    ignored: Annotated[
        bool, CommandOption("--ignored", help="Also merge files that .gitignore excludes.")
    ] = False,
    branch: Annotated[
        str | None,
        CommandOption(
            metavar="NAME",
            help="Copy the fork's commits into a new branch with this name, instead of merging "
            "files.",
        ),
    ] = None,
    repository: Annotated[
        str | None,
        CommandOption(
            metavar="DIR", help="Directory of the repository for --branch. [default: the workspace]"
        ),
    ] = None,
    dry_run: Annotated[
        bool, CommandOption("--dry-run", help="Only print what would be done.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Merge the changes of a fork into the session that was forked.

    If a path has a conflict, the path is printed and left unchanged, and the exit code is 1. The
    merge creates a checkpoint in the target session, so `bascule checkpoint restore` can undo it.
    """
    paths = {"--path": path, "--take": take, "--keep": keep}
    names = {"--into": [into], "--branch": [branch], "--repository": [repository]}
    _ensure_no_empty({**paths, **names})
    if repository and branch is None:
        raise UsageError("--repository is only for --branch")
    hub_target = use_hub(hub)
    if branch is not None:
        if dry_run or path or take or keep or ignored or as_json:
            raise UsageError(
                "--branch transfers commits, not files; only --into and --repository work with it"
            )
        from .fork_branch import transfer_branch

        return transfer_branch(
            hub_target, which, branch, repository=repository or "", into=into or ""
        )

    async def work(calls: SessionCalls) -> tuple[HubSession, Mapping[str, Any]]:
        found = await calls.sessions()
        target = choose_session(found, into).id if into else ""
        body = {
            "dry_run": dry_run,
            "paths": path or [],
            "take": take or [],
            "keep": keep or [],
            "ignored": ignored,
            "into": target,
        }
        answer = await calls.merge(choose_session(found, which).id, body)
        return choose_session(found, answer["into"]), answer

    target, answer = call_hub(hub_target, work)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        _show_merge(target, answer, dry_run=dry_run)
    return _CONFLICTS if answer["conflicts"] else 0


def _ensure_no_empty(given: Mapping[str, Sequence[str | None] | None]) -> None:
    """Refuse empty values: an unset variable in a script must not select something else, such as
    all conflicts."""
    for option, values in given.items():
        if "" in (values or ()):
            raise UsageError(f"{option} is empty; give it a value, or leave it out")


def _show_merge(target: HubSession, answer: Mapping[str, Any], *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for each in answer["results"]:
        if each["outcome"] == "same":
            continue
        lines = ", ".join(_lines(first, last) for first, last in each["lines"])
        reason = ": ".join(filter(None, [one_line(each["reason"]), lines]))
        what = "conflict" if each["outcome"] == "conflict" else f"{would}{each['outcome']}"
        click.echo(f"{what} {one_line(each['path'])}" + (f" ({reason})" if reason else ""))
    if not answer["results"]:
        click.echo("There is nothing to merge.", err=True)
    if answer["checkpoint"] is not None:
        name = target.name or target.id
        click.echo(
            f"To undo: bascule checkpoint restore {answer['checkpoint']} --session {name}", err=True
        )
    if answer["conflicts"]:
        click.echo(
            f"{answer['conflicts']} in conflict. Edit the files in the fork and merge again, or "
            "settle the conflicts with --take or --keep.",
            err=True,
        )


def _lines(first: int, last: int) -> str:
    if last < first:
        return f"after line {last}"
    return f"line {first}" if first == last else f"lines {first} to {last}"


async def _source_session(calls: SessionCalls, source: str, folder: Path | None) -> HubSession:
    """The session with that name, or with that folder as its workspace, which is created if
    missing."""
    found = await calls.sessions()
    try:
        return choose_session(found, source)
    except NoSuchSession:
        if folder is None:
            raise
    for each in found:
        if each.metadata["workspace"].get("folder") == str(folder):
            return each
    is_free = all(each.name != folder.name for each in found)
    workspace = {"kind": "folder", "folder": str(folder)}
    return await calls.create({"name": folder.name if is_free else "", "workspace": workspace})
