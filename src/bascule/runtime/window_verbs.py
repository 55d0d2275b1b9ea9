"""Convenience methods for actions that only a VS Code window can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bascule.core.editor_actions import (
    AskUser,
    OpenFile,
    Selection,
    ShowDiff,
    VscodeCommand,
)
from bascule.core.editor_observations import (
    DiffShown,
    FileOpened,
    Selected,
    UserAnswered,
    VscodeCommandDone,
)

from .agent_test_verbs import AgentTestVerbs
from .debug_verbs import DebugVerbs
from .git_verbs import GitVerbs
from .language_verbs import LanguageVerbs
from .notebook_verbs import NotebookVerbs
from .task_verbs import TaskVerbs
from .view_verbs import ViewVerbs


class WindowVerbs(
    LanguageVerbs, DebugVerbs, AgentTestVerbs, NotebookVerbs, TaskVerbs, GitVerbs, ViewVerbs
):
    """`Verbs`, and methods that need an editor and its user."""

    async def selection(self) -> Selected:
        """The user's selection in the active editor."""
        return await self._do(Selection(), Selected)

    async def open_file(
        self,
        path: str,
        *,
        line: int | None = None,
        column: int | None = None,
        preview: bool = True,
    ) -> FileOpened:
        """Show a file to the user, at a line."""
        action = OpenFile(path, line=line, column=column, preview=preview)
        return await self._do(action, FileOpened)

    async def show_diff(self, path: str, content: str, *, title: str = "") -> DiffShown:
        """Show the user a diff from the current to a proposed content of a file."""
        return await self._do(ShowDiff(path, content, title=title), DiffShown)

    async def ask_user(
        self,
        question: str,
        *,
        options: Sequence[str] = (),
        default: str = "",
        timeout: float | None = None,
    ) -> UserAnswered:
        """Ask the user for free text, or to choose one of `options`. The answer is in `content` of
        the observation."""
        action = AskUser(question, options=options, default=default, timeout=timeout)
        return await self._do(action, UserAnswered)

    async def vscode_command(self, command: str, *arguments: Any) -> VscodeCommandDone:
        """Run a VS Code command by id, if the window's user allows it.

        Arguments are JSON. An argument such as `{"$uri": path}` becomes a VS Code object, here a
        `Uri`. The others are `{"$position": [line, character]}`, `{"$range": […]}`,
        `{"$selection": […]}` and `{"$location": {"uri": …, "range": […]}}`. In the result, such VS
        Code objects become the same JSON. Lines count from 0.
        """
        return await self._do(VscodeCommand(command, arguments), VscodeCommandDone)
