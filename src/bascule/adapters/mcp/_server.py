"""The MCP server with all tools, independent of the transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import anyio
import jsonschema
from mcp import types
from mcp.server.lowlevel import Server

import bascule

from ._client import ClientState
from ._progress import ProgressReporter
from ._results import ToolResult
from ._targets import ToolTargets
from ._tool import Arguments, Tool, schema_of
from ._tools import TOOLS

MakeTargets = Callable[[Any], ToolTargets]
"""Makes the targets of a client from its first request, which is None over stdio."""

ActingFor = Callable[[Any], AbstractContextManager[None]]
"""A context in which a tool runs for a given request of its transport."""

_INSTRUCTIONS: Final = (
    "Tools to work on a project: a persistent bash, files, search and Python, in a sandbox or in "
    "the user's VS Code window. Paths may be relative to the workspace folder. Long answers are "
    "cut, with a note on how to read the rest."
)

_TEXT: Final = {"type": "string"}


@dataclass(slots=True)
class McpConnection:
    """State of a client's connection; its `ClientState` is created by the first request."""

    state: ClientState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool of the server itself, which runs no action."""

    tool: types.Tool
    do: Callable[[ClientState, Arguments], Awaitable[ToolResult]]
    is_offered: Callable[[ToolTargets], bool] = lambda _: True


def make_server(
    make_targets: MakeTargets, *, acting_for: ActingFor = lambda _: nullcontext()
) -> Server[McpConnection, Any]:
    """A server for any number of clients, each with its own `ClientState`."""
    server: Server[McpConnection, Any] = Server(
        "bascule", version=bascule.__version__, instructions=_INSTRUCTIONS, lifespan=_lifespan
    )

    async def client_state() -> ClientState:
        context = server.request_context
        connection = context.lifespan_context
        if connection.state is None:
            connection.state = ClientState(make_targets(context.request))
        return connection.state

    async def list_tools() -> list[types.Tool]:
        client = await client_state()
        supported = await client.capabilities()
        tools = [
            _as_mcp_tool(each) for each in TOOLS if supported is None or each.kind.kind in supported
        ]
        return tools + [
            each.tool for each in _SERVER_TOOLS.values() if each.is_offered(client.targets)
        ]

    async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        client = await client_state()
        with acting_for(server.request_context.request):
            answer = await _call(client, name, arguments, server)
        return _result(client, answer)

    server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
    server.call_tool(validate_input=False)(call_tool)
    return server


@asynccontextmanager
async def _lifespan(_: Server[McpConnection, Any]) -> AsyncIterator[McpConnection]:
    connection = McpConnection()
    try:
        yield connection
    finally:
        if connection.state is not None:
            # The connection ends by cancellation. With the shield, the state is closed
            # nevertheless.
            with anyio.CancelScope(shield=True):
                await connection.state.aclose()


async def _call(
    client: ClientState, name: str, arguments: dict[str, Any], server: Server[McpConnection, Any]
) -> ToolResult:
    tool, server_tool = _TOOLS.get(name), _SERVER_TOOLS.get(name)
    if tool is None and server_tool is None:
        return _invalid_arguments(f"There is no tool {name!r}")
    schema = (
        tool.schema
        if tool is not None
        else server_tool.tool.inputSchema
        if server_tool is not None
        else {}
    )
    if complaint := _argument_error(schema, arguments):
        return _invalid_arguments(f"The arguments of {name} are wrong: {complaint}")
    if tool is None:
        assert server_tool is not None
        return await server_tool.do(client, arguments)
    context = server.request_context
    token = context.meta.progressToken if context.meta is not None else None
    if token is None:
        return await client.do(tool, arguments, None)
    async with ProgressReporter(context.session, token, str(context.request_id)) as reporter:
        return await client.do(tool, arguments, reporter.add)


def _argument_error(schema: Mapping[str, Any], arguments: Arguments) -> str:
    validator = jsonschema.Draft202012Validator(schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(arguments))
    if error is None:
        return ""
    where = ".".join(str(each) for each in error.absolute_path)
    return f"{where}: {error.message}" if where else error.message


def _invalid_arguments(message: str) -> ToolResult:
    facts = {"code": "action.invalid", "message": message}
    return ToolResult(text=message, note="[action.invalid]", facts=facts, is_error=True)


def _result(client: ClientState, answer: ToolResult) -> types.CallToolResult:
    text = client.pages.fit(answer.text, with_tail=answer.with_tail)
    if answer.note:
        text = "\n".join(filter(None, (text.rstrip("\n"), answer.note)))
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    content += [picture for url in answer.pictures if (picture := _picture(url)) is not None]
    return types.CallToolResult(
        content=content, structuredContent=answer.facts, isError=answer.is_error
    )


def _picture(url: str) -> types.ImageContent | None:
    head, _, data = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        return None
    kind = head.removeprefix("data:").removesuffix(";base64")
    return types.ImageContent(type="image", data=data, mimeType=kind)


def _as_mcp_tool(tool: Tool) -> types.Tool:
    is_reader = tool.effect == "reads"
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        inputSchema=tool.schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            readOnlyHint=is_reader,
            destructiveHint=tool.effect == "changes",
            idempotentHint=is_reader,
            openWorldHint=tool.is_open_world,
        ),
    )


def _tool(name: str, title: str, description: str, properties: Mapping[str, Any]) -> types.Tool:
    """A tool of the server itself. All arguments are required. The tool changes nothing, except
    the runtime in which later tools act."""
    return types.Tool(
        name=name,
        title=title,
        description=description,
        inputSchema=schema_of(properties, tuple(properties)),
        annotations=types.ToolAnnotations(
            title=title,
            readOnlyHint=True,
            destructiveHint=False,
            idempotentHint=True,
            openWorldHint=False,
        ),
    )


_TOOLS: Final = {each.name: each for each in TOOLS}
_SERVER_TOOLS: Final = {
    each.tool.name: each
    for each in (
        ServerTool(
            tool=_tool(
                "read_more",
                "Read more of a long answer",
                "The next part of an answer that was cut, from `offset` on. The note in the "
                "answer has the values of the arguments.",
                {"answer": _TEXT, "offset": {"type": "integer", "minimum": 0}},
            ),
            do=ClientState.read_more,
        ),
        ServerTool(
            tool=_tool(
                "list_windows",
                "VS Code windows",
                "The VS Code windows that are connected to the hub: id, name, folders, status.",
                {},
            ),
            do=ClientState.list_windows,
            is_offered=lambda targets: targets.has_windows,
        ),
        ServerTool(
            tool=_tool(
                "use_window",
                "Work in a window",
                "Let all tools act in this VS Code window from now on. Required if there are "
                "several windows.",
                {"window": {**_TEXT, "description": "Its id, a path in its folder, or its name"}},
            ),
            do=ClientState.use_window,
            is_offered=lambda targets: targets.has_windows,
        ),
        ServerTool(
            tool=_tool(
                "list_sessions", "Sessions", "The sessions of the hub: id, name, state.", {}
            ),
            do=ClientState.list_sessions,
            is_offered=lambda targets: targets.has_sessions,
        ),
        ServerTool(
            tool=_tool(
                "use_session",
                "Work in a session",
                "Let all tools act in this session's sandbox from now on. A stopped session is "
                "started first.",
                {"session": {**_TEXT, "description": "Its id or its name"}},
            ),
            do=ClientState.use_session,
            is_offered=lambda targets: targets.has_sessions,
        ),
    )
}
