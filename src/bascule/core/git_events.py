"""Actions on git repositories through the git extension of an editor window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action
from .event_class import event_class
from .observations import Observation


@event_class()
class GetGitStatus(Action):
    """Which files are staged, changed, untracked or in conflict, and where the branch is."""

    kind: ClassVar[str] = "git_status"

    repository: str = ""
    """Name or path of the repository, if the window has several."""
    thought: str = ""


@event_class()
class GetGitDiff(Action):
    """The difference of the files to the index, or with `staged` of the index to the commit."""

    kind: ClassVar[str] = "git_diff"

    path: str | None = None
    """Only this file or directory."""
    staged: bool = False
    repository: str = ""
    offset: int = 0
    """How many lines to skip, to read the next part of a long difference."""
    limit: int = 1000
    """Maximum number of lines in the answer."""
    thought: str = ""


@event_class()
class GitStage(Action):
    """Add changes of files to the index, for the next commit."""

    kind: ClassVar[str] = "git_stage"

    paths: Sequence[str]
    """Files or directories with changes."""
    repository: str = ""
    thought: str = ""


@event_class()
class GitUnstage(Action):
    """Take changes of files out of the index. The files stay as they are."""

    kind: ClassVar[str] = "git_unstage"

    paths: Sequence[str]
    """Files or directories with staged changes."""
    repository: str = ""
    thought: str = ""


@event_class()
class GitCommit(Action):
    """Commit what is staged. The hooks of the repository run."""

    kind: ClassVar[str] = "git_commit"

    commit_message: str
    repository: str = ""
    thought: str = ""


@event_class(kw_only=True)
class GitStatus(Observation):
    """The state of a repository, after the action. `content` has one line for each change."""

    kind: ClassVar[str] = "git_status"

    repository: str
    """Its root directory."""
    branch: str | None = None
    """None: no branch is checked out."""
    commit: str | None = None
    """None: there is no commit yet."""
    upstream: str | None = None
    ahead: int = 0
    behind: int = 0
    items: Sequence[Mapping[str, Any]] = ()
    """Each: path, group (`staged`, `changed`, `untracked` or `conflict`), change (`modified`,
    `added`, `deleted`, `renamed`, …), old_path (of a rename, or None)."""
    total: int = 0
    truncated: bool = False


@event_class(kw_only=True)
class GitDiff(Observation):
    """A difference. `content` is a part of it, in the format of `git diff`."""

    kind: ClassVar[str] = "git_diff"

    repository: str
    files: Sequence[str] = ()
    """The files of the whole difference."""
    total: int = 0
    """Number of lines of the whole difference."""
    truncated: bool = False


GIT_ACTIONS: Sequence[type[Action]] = (GetGitStatus, GetGitDiff, GitStage, GitUnstage, GitCommit)
GIT_OBSERVATIONS: Sequence[type[Observation]] = (GitStatus, GitDiff)
