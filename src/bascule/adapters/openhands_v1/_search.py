"""`glob` and `grep`: OpenHands' schemas over the search of Bascule or of a VS Code window."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from openhands.sdk.tool import ToolAnnotations
from openhands.tools.glob.definition import GlobAction, GlobObservation, GlobTool
from openhands.tools.grep.definition import GrepAction, GrepObservation, GrepTool

from bascule.core.actions import Glob, Grep
from bascule.core.observations import GlobResult, GrepMatch, GrepResult

from ._conversation_runtime import RuntimeHold, hold
from ._executor import RuntimeExecutor, failure

if TYPE_CHECKING:
    from openhands.sdk.conversation import LocalConversation

_MAX_FILES: Final = 100
_MAX_LINES: Final = 2000
"""Maximum lines to request. Usually enough to include a hundred files."""
_MAX_SHOWN: Final = 200
_MAX_LINE_CHARACTERS: Final = 300

_GLOB: Final = """Find files by name.
* Patterns such as "**/*.py" or "src/**/*.{ts,tsx}"; one without a slash matches at any depth
* Newest first, at most 100; files that git ignores are left out"""

_GREP: Final = """Find lines in files by regular expression, ignoring case.
* Answers with path:line:text, file by file; files that git ignores and binary ones are left out
* Restrict the search with `path`, and with `include` to names such as "*.py" or "*.{ts,tsx}\""""


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
        seen = self._runtime.act(Glob(pattern, path, limit=_MAX_FILES))
        if (why := failure(seen)) or not isinstance(seen, GlobResult):
            return _glob_observation(action, path, why or seen.content, is_error=True)
        return _glob_observation(
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
            Grep(
                action.pattern,
                path,
                include=action.include or "",
                ignore_case=True,
                limit=_MAX_LINES,
            )
        )
        if (why := failure(seen)) or not isinstance(seen, GrepResult):
            return _grep_observation(action, path, why or seen.content, is_error=True)
        files = list(dict.fromkeys(match.path for match in seen.matches))
        return _grep_observation(
            action,
            path,
            _lines(seen) if files else seen.content,
            matches=files[:_MAX_FILES],
            truncated=seen.truncated or len(files) > _MAX_FILES or len(seen.matches) > _MAX_SHOWN,
        )


class BasculeGlob(GlobTool):
    """Creates OpenHands' own `glob` with our executor."""

    name = "glob"

    @classmethod
    def create(cls, conv_state: Any) -> Sequence[GlobTool]:
        held = hold(conv_state)
        types = {"action_type": GlobAction, "observation_type": GlobObservation}
        return [GlobTool(**_definition("glob", _GLOB, held), **types, executor=GlobExecutor(held))]


class BasculeGrep(GrepTool):
    """Creates OpenHands' own `grep` with our executor."""

    name = "grep"

    @classmethod
    def create(cls, conv_state: Any) -> Sequence[GrepTool]:
        held = hold(conv_state)
        types = {"action_type": GrepAction, "observation_type": GrepObservation}
        return [GrepTool(**_definition("grep", _GREP, held), **types, executor=GrepExecutor(held))]


def _definition(title: str, about: str, held: RuntimeHold) -> dict[str, Any]:
    return {
        "description": f"{about}\n* The working directory is {held.runtime.working_dir}",
        "annotations": ToolAnnotations(
            title=title,
            readOnlyHint=True,
            destructiveHint=False,
            idempotentHint=True,
            openWorldHint=False,
        ),
    }


def split(pattern: str) -> tuple[str, str]:
    """Split an absolute pattern into its fixed directory and the pattern below it."""
    if not pattern.startswith("/"):
        return "", pattern
    special = re.search(r"[*?\[{]", pattern)
    end = pattern.rfind("/", 0, special.start() if special else None)
    return pattern[:end] or "/", pattern[end + 1 :]


def _lines(seen: GrepResult) -> str:
    lines = [_line(match) for match in seen.matches[:_MAX_SHOWN]]
    if seen.truncated or len(seen.matches) > _MAX_SHOWN:
        lines.append(f"[There are more than these {len(lines)} lines; narrow the search]")
    return "\n".join(lines)


def _line(match: GrepMatch) -> str:
    text = (
        match.text
        if len(match.text) <= _MAX_LINE_CHARACTERS
        else match.text[:_MAX_LINE_CHARACTERS] + "…"
    )
    return f"{match.path}:{match.line}:{text}"


def _glob_observation(
    action: GlobAction, path: str, text: str, *, is_error: bool = False, **fields: Any
) -> GlobObservation:
    found = {"files": [], "pattern": action.pattern, "search_path": path, **fields}
    return GlobObservation.from_text(text, is_error=is_error, **found)


def _grep_observation(
    action: GrepAction, path: str, text: str, *, is_error: bool = False, **fields: Any
) -> GrepObservation:
    found = {"matches": [], "pattern": action.pattern, "search_path": path, **fields}
    return GrepObservation.from_text(
        text, is_error=is_error, include_pattern=action.include, **found
    )
