"""Creates forks of sessions, lists their changes, and merges them."""

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
from .states import AT_REST, invalid_state

_MERGED: Final = frozenset({"taken", "merged", "same", "kept"})
"""Outcomes after which a change counts as merged."""


@dataclass(frozen=True, slots=True)
class ForkSummary:
    """The unmerged changes of one fork."""

    row: SessionRow
    changes: Sequence[ChangedPath]
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Overlap:
    """A path that several sessions changed: forks, or the session that was forked."""

    path: str
    sessions: Sequence[SessionId]


@dataclass(frozen=True, slots=True)
class ForkOverview:
    """A session with its forks."""

    source: SessionRow
    changes: Sequence[ChangedPath]
    """Changes in the session itself since the first snapshot of its present forks."""
    forks: Sequence[ForkSummary]
    overlaps: Sequence[Overlap]
    """Sorted by path."""


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
    """Only these files and directories; empty: everything."""
    take: Sequence[str] = ()
    """Paths whose conflicts are settled with the fork's version."""
    keep: Sequence[str] = ()
    """Paths whose conflicts are settled with the target session's version."""
    with_ignored: bool = False
    """Whether to merge files that `.gitignore` excludes, too."""
    into: SessionId | None = None
    """The session to merge into; None: the session that was forked."""

    def choice(self, path: str) -> Choice:
        if _is_listed(path, self.take):
            return "fork"
        return "here" if _is_listed(path, self.keep) else ""


