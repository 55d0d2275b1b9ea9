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

    @classmethod
    def of_kind(
        cls,
        kind: type[Action],
        title: str,
        description: str,
        properties: Mapping[str, Any],
        required: Sequence[str] = (),
        *,
        changes: bool = True,
    ) -> EditorTool:
        """A tool with the name of its kind of action, whose arguments are the action's fields."""

        def action(arguments: Arguments) -> Action:
            return kind(**arguments)

        return cls(
            name=kind.kind,
            title=title,
            description=description,
            properties=properties,
            required=required,
            kind=kind,
            action=action,
            changes_files=changes,
        )


def text_property(description: str) -> dict[str, Any]:
    """The JSON Schema of a string argument."""
    return {"type": "string", "description": description}


def count_property(description: str, minimum: int = 1, **more: Any) -> dict[str, Any]:
    """The JSON Schema of an integer argument."""
    return {"type": "integer", "minimum": minimum, "description": description, **more}
