"""`glob` and `grep`: OpenHands' schemas over our search, or that of a VS Code window."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from openhands.sdk.tool import ToolAnnotations
from openhands.tools.glob.definition import GlobAction, GlobObservation, GlobTool
from openhands.tools.grep.definition import GrepAction, GrepObservation, GrepTool

from bascule.core.actions import Glob, Grep
from bascule.core.observations import GlobResult, GrepMatch, GrepResult

from ._conversation_runtime import hold
from ._executor import RuntimeExecutor, failure

if TYPE_CHECKING:
    from openhands.sdk.conversation import LocalConversation

_FILES: Final = 100
_LINES: Final = 2000
"""Lines asked for, so that a hundred files are among them."""
_SHOWN: Final = 200
_WIDTH: Final = 300

_GLOB: Final = """Find files by name.
* Patterns such as "**/*.py" or "src/**/*.{ts,tsx}"; one without a slash fits at any depth
* Newest first, at most 100; files that git ignores are left out"""

_GREP: Final = """Find lines in files by regular expression, whatever their case.
* Answers with path:line:text, file by file; files that git ignores and binary ones are left out
* Narrow it with `path`, and with `include` for names such as "*.py" or "*.{ts,tsx}\""""


class GlobExecutor(RuntimeExecutor[GlobAction, GlobObservation]):
    def _do(
        self,
        action: GlobAction,
        conversation: LocalConversation | None,  # noqa: ARG002
    ) -> GlobObservation:
        directory, pattern = split(action.pattern) if action.path is None else ("", action.pattern)
        path = self._runtime.path(action.path or directory)
        if "/" not in pattern:
            pattern = f"**/{pattern}"
        seen = self._runtime.act(Glob(pattern, path, limit=_FILES))
        if (why := failure(seen)) or not isinstance(seen, GlobResult):
            return _glob_told(action, path, why or seen.content, is_error=True)
        return _glob_told(
            action, path, seen.content, files=list(seen.paths), truncated=seen.truncated
        )


class GrepExecutor(RuntimeExecutor[GrepAction, GrepObservation]):
    def _do(
        self,
        action: GrepAction,
        conversation: LocalConversation | None,  # noqa: ARG002
    ) -> GrepObservation:
        path = self._runtime.path(action.path or "")
        seen = self._runtime.act(
            Grep(action.pattern, path, include=action.include or "", ignore_case=True, limit=_LINES)
        )
        if (why := failure(seen)) or not isinstance(seen, GrepResult):
            return _grep_told(action, path, why or seen.content, is_error=True)
        files = list(dict.fromkeys(match.path for match in seen.matches))
        return _grep_told(
            action,
            path,
            _lines(seen) if files else seen.content,
            matches=files[:_FILES],
            truncated=seen.truncated or len(files) > _FILES or len(seen.matches) > _SHOWN,
        )


class BasculeGlob(GlobTool):
    """Makes OpenHands' own `glob` with our executor in it."""

    name = "glob"

    @classmethod
    def create(cls, conv_state: Any) -> Sequence[GlobTool]:
        held = hold(conv_state)
        tool = GlobTool(
            description=f"{_GLOB}\n* The working directory is {held.runtime.working_dir}",
            action_type=GlobAction,
            observation_type=GlobObservation,
            annotations=_looks_only("glob"),
            executor=GlobExecutor(held),
        )
        return [tool]


class BasculeGrep(GrepTool):
    """Makes OpenHands' own `grep` with our executor in it."""

    name = "grep"

    @classmethod
    def create(cls, conv_state: Any) -> Sequence[GrepTool]:
        held = hold(conv_state)
        tool = GrepTool(
            description=f"{_GREP}\n* The working directory is {held.runtime.working_dir}",
            action_type=GrepAction,
            observation_type=GrepObservation,
            annotations=_looks_only("grep"),
            executor=GrepExecutor(held),
        )
        return [tool]


def split(pattern: str) -> tuple[str, str]:
    """An absolute pattern as the directory it names and the pattern below that."""
    if not pattern.startswith("/"):
        return "", pattern
    special = re.search(r"[*?\[{]", pattern)
    end = pattern.rfind("/", 0, special.start() if special else None)
    return pattern[:end] or "/", pattern[end + 1 :]


def _lines(seen: GrepResult) -> str:
    lines = [_line(match) for match in seen.matches[:_SHOWN]]
    if seen.truncated or len(seen.matches) > _SHOWN:
        lines.append(f"[There is more than these {len(lines)} lines; narrow the search]")
    return "\n".join(lines)


def _line(match: GrepMatch) -> str:
    text = match.text if len(match.text) <= _WIDTH else match.text[:_WIDTH] + "…"
    return f"{match.path}:{match.line}:{text}"


def _glob_told(
    action: GlobAction, path: str, text: str, *, is_error: bool = False, **fields: Any
) -> GlobObservation:
    found = {"files": [], "pattern": action.pattern, "search_path": path, **fields}
    return GlobObservation.from_text(text, is_error=is_error, **found)


def _grep_told(
    action: GrepAction, path: str, text: str, *, is_error: bool = False, **fields: Any
) -> GrepObservation:
    found = {"matches": [], "pattern": action.pattern, "search_path": path, **fields}
    return GrepObservation.from_text(
        text, is_error=is_error, include_pattern=action.include, **found
    )


def _looks_only(title: str) -> ToolAnnotations:
    return ToolAnnotations(
        title=title,
        readOnlyHint=True,
        destructiveHint=False,
        idempotentHint=True,
        openWorldHint=False,
    )
