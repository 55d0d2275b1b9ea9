"""Convenience methods for the git repositories of a VS Code window."""

from __future__ import annotations

from collections.abc import Sequence

from bascule.core.git_events import (
    GetGitDiff,
    GetGitStatus,
    GitCommit,
    GitDiff,
    GitStage,
    GitStatus,
    GitUnstage,
)

from .verbs import Verbs


class GitVerbs(Verbs):
    """`Verbs`, and methods for source control through VS Code's git extension.

    `repository` is a name or path, if the window has several repositories.
    """

    async def git_status(self, *, repository: str = "") -> GitStatus:
        """The branch, and the files that are staged, changed, untracked or in conflict."""
        return await self._do(GetGitStatus(repository), GitStatus)

    async def git_diff(
        self,
        path: str | None = None,
        *,
        staged: bool = False,
        repository: str = "",
        offset: int = 0,
        limit: int = 1000,
    ) -> GitDiff:
        """What is not staged, or with `staged` what is. `offset` and `limit` count lines."""
        return await self._do(GetGitDiff(path, staged, repository, offset, limit), GitDiff)

    async def git_stage(
        self, paths: Sequence[str], *, repository: str = "", timeout: float | None = None
    ) -> GitStatus:
        """Add changes of files or directories to the index."""
        return await self._do(GitStage(paths, repository, timeout=timeout), GitStatus)

    async def git_unstage(
        self, paths: Sequence[str], *, repository: str = "", timeout: float | None = None
    ) -> GitStatus:
        """Take changes out of the index. The files stay as they are."""
        return await self._do(GitUnstage(paths, repository, timeout=timeout), GitStatus)

    async def git_commit(
        self, commit_message: str, *, repository: str = "", timeout: float | None = None
    ) -> GitStatus:
        """Commit what is staged. The hooks of the repository run."""
        return await self._do(GitCommit(commit_message, repository, timeout=timeout), GitStatus)
