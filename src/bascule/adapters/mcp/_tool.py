"""The description of a tool: what a model sees, and the action that it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bascule.core.actions import Action

Arguments = Mapping[str, Any]
Effect = Literal["reads", "adds", "changes"]
"""reads: changes nothing. adds: shows or starts something, but destroys nothing. changes: may
change or remove something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. A runtime offers the tool if it supports the action `kind`."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Any]
    required: Sequence[str] = ()
    effect: Effect
    kind: type[Action]
    action: Callable[[Arguments], Action]
    is_open_world: bool = False
    reword_error: Callable[[str], str] = str
    """Rewords a runtime's error message in terms of this tool's arguments."""

    @property
    def schema(self) -> dict[str, Any]:
        return schema_of(self.properties, self.required)


def schema_of(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """A JSON Schema that refuses unknown arguments, so that misspelt arguments are not ignored."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
