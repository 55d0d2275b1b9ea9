"""The description of a tool that needs a VS Code window, as data: for MCP and for OpenHands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bascule.core.actions import Action

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorTool:
    """One tool: the description that a model sees, and the action that it runs."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Any]
    required: Sequence[str]
    kind: type[Action]
    action: Callable[[Arguments], Action]
    changes_files: bool = False
