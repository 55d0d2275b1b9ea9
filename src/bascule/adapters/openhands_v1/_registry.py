"""Registers the tools with OpenHands and chooses the runtime in which the tools act."""

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

# After the imports above: OpenHands' own tools register themselves when they are imported, and the
# last registration of a name wins.
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
    """Choose where new conversations act: in a sandbox, a VS Code window or a session.

    A sandbox runs on this machine, in the conversation's workspace. Windows and sessions need a
    `hub` and a `token`. `window` is an id, name or folder; `session` is an id. The defaults are
    BASCULE_HUB, BASCULE_TOKEN, BASCULE_WINDOW and BASCULE_SESSION. "auto" is a session if one is
    named, a window if only a hub is named, and otherwise a sandbox. `soft_timeout`
    is the number of seconds without output after which the terminal of a sandbox returns; windows
    and sessions have their own setting. Returns the tools for an `Agent`.
    """
    CONVERSATION_RUNTIMES.choice = RuntimeChoice(place, hub, token, window, session, soft_timeout)
    return [Tool(name=tool.name) for tool in _TOOLS]
