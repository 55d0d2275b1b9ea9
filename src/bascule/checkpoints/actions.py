"""Executes the actions that list, show and restore the checkpoints of a store. All functions
block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from bascule.core.actions import ListCheckpoints, RestoreCheckpoint, ShowCheckpoint
from bascule.core.observations import CheckpointDetail, CheckpointList, CheckpointRestored

from .changes import Change, Conflict, RestorePlan
from .database import Checkpoint
from .diffs import diff_lines
from .editor import OpenFileEditor
from .store import CheckpointStore, is_below
from .versions import shown_path

CheckpointAction = ListCheckpoints | ShowCheckpoint | RestoreCheckpoint
CheckpointObservation = CheckpointList | CheckpointDetail | CheckpointRestored

MAX_NOT_KEPT_LISTED: Final = 1000
"""Maximum number of paths in `CheckpointList.not_kept`; the largest come first."""
_MAX_DIFF_CHARACTERS: Final = 1 << 20
"""Maximum characters of a diff."""
_MAX_DIFFED_FILE_BYTES: Final = 4 << 20
"""Maximum bytes of a file to compare, because the diff of a large file takes long. Larger files are
only named."""


def execute(
    store: CheckpointStore, action: CheckpointAction, editor: OpenFileEditor | None = None
) -> CheckpointObservation:
    """Execute one action. If a file is open in `editor`, a restore lets `editor` write it.

    Raises `NoSuchCheckpoint`, `NoSuchPath` or another error of the store.
    """
    match action:
        case ListCheckpoints():
            return _list_checkpoints(store)
        case ShowCheckpoint():
            return _show_checkpoint(store, action)
        case RestoreCheckpoint():
            return _restore_checkpoint(store, action, editor)


def _list_checkpoints(store: CheckpointStore) -> CheckpointList:
    counts = store.counts()
    items = tuple(_item(each, counts.get(each.id, 0)) for each in store.checkpoints())
    not_kept = tuple(
        {"path": shown_path(each.path), "size": each.size, "reason": each.reason}
        for each in store.not_kept()[:MAX_NOT_KEPT_LISTED]
    )
    return CheckpointList(
        content="\n".join(map(line_of, items)),
        items=items,
        removed_up_to=store.removed_up_to(),
        not_kept=not_kept,
    )


def _show_checkpoint(store: CheckpointStore, action: ShowCheckpoint) -> CheckpointDetail:
    only = [store.relative(path) for path in action.paths]
    found = store.checkpoint(action.checkpoint)
    every = files_of(store.changes(action.checkpoint))
    changes = [each for each in every if not only or is_below(each.path, only)]
    text, is_truncated = _diff(store, changes)
    return CheckpointDetail(
        content=text,
        checkpoint=_item(found, len(every)),
        changes=tuple(
            {"path": shown_path(each.path), "change": _change_kind(each)} for each in changes
        ),
        truncated=is_truncated,
    )


def _restore_checkpoint(
    store: CheckpointStore, action: RestoreCheckpoint, editor: OpenFileEditor | None
) -> CheckpointRestored:
    first, last = action.checkpoint, None if action.since else action.checkpoint
    paths = action.paths or None
    if action.dry_run:
        plan = store.plan(first, last, paths=paths, editor=editor)
        return replace(_outcome(plan, plan.conflicts, _paths(plan)), dry_run=True)
    done = store.restore(first, last, paths=paths, editor=editor)
    return replace(_outcome(done.plan, done.conflicts, set(done.paths)), checkpoint=done.id)


def _outcome(
    plan: RestorePlan, conflicts: Sequence[Conflict], paths: set[str]
) -> CheckpointRestored:
    steps = [each for each in plan.steps if each.path in paths]
    restored = tuple(shown_path(each.path) for each in steps if each.target is not None)
    removed = tuple(shown_path(each.path) for each in steps if each.target is None)
    not_restored = tuple(
        {"path": shown_path(each.path), "reason": each.reason} for each in conflicts
    )
    lines = [
        *(f"restored {path}" for path in restored),
        *(f"removed {path}" for path in removed),
        *(f"left alone: {each['path']}: {each['reason']}" for each in not_restored),
    ]
    return CheckpointRestored(
        content="\n".join(lines) or "Everything is as it was before; nothing had to be restored.",
        restored=restored,
        removed=removed,
        conflicts=not_restored,
    )


def _paths(plan: RestorePlan) -> set[str]:
    return {each.path for each in plan.steps}


def files_of(changes: Iterable[Change]) -> list[Change]:
    """One change for each path, sorted by path, without times of directories."""
    merged: dict[str, Change] = {}
    for each in changes:
        earlier = merged.get(each.path)
        merged[each.path] = each if earlier is None else replace(earlier, after=each.after)
    return [merged[path] for path in sorted(merged) if not merged[path].is_only_a_directory_time]


def line_of(item: Mapping[str, Any]) -> str:
    """One line about a checkpoint, from an item of `CheckpointList`."""
    when = datetime.fromtimestamp(item["began"], UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    state = (
        " (interrupted)"
        if item["is_interrupted"]
        else " (running)"
        if item["ended"] is None
        else ""
    )
    changed = f"{item['files']} file{'s' if item['files'] != 1 else ''}"
    return f"{item['id']:>4}  {when}  {item['agent']}: {item['title']}, {changed}{state}"


def _item(found: Checkpoint, files: int) -> dict[str, Any]:
    return {
        "id": found.id,
        "agent": found.agent,
        "title": found.title,
        "began": found.began,
        "ended": found.ended,
        "is_interrupted": found.is_interrupted,
        "notes": list(found.notes),
        "files": files,
    }


def _change_kind(change: Change) -> str:
    return "added" if change.before is None else "deleted" if change.after is None else "modified"


def _diff(store: CheckpointStore, changes: Iterable[Change]) -> tuple[str, bool]:
    lines: list[str] = []
    characters_left = _MAX_DIFF_CHARACTERS
    for change in changes:
        sizes = [each.stat.size for each in (change.before, change.after) if each is not None]
        if max(sizes) > _MAX_DIFFED_FILE_BYTES:
            found: Iterable[str] = [f"{shown_path(change.path)}: too large for a diff"]
        else:
            found = diff_lines(change, store.read)
        for line in found:
            characters_left -= len(line) + 1
            if characters_left < 0:
                lines.append("[The diff is longer; name paths to see their part of it]")
                return "\n".join(lines), True
            lines.append(line)
    return "\n".join(lines), False
