"""Tools that look at a VS Code window, as data: for MCP and OpenHands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bascule.core.view_events import ListOpenEditors, ListPorts, TakeScreenshot

from .editor_tool import EditorTool

VIEW_TOOLS: Final[Sequence[EditorTool]] = (
    EditorTool.of_kind(
        ListOpenEditors,
        "Open editors",
        "The files that are open in the user's VS Code: which lines are visible, what is selected, "
        "and which have unsaved changes.",
        {},
        changes=False,
    ),
    EditorTool.of_kind(
        ListPorts,
        "Ports in use",
        "The ports on which programs listen, with their processes.",
        {},
        changes=False,
    ),
    EditorTool.of_kind(
        TakeScreenshot,
        "Picture of the window",
        "A picture of the session's VS Code window.",
        {},
        changes=False,
    ),
)
