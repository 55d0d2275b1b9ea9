"""Registers the tools with OpenHands and chooses the runtime they act in."""

from __future__ import annotations

from openhands.sdk import Tool
from openhands.sdk.tool import ToolDefinition, register_tool

from ._conversation_runtime import CONVERSATION_RUNTIMES, SOFT_TIMEOUT, PlaceName, RuntimeChoice
from ._editor import BasculeFileEditor
from ._search import BasculeGlob, BasculeGrep
from ._terminal import BasculeTerminal
from ._window import BasculeVscode

_TOOLS: tuple[type[ToolDefinition], ...] = (
    BasculeTerminal,
    BasculeFileEditor,
    BasculeGlob,
    BasculeGrep,
    BasculeVscode,
)

# The modules above imported OpenHands' own definitions, which register themselves: ours come last.
for _tool in _TOOLS:
    register_tool(_tool.name, _tool)


def use_bascule(
    place: PlaceName = "auto",
    *,
    hub: str = "",
    token: str = "",
    window: str = "",
    session: str = "",
    soft_timeout: float = SOFT_TIMEOUT,
) -> list[Tool]:
    """Have conversations that start from now on act in a sandbox, a VS Code window or a session.

    The sandbox is this machine, in the conversation's workspace. The others are reached through a
    `hub` with a `token`: a window is picked by its id, name or folder, a session by its id. What
    is not given comes from BASCULE_HUB, BASCULE_TOKEN, BASCULE_WINDOW and BASCULE_SESSION, and
    "auto" is a session when one is named, and else a window when there is a hub. `soft_timeout` is
    for a sandbox; a window has a setting of its own. Returns the tools to give to an `Agent`.
    """
    CONVERSATION_RUNTIMES.choice = RuntimeChoice(place, hub, token, window, session, soft_timeout)
    return [Tool(name=tool.name) for tool in _TOOLS]
