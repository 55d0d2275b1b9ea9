"""Forks of sessions: makes them, shows what they changed, and merges their changes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from bascule.checkpoints.versions import shown_path
from bascule.core.errors import BasculeError, InvalidRequest
from bascule.core.sessions import SessionId, WorkspaceSource
from bascule.forks.change_set import Choice, encode_changes
from bascule.forks.snapshot import Snapshot
from bascule.hub.identity import Identity
from bascule.hub.merge_notices import MergeTarget

from .fork_files import ChangedPath, ForkChange, ForkFiles
from .merged_paths import MergedVersion
from .rows import SessionRow
from .sandbox_messages import MergeResult
from .service import Sessions
from .session_request import SessionRequest
from .states import AT_REST, refused

_MERGED: Final = frozenset({"taken", "merged", "same", "kept"})
"""Outcomes after which a change counts as merged."""


@dataclass(frozen=True, slots=True)
class ForkSummary:
    """What one fork changed and has not merged."""

    row: SessionRow
    changes: Sequence[ChangedPath]
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Overlap:
    """A path that several sessions changed: forks, or the session that they came from."""

    path: str
    sessions: Sequence[SessionId]


@dataclass(frozen=True, slots=True)
class ForkOverview:
    """A session with its forks."""

    source: SessionRow
    changes: Sequence[ChangedPath]
    """What was changed in the session itself since the first snapshot of its present forks."""
    forks: Sequence[ForkSummary]
    overlaps: Sequence[Overlap]
    """In order of their paths: the first is the first path that two changed."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """The result of a merge."""

    target: SessionRow
    results: Sequence[MergeResult]
    checkpoint: int | None
    """The checkpoint in the target session that undoes the merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """Which changes to merge, and how."""

    dry_run: bool = False
    paths: Sequence[str] = ()
    take: Sequence[str] = ()
    keep: Sequence[str] = ()
    with_ignored: bool = False
    into: SessionId | None = None
    """Another session than the one that the fork came from."""

    def choice(self, path: str) -> Choice:
        if _is_named(path, self.take):
            return "fork"
        return "here" if _is_named(path, self.keep) else ""


