"""`bascule checkpoint`: list and undo the changes of agents in a workspace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click

from bascule.core.actions import ListCheckpoints, RestoreCheckpoint, ShowCheckpoint
from bascule.core.errors import UsageError
from bascule.core.observations import (
    CheckpointDetail,
    CheckpointList,
    CheckpointRestored,
    Observation,
)
from bascule.core.printable import one_line, printable

from .help import CommandGroup
from .hub_target import HubTarget, HubUrl, use_hub
from .known_names import session_names, window_names
from .signatures import CommandArgument, CommandOption

if TYPE_CHECKING:
    from bascule.checkpoints.actions import CheckpointAction
    from bascule.core.contracts import Runtime

checkpoint = CommandGroup(
    help="List, compare and restore the checkpoints of a workspace.\n\nA checkpoint contains the "
    "changes of one action of an agent. Restoring it undoes only these changes, and only in files "
    "that nobody has changed since. Name a session of the hub (--session), a VS Code window "
    "(--window), or the directory where checkpoints are stored (--store). With --window, the "
    "window asks its user for consent."
)

Session = Annotated[
    str,
    CommandOption(
        "--session",
        metavar="SESSION",
        help="Name or id of the session, or the first characters of its id.",
        autocompletion=session_names,
    ),
]
Window = Annotated[
    str,
    CommandOption(
        "--window",
        metavar="WINDOW",
        help="Id or name of a VS Code window, or a path in its folder.",
        autocompletion=window_names,
    ),
]
Store = Annotated[
    Path | None,
    CommandOption("--store", metavar="DIR", help="Directory where the checkpoints are stored."),
]
Id = Annotated[int, CommandArgument(metavar="ID", help="Number of the checkpoint.")]
Paths = Annotated[
    list[str] | None,
    CommandArgument(metavar="PATHS", help="Only these files and directories of the workspace."),
]
AsJson = Annotated[bool, CommandOption("--json", help="Print the result as JSON.")]

_CONFLICTS = 1
_LETTERS = {"added": "A", "modified": "M", "deleted": "D"}
_Seen = TypeVar("_Seen", bound=Observation)


@checkpoint.subcommand("list")
def list_(
    session: Session = "",
    window: Window = "",
    store: Store = None,
    hub: HubUrl = None,
    as_json: AsJson = False,
) -> int:
    """List checkpoints, oldest first, and the paths that checkpoints do not contain."""
    seen = _ask(ListCheckpoints(), CheckpointList, _CheckpointLocation(session, window, store, hub))
    if as_json:
        result = {
            "checkpoints": list(seen.items),
            "removed_up_to": seen.removed_up_to,
            "not_kept": list(seen.not_kept),
        }
        click.echo(json.dumps(result, indent=2))
        return 0
    if seen.removed_up_to:
        click.echo(f"Checkpoints up to {seen.removed_up_to} were removed to save space.", err=True)
    for each in seen.items:
        click.echo(_line(each))
    for left in seen.not_kept:
        click.echo(f"not kept: {one_line(left['path'])}: {one_line(left['reason'])}", err=True)
    return 0


@checkpoint.subcommand()
def show(
    number: Id,
    session: Session = "",
    window: Window = "",
    store: Store = None,
    hub: HubUrl = None,
    as_json: AsJson = False,
) -> int:
    """List the files that one action changed.

    A letter before each file says how it was changed: A for added, M for modified, D for deleted.
    """
    seen = _ask(
        ShowCheckpoint(number), CheckpointDetail, _CheckpointLocation(session, window, store, hub)
    )
    if as_json:
        click.echo(json.dumps({**seen.checkpoint, "changes": list(seen.changes)}, indent=2))
        return 0
    click.echo(_line(seen.checkpoint))
    for note in seen.checkpoint["notes"]:
        click.echo(f"  {printable(note)}")
    for change in seen.changes:
        click.echo(f"  {_LETTERS[change['change']]} {one_line(change['path'])}")
    return 0


@checkpoint.subcommand()
def diff(
    number: Id,
    paths: Paths = None,
    session: Session = "",
    window: Window = "",
    store: Store = None,
    hub: HubUrl = None,
) -> int:
    """Print the changes of one action as a unified diff."""
    action = ShowCheckpoint(number, tuple(paths or ()))
    seen = _ask(action, CheckpointDetail, _CheckpointLocation(session, window, store, hub))
    if seen.content:
        click.echo(printable(seen.content))
    return 0


@checkpoint.subcommand()
def restore(
    number: Id,
    paths: Paths = None,
    session: Session = "",
    window: Window = "",
    store: Store = None,
    hub: HubUrl = None,
    since: Annotated[
        bool, CommandOption("--since", help="Also undo the changes of all later checkpoints.")
    ] = False,
    dry_run: Annotated[
        bool, CommandOption("--dry-run", help="Print what would be done, and change nothing.")
    ] = False,
) -> int:
    """Undo the changes of one action, or also of all later actions (--since).

    A file that somebody changed after the action is listed and not restored; the exit code is
    then 1. The restore creates a checkpoint, with which you can undo the restore.
    """
    action = RestoreCheckpoint(number, tuple(paths or ()), since=since, dry_run=dry_run)
    seen = _ask(action, CheckpointRestored, _CheckpointLocation(session, window, store, hub))
    words = ("would restore", "would remove") if dry_run else ("restored", "removed")
    for word, found in zip(words, (seen.restored, seen.removed), strict=True):
        for path in found:
            click.echo(f"{word} {one_line(path)}")
    if seen.checkpoint is not None:
        location = _CheckpointLocation(session, window, store, hub)
        click.echo(f"To undo: bascule checkpoint restore {seen.checkpoint} {location}", err=True)
    elif not (seen.restored or seen.removed or seen.conflicts):
        click.echo("Everything is as it was before; nothing had to be restored.", err=True)
    for each in seen.conflicts:
        reason = one_line(each["reason"])
        click.echo(f"left alone: {one_line(each['path'])}: {reason}", err=True)
    return _CONFLICTS if seen.conflicts else 0


@dataclass(frozen=True, slots=True)
class _CheckpointLocation:
    """The location of the checkpoints. Exactly one of the first three fields is set."""

    session: str
    window: str
    store: Path | None
    hub: str | None

    def __str__(self) -> str:
        """The command-line option for this location."""
        if self.session:
            return f"--session {self.session}"
        return f"--window {self.window}" if self.window else f"--store {self.store}"


def _ask(action: CheckpointAction, kind: type[_Seen], location: _CheckpointLocation) -> _Seen:
    if [bool(location.session), bool(location.window), location.store is not None].count(True) != 1:
        raise UsageError(
            "Name either a session with --session, a window with --window, or a store with --store"
        )
    seen = (
        _in_store(action, location.store)
        if location.store
        else asyncio.run(_at_hub(action, location))
    )
    assert isinstance(seen, kind)
    return seen


def _in_store(action: CheckpointAction, directory: Path) -> Observation:
    from bascule.checkpoints import CheckpointStore
    from bascule.checkpoints.actions import execute

    with CheckpointStore.existing(directory) as opened:
        return execute(opened, action)


async def _at_hub(action: CheckpointAction, location: _CheckpointLocation) -> Observation:
    from bascule.core.kinds import OBSERVATIONS
    from bascule.runtime.verbs import expect

    target = use_hub(location.hub)
    with target.explaining_unreachable_hub():
        async with await _runtime(target, location) as runtime:
            return expect(await runtime.act(action), OBSERVATIONS[action.kind])


async def _runtime(target: HubTarget, location: _CheckpointLocation) -> Runtime:
    from bascule.link.sessions import SessionCalls
    from bascule.runtime import CloudRuntime, VSCodeRuntime

    from .session_choice import choose_session

    if location.window:
        return VSCodeRuntime(target.url, target.token, window=location.window, connect_patience=0)
    async with SessionCalls(target.url, target.token) as calls:
        found = choose_session(await calls.sessions(), location.session)
    return CloudRuntime(target.url, target.token, session_id=found.id)


def _line(item: Mapping[str, Any]) -> str:
    from bascule.checkpoints.actions import line_of

    return one_line(line_of(item))
