"""Tools for the git repositories of a VS Code window, as data: for MCP and OpenHands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bascule.core.git_events import GetGitDiff, GetGitStatus, GitCommit, GitStage, GitUnstage

from .editor_tool import EditorTool, count_property, text_property


def _paths(description: str) -> dict[str, Any]:
    items = {"type": "string"}
    return {"type": "array", "items": items, "minItems": 1, "description": description}


_REPOSITORY: Final = text_property("Name or path of the repository, if there are several")

GIT_TOOLS: Final[Sequence[EditorTool]] = (
    EditorTool.of_kind(
        GetGitStatus,
        "Git status",
        "Branch of a git repository of the user's VS Code, and the files that are staged, changed, "
        "untracked or in conflict.",
        {"repository": _REPOSITORY},
        changes=False,
    ),
    EditorTool.of_kind(
        GetGitDiff,
        "Git diff",
        "The changes that are not staged, or with `staged` those that are.",
        {
            "path": text_property("Only this file or directory"),
            "staged": {
                "type": "boolean",
                "default": False,
                "description": "What is staged for the next commit",
            },
            "repository": _REPOSITORY,
            "offset": count_property("Lines to skip, to read the next part of a long diff", 0),
            "limit": count_property("Maximum number of lines", default=1000),
        },
        changes=False,
    ),
    EditorTool.of_kind(
        GitStage,
        "Stage changes",
        "Stage the changes of files or directories for the next commit.",
        {"paths": _paths("Files or directories with changes"), "repository": _REPOSITORY},
        ("paths",),
    ),
    EditorTool.of_kind(
        GitUnstage,
        "Unstage changes",
        "Take changes out of the next commit. The files stay as they are.",
        {"paths": _paths("Files or directories with staged changes"), "repository": _REPOSITORY},
        ("paths",),
    ),
    EditorTool.of_kind(
        GitCommit,
        "Commit",
        "Commit what is staged. The hooks of the repository run.",
        {"commit_message": text_property("The whole message"), "repository": _REPOSITORY},
        ("commit_message",),
    ),
)