class SessionForks:
    """Operations on forks. A fork is a session whose workspace started as a copy of another
    session's workspace."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._merge_locks: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)

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
            raise invalid_state(row.state, "be forked")
        await self._sessions.audit_reading(who, session_id, "files, for a fork")
        secrets = await self._sessions.secret_values(who, session_id) if with_secrets else {}
        forks: list[SessionRow] = []
        async with self._sessions.new_base(row, with_secrets=with_secrets) as base:
            source = WorkspaceSource(kind="fork", fork_of=row.id, base=base)
            try:
                prefix = name or f"{row.spec.name or row.id[:8]}-fork"
                for fork_name in self._names(who, prefix, count):
                    spec = replace(row.spec, name=fork_name, workspace=source, secrets=secrets)
                    request = SessionRequest(spec=spec, has_unique_name=True)
                    forks.append(await self._sessions.create(who, request))
            except BaseException:
                for fork in forks:
                    with suppress(BasculeError):
                        await self._sessions.remove(who, fork.id, force=True)
                raise
        await self._sessions.audit_forks(who, row, forks, with_secrets=with_secrets)
        return forks

    async def overview(self, who: Identity, session_id: SessionId) -> ForkOverview:
        """A session, its forks, and the paths that more than one of them changed."""
        source = self._sessions.get(who, session_id)
        rows = [
            row
            for row in self._sessions.list(who)
            if row.spec.workspace.fork_of == session_id
            and row.is_filled
            and self._sessions.access_of(who, row) in ("act", "own")
        ]
        for each in (source, *rows):
            await self._sessions.audit_reading(who, each.id, "changes, for a list of forks")
        return await asyncio.to_thread(_overview, self._sessions.fork_files, source, rows)

    async def merge(
        self, who: Identity, session_id: SessionId, request: MergeRequest
    ) -> MergeReport:
        """Merge the changes of a fork into the session that was forked (three-way merge)."""
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
        async with self._merge_locks[target_id]:
            upload = _MergeUpload(self._sessions.fork_files, fork, request)
            name = fork.spec.name or fork.id
            async with self._announce_to_windows(target, f"fork {name}", request):
                answer = await client.merge(
                    upload.lines(), title=f"Merge the fork {name}", dry_run=request.dry_run
                )
            if len(answer.results) != len(upload.sent):
                raise InvalidRequest(
                    f"Session {target_id} did not answer for every path of the merge"
                )
            if not request.dry_run:
                await asyncio.to_thread(upload.record_merged, answer.results)
                await self._sessions.audit_merge(who, fork, target, len(answer.results))
        results = sorted((*answer.results, *upload.problems), key=lambda each: each.path)
        return MergeReport(target, results, answer.checkpoint)

    @asynccontextmanager
    async def _announce_to_windows(
        self, target: SessionRow, agent: str, request: MergeRequest
    ) -> AsyncIterator[None]:
        """Announce the merge in this block to windows that show the target session: they list its
        changes as changes of `agent`.

        `agent` starts with `fork`, because a fork and an agent could have the same name.
        """
        if request.dry_run:
            yield
            return
        identity = await asyncio.to_thread(self._sessions.fork_files.folder_identity, target)
        merge_target = MergeTarget(session_id=target.id, owner=target.owner, folder=identity)
        async with self._sessions.windows.merges.announced(merge_target, agent):
            yield

    def _fork(self, who: Identity, session_id: SessionId) -> SessionRow:
        row = self._sessions.get(who, session_id)
        if row.spec.workspace.kind != "fork":
            raise InvalidRequest(
                f"Session {session_id} is not a fork, so there is no session to merge it into"
            )
        if not row.is_filled or row.is_being_removed:
            raise invalid_state(row.state, "be merged")
        return row

    def _names(self, who: Identity, start: str, count: int) -> Iterator[str]:
        """Names that no session has now. `create` refuses a name that is taken meanwhile."""
        taken = {row.spec.name for row in self._sessions.list(who)}
        number = 0
        for _ in range(count):
            number += 1
            while f"{start}-{number}" in taken:
                number += 1
            yield f"{start}-{number}"


class _MergeUpload:
    """Sends the changes of one merge, and records them afterwards."""

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
            stores_contents=not request.dry_run,
            into=request.into or "",
        )
        try:
            while (change := await asyncio.to_thread(next, changes, None)) is not None:
                if change.problem:
                    path = shown_path(change.change.path)
                    self.problems.append(
                        MergeResult(path=path, outcome="conflict", reason=change.problem)
                    )
                    continue
                yield await asyncio.to_thread(self._encode, change)
        finally:
            await asyncio.to_thread(changes.close)

    def _encode(self, fork_change: ForkChange) -> bytes:
        path = fork_change.change.path
        change = replace(fork_change.change, choice=self._request.choice(path))
        self.sent.append((path, fork_change.merged_version))
        return b"".join(encode_changes([change]))

    def record_merged(self, results: Sequence[MergeResult]) -> None:
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
    by_base: dict[str, Sequence[ChangedPath]] = {}
    for fork in forks:
        base = fork.row.spec.workspace.base
        if base not in by_base:
            by_base[base] = files.changed_since(source, fork.snapshot)
    first = by_base[forks[0].row.spec.workspace.base] if forks else ()
    return ForkOverview(source, first, forks, overlaps(source.id, by_base, forks))


def overlaps(
    source: SessionId, by_base: Mapping[str, Sequence[ChangedPath]], forks: Sequence[ForkSummary]
) -> Sequence[Overlap]:
    """Paths that two forks changed, or a fork and the source since that fork's snapshot.

    `by_base`: the changes of the source since each snapshot, by the id of the snapshot.
    """
    source_paths = {base: {change.path for change in changes} for base, changes in by_base.items()}
    by_path: dict[str, list[SessionId]] = defaultdict(list)
    for fork in forks:
        in_source = source_paths[fork.row.spec.workspace.base]
        for change in fork.changes:
            sessions = by_path[change.path]
            if change.path in in_source and source not in sessions:
                sessions.insert(0, source)
            sessions.append(fork.row.id)
    return [Overlap(path, by_path[path]) for path in sorted(by_path) if len(by_path[path]) > 1]


def _is_listed(path: str, names: Sequence[str]) -> bool:
    return any(name in (path, ".") or path.startswith(f"{name}/") for name in names)
