"""Pure rules: the differences between two walks, and the paths that a restore may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from .versions import NOT_KEPT, FileStat, Listing, Tree, Version, join, parents_of, same_version

_NOTHING: Listing = {}


@dataclass(frozen=True, slots=True)
class Change:
    """One path before and after the actions that ran; None: the path did not exist."""

    path: str
    before: Version | None
    after: Version | None
    actions: tuple[int, ...]
    """The actions that ran while the path changed. If there are several, it is unknown which action
    changed the path."""
    is_certain: bool = True
    """False if the end of an action was not recorded: then somebody else may have made the
    change."""

    @property
    def is_only_a_directory_time(self) -> bool:
        """Whether the path is a directory, and the change only added or removed entries in it. Each
        of these entries has its own change."""
        if self.before is None or self.after is None:
            return False
        return self.after.stat.is_directory and same_version(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that a restore does not change."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """A path that a restore changes."""

    path: str
    target: Version | None
    """None: the path is removed, because an agent created it."""
    current: Version | None


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Everything that a restore does."""

    steps: Sequence[RestoreStep]
    conflicts: Sequence[Conflict]
    directory_times: Mapping[str, int]
    """Modification times of directories in which actions only added or removed entries."""


def differing(before: Tree, after: Tree) -> dict[str, FileStat | None]:
    """Paths whose stat data differ, with the new data; None for paths that no longer exist."""
    found: dict[str, FileStat | None] = {}
    for directory, listing in after.items():
        old = before.get(directory, _NOTHING)
        if listing is old:
            continue
        for name, new in listing.items():
            if old.get(name) != new:
                found[join(directory, name)] = new
    for directory, old in before.items():
        listing = after.get(directory, _NOTHING)
        if listing is not old:
            for name in old:
                if name not in listing:
                    found[join(directory, name)] = None
    return found


def plan_restore(
    changes: Iterable[Change],
    current: Callable[[str], Version | None],
    *,
    actions: Callable[[int], bool],
    is_named: bool,
    unsaved: Set[str] = frozenset(),
) -> RestorePlan:
    """The plan that undoes `changes`, which are ordered oldest first.

    A path is restored only if nobody else changed it between these changes or since the last one,
    and if the path is not `unsaved` in an editor. `actions` returns whether an action is undone. A
    change that may belong to another action, or that is not certain, is undone only if the user
    named the path (`is_named`). `current` returns the present version of a path.
    """
    chains: dict[str, list[Change]] = {}
    for change in changes:
        chains.setdefault(change.path, []).append(change)
    steps: dict[str, RestoreStep] = {}
    reasons: dict[str, str] = {}
    times: dict[str, int] = {}
    for path, chain in sorted(chains.items()):
        now, target = current(path), chain[0].before
        if target is not None and _only_times_differ(chain, now):
            times[path] = target.stat.mtime_ns
        elif path in unsaved and not _is_already(target, now):
            reasons[path] = "it has unsaved changes in the editor"
        elif reason := _conflict_reason(chain, now, actions, is_named=is_named):
            reasons[path] = reason
        elif not _is_already(target, now):
            steps[path] = RestoreStep(path, target, now)
    _refuse_without_directory(steps, reasons, current)
    _refuse_last_copies(steps, reasons, chains)
    conflicts = [Conflict(path, reason) for path, reason in sorted(reasons.items())]
    return RestorePlan(list(steps.values()), conflicts, times)


def _refuse_without_directory(
    steps: dict[str, RestoreStep], reasons: dict[str, str], current: Callable[[str], Version | None]
) -> None:
    """Refuse paths whose directory neither exists nor is restored."""
    for path in list(steps):
        for above in parents_of(path):
            step = steps.get(above)
            restored = current(above) if step is None else step.target
            if steps[path].target is not None and (
                restored is None or not restored.stat.is_directory
            ):
                reasons[path] = f"{above} is not a directory any longer"
                del steps[path]
                break


def _refuse_last_copies(
    steps: dict[str, RestoreStep], reasons: dict[str, str], chains: Mapping[str, Sequence[Change]]
) -> None:
    """Refuse to remove or overwrite a file whose content cannot be restored to its old path.

    After `mv a b`, the file `b` has the content of `a`. If somebody has created a new `a` since,
    the restore does not change the new `a`, so `b` must stay too.
    """
    not_restored: dict[bytes, str] = {}
    refused = list(reasons)
    while refused:
        path = refused.pop()
        for change in chains[path]:
            if change.before is not None and change.before.content:
                not_restored[change.before.content] = path
        for other, step in list(steps.items()):
            content = NOT_KEPT if step.current is None else step.current.content
            if content in not_restored:
                reasons[other] = (
                    f"it has the content of {not_restored[content]}, which is left alone"
                )
                del steps[other]
                refused.append(other)


def _conflict_reason(
    chain: Sequence[Change],
    now: Version | None,
    actions: Callable[[int], bool],
    *,
    is_named: bool,
) -> str:
    """Why a path is not restored; empty if it may be restored, or if it has the old version
    already."""
    target = chain[0].before
    if _is_already(target, now):
        return ""
    if not same_version(chain[-1].after, now):
        return "it was changed since"
    for earlier, later in pairwise(chain):
        if not same_version(earlier.after, later.before):
            return (
                f"somebody changed it between checkpoints {_ids(earlier)} and {_ids(later)}; "
                f"restore only {_ids(later)} to get that version"
            )
    if not is_named:
        for change in chain:
            if not change.is_certain:
                return f"the end of {_ids(change)} was not seen; name the path to restore it"
            if not all(actions(each) for each in change.actions):
                return f"{_ids(change)} ran at the same time; name the path to restore it"
    if target is not None and not target.is_restorable:
        return "its earlier content was not kept"
    if now is not None and not now.is_restorable:
        return "its present content cannot be kept, so the restore could not be undone"
    return ""


def _only_times_differ(chain: Sequence[Change], now: Version | None) -> bool:
    """Whether a directory differs only in its time, and only the given changes set this time."""
    states = [each for change in chain for each in (change.before, change.after)]
    if now is None or not all(each is not None and each.stat.is_directory for each in states):
        return False
    times = [each.stat.mtime_ns for each in states if each is not None]
    return (
        same_version(chain[0].before, now)
        and now.stat.mtime_ns == times[-1]
        and times[1:-1:2] == times[2::2]
    )


def _is_already(target: Version | None, now: Version | None) -> bool:
    if target is None or now is None:
        return target is now
    return same_version(target, now) and (
        target.stat.mtime_ns == now.stat.mtime_ns or target.stat.is_directory
    )


def _ids(change: Change) -> str:
    return " and ".join(map(str, change.actions))