class SessionForks:
    """Operations on forks. A fork is a session whose workspace began as a copy of another's."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._turns: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def fork(
        self,
        who: Identity,
        session_id: SessionId,
        *,
        count: int = 1,
        name: str = "",
        with_secrets: bool = False,
    ) -> Sequence[SessionRow]:
        """Take a snapshot of a session's workspace and create `count` sessions from it.

        Returns when the snapshot is complete: later changes of the session are not in it. If one
        of the sessions cannot be created, none is.
        """
        row = self._sessions.get(who, session_id)
        if row.is_being_removed or row.state in ("starting", "stopping") or not row.is_filled:
            raise refused(row.state, "be forked")
        await self._sessions.audit_reading(who, session_id, "files, for a fork")
        secrets = await self._sessions.secret_values(who, session_id) if with_secrets else {}
        made: list[SessionRow] = []
        async with self._sessions.new_base(row, with_secrets=with_secrets) as base:
            source = WorkspaceSource(kind="fork", fork_of=row.id, base=base)
            try:
                for each in self._names(who, name or f"{row.spec.name or row.id[:8]}-fork", count):
                    spec = replace(row.spec, name=each, workspace=source, secrets=secrets)
                    request = SessionRequest(spec=spec, has_unique_name=True)
                    made.append(await self._sessions.create(who, request))
            except BaseException:
                for each_made in made:
                    with suppress(BasculeError):
                        await self._sessions.remove(who, each_made.id, force=True)
                raise
        await self._sessions.note_forks(who, row, made, with_secrets=with_secrets)
        return made

    async def overview(self, who: Identity, session_id: SessionId) -> ForkOverview:
        """A session, its forks, and the paths that more than one of them changed."""
        source = self._sessions.get(who, session_id)
        rows = [
            row
            for row in self._sessions.list(who)
            if row.spec.workspace.fork_of == session_id and row.is_filled
        ]
        for each in (source, *rows):
            await self._sessions.audit_reading(who, each.id, "changes, for a list of forks")
        return await asyncio.to_thread(_overview, self._sessions.fork_files, source, rows)

    async def merge(
        self, who: Identity, session_id: SessionId, request: MergeRequest
    ) -> MergeReport:
        """Merge what a fork changed into the session that it came from, three-way."""
        fork = self._fork(who, session_id)
        target_id = request.into or SessionId(fork.spec.workspace.fork_of)
        if target_id == fork.id:
            raise InvalidRequest("A fork cannot be merged into itself")
        target = self._sessions.get(who, target_id)
        for each in (fork, target):
            await self._sessions.audit_reading(who, each.id, "files, for a merge")
        if target.state in AT_REST:
            await self._sessions.resume(who, target_id)
            await self._sessions.until_ready(target_id)
        client, _ = await self._sessions.enter(target_id)
        async with self._turns[target_id]:
            sending = _Sending(self._sessions.fork_files, fork, request)
            name = fork.spec.name or fork.id
            async with self._shown_for_review(target, f"fork {name}", request):
                answer = await client.merge(
                    sending.lines(), title=f"Merge the fork {name}", dry_run=request.dry_run
                )
            if len(answer.results) != len(sending.sent):
                raise InvalidRequest(
                    f"Session {target_id} did not answer for every path of the merge"
                )
            if not request.dry_run:
                await asyncio.to_thread(sending.note, answer.results)
                await self._sessions.note_merge(who, fork, target, len(answer.results))
        results = sorted((*answer.results, *sending.problems), key=lambda each: each.path)
        return MergeReport(target, results, answer.checkpoint)

    @asynccontextmanager
    async def _shown_for_review(
        self, target: SessionRow, agent: str, request: MergeRequest
    ) -> AsyncIterator[None]:
        """Windows that show the target list what is changed inside of this as changes of `agent`.

        The word `fork` in it tells forks from agents, whose names they could have.
        """
        if request.dry_run:
            yield
            return
        identity = await asyncio.to_thread(self._sessions.fork_files.folder_identity, target)
        shown = MergeTarget(session_id=target.id, owner=target.owner, folder=identity)
        async with self._sessions.windows.merges.announced(shown, agent):
            yield

    def _fork(self, who: Identity, session_id: SessionId) -> SessionRow:
        row = self._sessions.get(who, session_id)
        if row.spec.workspace.kind != "fork":
            raise InvalidRequest(
                f"Session {session_id} is not a fork, so there is no session to merge it into"
            )
        if not row.is_filled or row.is_being_removed:
            raise refused(row.state, "be merged")
        return row

    def _names(self, who: Identity, start: str, count: int) -> Iterator[str]:
        """Names that are free now. `create` refuses one that is taken meanwhile."""
        taken = {row.spec.name for row in self._sessions.list(who)}
        number = 0
        for _ in range(count):
            number += 1
            while f"{start}-{number}" in taken:
                number += 1
            yield f"{start}-{number}"


class _Sending:
    """The changes of one merge on their way, and what to record afterwards."""

    def __init__(self, files: ForkFiles, fork: SessionRow, request: MergeRequest) -> None:
        self._files, self._fork, self._request = files, fork, request
        self.sent: list[tuple[str, MergedVersion | None]] = []
        """Paths with the versions that were sent, in order of the names."""
        self.problems: list[MergeResult] = []

    async def lines(self) -> AsyncIterator[bytes]:
        request = self._request
        changes = self._files.changes(
            self._fork,
            paths=request.paths,
            with_ignored=request.with_ignored,
            is_kept=not request.dry_run,
            into=request.into or "",
        )
        try:
            while (found := await asyncio.to_thread(next, changes, None)) is not None:
                if found.problem:
                    shown = shown_path(found.change.path)
                    self.problems.append(
                        MergeResult(path=shown, outcome="conflict", reason=found.problem)
                    )
                    continue
                yield await asyncio.to_thread(self._encoded, found)
        finally:
            await asyncio.to_thread(changes.close)

    def _encoded(self, found: ForkChange) -> bytes:
        change = replace(found.change, choice=self._request.choice(found.change.path))
        self.sent.append((change.path, found.merged_version))
        return b"".join(encode_changes([change]))

    def note(self, results: Sequence[MergeResult]) -> None:
        merged = {
            path: version
            for (path, version), result in zip(self.sent, results, strict=True)
            if result.outcome in _MERGED
        }
        self._files.record_merged(self._fork, merged, into=self._request.into or "")


def _overview(files: ForkFiles, source: SessionRow, rows: Sequence[SessionRow]) -> ForkOverview:
    forks = [
        ForkSummary(row, files.changed_in_fork(row), files.snapshot(row.spec.workspace))
        for row in rows
    ]
    here: dict[str, Sequence[ChangedPath]] = {}
    for each in forks:
        base = each.row.spec.workspace.base
        if base not in here:
            here[base] = files.changed_since(source, each.snapshot)
    first = here[forks[0].row.spec.workspace.base] if forks else ()
    return ForkOverview(source, first, forks, overlaps(source.id, here, forks))


def overlaps(
    source: SessionId, here: Mapping[str, Sequence[ChangedPath]], forks: Sequence[ForkSummary]
) -> Sequence[Overlap]:
    """Paths that two forks changed, or a fork and the source since that fork's snapshot.

    `here`: what the source changed, by snapshot.
    """
    own = {base: {each.path for each in changes} for base, changes in here.items()}
    by_path: dict[str, list[SessionId]] = defaultdict(list)
    for fork in forks:
        for each in fork.changes:
            found = by_path[each.path]
            if each.path in own[fork.row.spec.workspace.base] and source not in found:
                found.insert(0, source)
            found.append(fork.row.id)
    return [Overlap(path, by_path[path]) for path in sorted(by_path) if len(by_path[path]) > 1]


def _is_named(path: str, names: Sequence[str]) -> bool:
    return any(name in (path, ".") or path.startswith(f"{name}/") for name in names)
