"""The MCP server with all tools, independent of the transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
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
from ._tools import TOOLS, Arguments, Tool, schema_of

MakeTargets = Callable[[Any], ToolTargets]
"""The targets of a client, known by its first request; None where there is just one client."""

_INSTRUCTIONS: Final = (
    "Tools to work on a project: a bash that remembers, files, search and Python, in a sandbox or "
    "in the user's VS Code window. Paths may be relative to the workspace folder. Long answers are "
    "cut and say how to read on."
)

_TEXT: Final = {"type": "string"}


@dataclass(slots=True)
class _Guest:
    """State of a client's connection; its `ClientState` is created by the first request."""

    state: ClientState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """A tool of the server itself, which runs no action."""

    tool: types.Tool
    do: Callable[[ClientState, Arguments], Awaitable[ToolResult]]
    is_there: Callable[[ToolTargets], bool] = lambda _: True


def make_server(make_targets: MakeTargets) -> Server[_Guest, Any]:
    """A server for any number of clients, each with a visit of its own."""
    server: Server[_Guest, Any] = Server(
        "bascule", version=bascule.__version__, instructions=_INSTRUCTIONS, lifespan=_hosting
    )

    async def client_state() -> ClientState:
        context = server.request_context
        guest = context.lifespan_context
        if guest.state is None:
            guest.state = ClientState(make_targets(context.request))
        return guest.state

    async def list_tools() -> list[types.Tool]:
        here = await client_state()
        able = await here.capabilities()
        tools = [_shown(each) for each in TOOLS if able is None or each.kind.kind in able]
        return tools + [each.tool for each in _OWN.values() if each.is_there(here.targets)]

    async def call_tool(name: str, given: dict[str, Any]) -> types.CallToolResult:
        here = await client_state()
        answer = await _call(here, name, given, server)
        return _result(here, answer)

    server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
    server.call_tool(validate_input=False)(call_tool)
    return server


@asynccontextmanager
async def _hosting(_: Server[_Guest, Any]) -> AsyncIterator[_Guest]:
    guest = _Guest()
    try:
        yield guest
    finally:
        if guest.state is not None:
            # The connection ends by being cancelled; what it opened is closed all the same.
            with anyio.CancelScope(shield=True):
                await guest.state.aclose()


async def _call(
    here: ClientState, name: str, given: dict[str, Any], server: Server[_Guest, Any]
) -> ToolResult:
    tool, own = _TOOLS.get(name), _OWN.get(name)
    if tool is None and own is None:
        return _wrong(f"There is no tool {name!r}")
    schema = tool.schema if tool is not None else own.tool.inputSchema if own is not None else {}
    if complaint := _complaint(schema, given):
        return _wrong(f"The arguments of {name} are wrong: {complaint}")
    if tool is None:
        assert own is not None
        return await own.do(here, given)
    context = server.request_context
    token = context.meta.progressToken if context.meta is not None else None
    if token is None:
        return await here.do(tool, given, None)
    async with ProgressReporter(context.session, token, str(context.request_id)) as telling:
        return await here.do(tool, given, telling.add)


def _complaint(schema: Mapping[str, Any], given: Arguments) -> str:
    validator = jsonschema.Draft202012Validator(schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(given))
    if error is None:
        return ""
    where = ".".join(str(each) for each in error.absolute_path)
    return f"{where}: {error.message}" if where else error.message


def _wrong(message: str) -> ToolResult:
    facts = {"code": "action.invalid", "message": message}
    return ToolResult(text=message, note="[action.invalid]", facts=facts, is_error=True)


def _result(here: ClientState, answer: ToolResult) -> types.CallToolResult:
    text = here.pages.fit(answer.text, with_tail=answer.with_tail)
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


def _shown(tool: Tool) -> types.Tool:
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


def _own(name: str, title: str, description: str, properties: Mapping[str, Any]) -> types.Tool:
    """All of its arguments are needed, and nothing is changed by it but where later tools act."""
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
_OWN: Final = {
    each.tool.name: each
    for each in (
        _Own(
            tool=_own(
                "read_more",
                "Read on in a long answer",
                "The next part of an answer that was cut, from `offset` on. The note in the "
                "answer says what to give here.",
                {"answer": _TEXT, "offset": {"type": "integer", "minimum": 0}},
            ),
            do=ClientState.read_more,
        ),
        _Own(
            tool=_own(
                "list_windows",
                "VS Code windows",
                "The VS Code windows that are connected to the hub: id, name, folders, status.",
                {},
            ),
            do=ClientState.list_windows,
            is_there=lambda targets: targets.has_windows,
        ),
        _Own(
            tool=_own(
                "use_window",
                "Work in a window",
                "Have all tools act in this VS Code window from now on. Needed when there are "
                "several.",
                {"window": {**_TEXT, "description": "Its id, a path in its folder, or its name"}},
            ),
            do=ClientState.use_window,
            is_there=lambda targets: targets.has_windows,
        ),
        _Own(
            tool=_own("list_sessions", "Sessions", "The sessions of the hub: id, name, state.", {}),
            do=ClientState.list_sessions,
            is_there=lambda targets: targets.has_sessions,
        ),
        _Own(
            tool=_own(
                "use_session",
                "Work in a session",
                "Have all tools act in this session's sandbox from now on. One that is stopped is "
                "started first.",
                {"session": {**_TEXT, "description": "Its id or its name"}},
            ),
            do=ClientState.use_session,
            is_there=lambda targets: targets.has_sessions,
        ),
    )
}
