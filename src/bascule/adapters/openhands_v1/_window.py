"""`vscode`: tools that need an editor with a user.

These tools have the form of MCP tools, which every OpenHands client knows. So a client on another
machine can read the conversation without Bascule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import mcp.types
from openhands.sdk.mcp.definition import MCPToolAction, MCPToolObservation
from openhands.sdk.mcp.tool import MCPToolDefinition
from openhands.sdk.tool import ToolAnnotations, ToolDefinition

from bascule.adapters.agent_test_tools import AGENT_TEST_TOOLS
from bascule.adapters.debug_tools import DEBUG_TOOLS
from bascule.adapters.editor_tool import EditorTool
from bascule.adapters.git_tools import GIT_TOOLS
from bascule.adapters.language_tools import LANGUAGE_TOOLS
from bascule.adapters.notebook_tools import NOTEBOOK_TOOLS
from bascule.adapters.task_tools import TASK_TOOLS
from bascule.adapters.view_tools import VIEW_TOOLS
from bascule.core.actions import Action
from bascule.core.editor_actions import AskUser, Diagnostics, OpenFile, ShowDiff
from bascule.core.editor_observations import DiffShown, UserAnswered, VscodeCommandDone
from bascule.core.observations import Observation
from bascule.wire import to_json

from ._conversation_runtime import ConversationRuntime, RuntimeHold, hold
from ._executor import RuntimeExecutor, failure

if TYPE_CHECKING:
    from openhands.sdk.conversation import LocalConversation

Arguments = Mapping[str, Any]

_PATH: Final = {"type": "string", "description": "Absolute, or relative to the working directory"}


@dataclass(frozen=True, slots=True)
class _WindowTool:
    """One tool: the description that a model sees, and the action that the tool runs."""

    name: str
    kind: type[Action]
    description: str
    properties: Mapping[str, Any]
    required: Sequence[str]
    action: Callable[[ConversationRuntime, Arguments], Action]
    is_read_only: bool = False


def _diagnostics(runtime: ConversationRuntime, arguments: Arguments) -> Action:
    path = arguments.get("path")
    return Diagnostics(
        runtime.path(path) if path else None,
        severity=arguments.get("severity", "hint"),
        settle=arguments.get("settle", True),
    )


def _open_file(runtime: ConversationRuntime, arguments: Arguments) -> Action:
    return OpenFile(runtime.path(arguments["path"]), line=arguments.get("line"))


def _show_diff(runtime: ConversationRuntime, arguments: Arguments) -> Action:
    return ShowDiff(
        runtime.path(arguments["path"]), arguments["content"], title=arguments.get("title", "")
    )


def _ask_user(_runtime: ConversationRuntime, arguments: Arguments) -> Action:
    return AskUser(arguments["question"], options=tuple(arguments.get("options") or ()))


def _editor_tool(tool: EditorTool) -> _WindowTool:
    def action(runtime: ConversationRuntime, arguments: Arguments) -> Action:
        path = arguments.get("path")
        return tool.action({**arguments, "path": runtime.path(path)} if path else arguments)

    name = tool.name.removeprefix("vscode_")
    return _WindowTool(
        f"vscode_{name}",
        tool.kind,
        tool.description,
        tool.properties,
        tool.required,
        action,
        is_read_only=not tool.changes_files,
    )


_TOOLS: Final = (
    *map(_editor_tool, (*LANGUAGE_TOOLS, *DEBUG_TOOLS, *AGENT_TEST_TOOLS, *NOTEBOOK_TOOLS)),
    *map(_editor_tool, (*TASK_TOOLS, *GIT_TOOLS, *VIEW_TOOLS)),
    _WindowTool(
        "vscode_diagnostics",
        Diagnostics,
        "Errors and warnings from the language servers of the user's VS Code or the sandbox. "
        "Call this after an edit, before running anything.",
        {
            "path": {**_PATH, "description": "One file; without it, all files that are checked"},
            "severity": {
                "type": "string",
                "enum": ["error", "warning", "information", "hint"],
                "description": "Return problems of this severity and above; by default all",
            },
            "settle": {
                "type": "boolean",
                "default": True,
                "description": "Wait until the text after the last edit is checked",
            },
        },
        (),
        _diagnostics,
        is_read_only=True,
    ),
    _WindowTool(
        "vscode_open",
        OpenFile,
        "Show the user a file in their VS Code window, at a line.",
        {"path": _PATH, "line": {"type": "integer", "description": "1-based"}},
        ("path",),
        _open_file,
    ),
    _WindowTool(
        "vscode_diff",
        ShowDiff,
        "Show the user a proposed content of a file beside the present one. Nothing is written.",
        {
            "path": _PATH,
            "content": {"type": "string", "description": "The whole file as proposed"},
            "title": {"type": "string", "description": "Title of the diff"},
        },
        ("path", "content"),
        _show_diff,
    ),
    _WindowTool(
        "vscode_ask",
        AskUser,
        "Ask the user a question in their VS Code window and wait for the answer. Use it for "
        "decisions that only the user can make.",
        {
            "question": {"type": "string"},
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Answers to choose from; without them the user writes freely",
            },
        },
        ("question",),
        _ask_user,
    ),
)


class WindowExecutor(RuntimeExecutor[MCPToolAction, MCPToolObservation]):
    def __init__(self, held: RuntimeHold, tool: _WindowTool) -> None:
        super().__init__(held)
        self._tool = tool

    def interrupt(self) -> None:
        self._runtime.cancel()

    def _do(
        self,
        action: MCPToolAction,
        conversation: LocalConversation | None,  # noqa: ARG002
    ) -> MCPToolObservation:
        seen = self._runtime.act(self._tool.action(self._runtime, action.data))
        why = failure(seen)
        return MCPToolObservation.from_text(
            why or _text_of(seen), is_error=bool(why), tool_name=self._tool.name
        )


class BasculeVscode(ToolDefinition[MCPToolAction, MCPToolObservation]):
    """Creates the tools that the runtime supports. A sandbox supports only those for language
    servers, if one is installed."""

    name = "vscode"
    catalog_description = (
        "Language features, debugger, tests, notebooks, files, diffs and questions of the user's "
        "VS Code."
    )

    @classmethod
    def create(cls, conv_state: Any) -> Sequence[MCPToolDefinition]:
        held = hold(conv_state)
        able = held.runtime.runtime.capabilities
        tools = [tool for tool in _TOOLS if tool.kind.kind in able]
        made = [_definition(tool, hold(conv_state)) for tool in tools]
        held.release()
        return made


def _definition(tool: _WindowTool, held: RuntimeHold) -> MCPToolDefinition:
    schema = {
        "type": "object",
        "properties": dict(tool.properties),
        "required": list(tool.required),
    }
    return MCPToolDefinition(
        description=tool.description,
        action_type=MCPToolAction,
        observation_type=MCPToolObservation,
        annotations=ToolAnnotations(
            title=tool.name,
            readOnlyHint=tool.is_read_only,
            destructiveHint=False,
            idempotentHint=tool.is_read_only,
            openWorldHint=False,
        ),
        mcp_tool=mcp.types.Tool(name=tool.name, description=tool.description, inputSchema=schema),
        executor=WindowExecutor(held, tool),
    )


def _text_of(seen: Observation) -> str:
    match seen:
        case UserAnswered(answered=False):
            return "The user closed the question without an answer"
        case DiffShown(outcome=outcome):
            return f"The diff of {seen.path} is {outcome}"
        case VscodeCommandDone():
            return to_json(seen.result).decode()
        case _:
            return "\n".join(filter(None, (seen.content or "Done", seen.note)))
