"""The git repositories of a VS Code window for synchronous code."""

from __future__ import annotations

from collections.abc import Sequence

from bascule.core.git_events import GitDiff, GitStatus

from .git_verbs import GitVerbs
from .sync import SyncRuntime


class SyncGit(SyncRuntime):
    """`SyncRuntime` with the methods of `GitVerbs`."""

    _window: GitVerbs

    def git_status(self, *, repository: str = "") -> GitStatus:
        return self._wait(self._window.git_status(repository=repository))

    def git_diff(
        self,
        path: str | None = None,
        *,
        staged: bool = False,
        repository: str = "",
        offset: int = 0,
        limit: int = 1000,
    ) -> GitDiff:
        return self._wait(
            self._window.git_diff(
                path, staged=staged, repository=repository, offset=offset, limit=limit
            )
        )

    def git_stage(
        self, paths: Sequence[str], *, repository: str = "", timeout: float | None = None
    ) -> GitStatus:
        return self._wait(self._window.git_stage(paths, repository=repository, timeout=timeout))

    def git_unstage(
        self, paths: Sequence[str], *, repository: str = "", timeout: float | None = None
    ) -> GitStatus:
        return self._wait(self._window.git_unstage(paths, repository=repository, timeout=timeout))

    def git_commit(
        self, commit_message: str, *, repository: str = "", timeout: float | None = None
    ) -> GitStatus:
        return self._wait(
            self._window.git_commit(commit_message, repository=repository, timeout=timeout)
        )
