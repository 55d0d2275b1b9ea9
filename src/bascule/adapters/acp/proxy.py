"""The proxy between an ACP client and an agent."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Mapping
from contextlib import aclosing
from enum import Enum
from typing import Any, Final

from bascule.core.errors import MessageTooLarge, RemoteError

from . import messages
from .agent_requests import AgentRequests, SessionPaths
from .messages import InvalidMessage, MessageId, MessageKind, RpcMessage
from .oversight import HubOversight
from .paths import map_paths
from .peers import LinePeer
from .permissions import METHOD as REQUEST_PERMISSION
from .permissions import PermissionDecisions
from .rewrites import OPENS_SESSION, READS_MISSING_AS_EMPTY, with_client_methods, with_mcp_server
from .tool_calls import ToolCalls
from .workspaces import AgentWorkspace

logger = logging.getLogger(__name__)

_MAX_PENDING: Final = 4096
"""Maximum number of pending requests of the client, and of the agent."""
_MAX_SESSIONS: Final = 1000
_MAX_LOG: Final = 300
"""Maximum characters of an invalid line in the log."""
_CANCEL_REQUEST: Final = "$/cancel_request"


class AcpEnd(Enum):
    """Who ended the conversation."""

    CLIENT = "client"
    AGENT = "agent"


class AcpProxy:
    """Passes messages between a client and an agent, and answers those about files and terminals.

    A message that the proxy need not change is passed on byte for byte. Requests that it does not
    know go to the other side, which answers them.
    """

    def __init__(
        self,
        client: LinePeer,
        agent: LinePeer,
        workspace: AgentWorkspace,
        *,
        oversight: HubOversight | None = None,
        asks_client: bool = True,
    ) -> None:
        """`oversight`: also apply the hub's rules and ask its people. `asks_client`: whether
        questions of the agent go to the client too."""
        self._client = client
        self._agent = agent
        self._workspace = workspace
        self._requests = AgentRequests(workspace, agent.outbox.put)
        self._of_client: dict[MessageId, RpcMessage] = {}
        """The client's requests that the agent has not answered."""
        self._of_agent: set[MessageId] = set()
        """The ids of the agent's requests that the client has not answered."""
        self._asked: dict[MessageId, asyncio.Future[RpcMessage]] = {}
        """Questions that the client has not answered, by their id at the client."""
        self._asked_prefix = f"bascule-{secrets.token_hex(4)}"
        self._questions = 0
        record = (lambda _: None) if oversight is None else oversight.record
        self._tool_calls = ToolCalls(record)
        self._permissions = PermissionDecisions(
            self._tool_calls,
            oversight=oversight,
            ask_client=self._ask_client if asks_client else None,
        )
        self._paths: dict[str, SessionPaths] = {}
        """By the id of the ACP session; the newest is the last."""

    async def run(self) -> AcpEnd:
        """Pass messages on until the client or the agent ends. Returns which of them ended.

        If the agent ends first, the client first gets an answer to each pending request. Raises the
        error with which reading from the client or the agent failed. The caller ends the agent.
        """
        to_agent = asyncio.ensure_future(self._agent.outbox.run())
        to_client = asyncio.ensure_future(self._client.outbox.run())
        from_client = asyncio.ensure_future(self._read_client())
        from_agent = asyncio.ensure_future(self._read_agent())
        tasks = {to_agent, to_client, from_client, from_agent}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if to_agent in done and from_agent not in done:
                # The agent may go on without its stdin; its output still arrives.
                logger.warning("the agent cannot be written to: %s", to_agent.exception())
                rest = tasks - {to_agent}
                done, _ = await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)
            if from_agent in done:
                await self._finish_client(from_agent, to_client)
            for task in done - {to_client, to_agent}:
                task.result()
            return AcpEnd.CLIENT if {from_client, to_client} & done else AcpEnd.AGENT
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._requests.aclose()

    async def _finish_client(
        self, from_agent: asyncio.Task[None], to_client: asyncio.Task[None]
    ) -> None:
        """Pass on the agent's remaining output, and answer the client's pending requests."""
        why = "The agent ended before it answered"
        if not from_agent.cancelled() and (error := from_agent.exception()) is not None:
            why = f"{why}: {error}"
        for message_id in self._of_client:
            self._client.outbox.put(messages.error(message_id, messages.INTERNAL_ERROR, why))
        self._of_client.clear()
        emptied = asyncio.ensure_future(self._client.outbox.wait_until_empty())
        await asyncio.wait({emptied, to_client}, return_when=asyncio.FIRST_COMPLETED)
        emptied.cancel()

    # From the client ------------------------------------------------------------------------

    async def _read_client(self) -> None:
        try:
            async with aclosing(self._client.lines()) as lines:
                async for line in lines:
                    self._handle_client_line(line)
        except MessageTooLarge as error:
            self._client.outbox.put(messages.error(None, messages.INVALID_MESSAGE, error.message))
            raise

    def _handle_client_line(self, line: bytes) -> None:
        try:
            message = messages.decode(line)
        except InvalidMessage as error:
            answer = messages.error(error.message_id, error.code, error.message)
            self._client.outbox.put(answer)
            return
        match message.kind:
            case MessageKind.REQUEST:
                self._on_client_request(message)
            case MessageKind.NOTIFICATION:
                self._agent.outbox.put(self._for_agent(message).line)
            case MessageKind.ANSWER:
                self._on_client_answer(message)

    def _on_client_request(self, message: RpcMessage) -> None:
        if message.id in self._of_client or len(self._of_client) >= _MAX_PENDING:
            why = _why_refused(message, self._of_client)
            self._client.outbox.put(messages.error(message.id, messages.INVALID_MESSAGE, why))
            return
        self._of_client[message.id] = message
        if message.method == "initialize":
            message = message.changed(params=with_client_methods(message.params))
        elif message.method in OPENS_SESSION:
            message = self._opening(message)
        self._agent.outbox.put(self._for_agent(message).line)

    def _opening(self, message: RpcMessage) -> RpcMessage:
        """A request that opens a session, with our MCP server."""
        cwd, session_id = message.params.get("cwd"), message.params.get("sessionId")
        if isinstance(cwd, str) and isinstance(session_id, str):
            self._remember(session_id, SessionPaths(self._workspace, cwd))
        server = self._workspace.mcp_server()
        if server is None:
            return message
        return message.changed(params=with_mcp_server(message.params, server))

    def _on_client_answer(self, message: RpcMessage) -> None:
        if (asked := self._asked.pop(message.id, None)) is not None:
            asked.set_result(message)
            return
        if isinstance(message.id, str) and message.id.startswith(self._asked_prefix):
            return  # a late answer: the question was withdrawn
        if message.id not in self._of_agent:
            logger.warning("the client answers an unknown request %.200r", message.id)
            return
        self._of_agent.discard(message.id)
        self._agent.outbox.put(self._for_agent(message).line)

    def _for_agent(self, message: RpcMessage) -> RpcMessage:
        """The message with the agent's paths."""
        paths = self._paths_of(message)
        return message if paths is None else _moved(message, paths.client.to_there)

    # From the agent -------------------------------------------------------------------------

    async def _read_agent(self) -> None:
        async with aclosing(self._agent.lines()) as lines:
            async for line in lines:
                self._handle_agent_line(line)
                await self._client.outbox.wait_for_room()

    def _handle_agent_line(self, line: bytes) -> None:
        try:
            message = messages.decode(line)
        except InvalidMessage as error:
            # Agents print notices to stdout by mistake. The client must see only messages.
            logger.warning("not a message of the agent: %s", error.message[:_MAX_LOG])
            return
        match message.kind:
            case MessageKind.REQUEST:
                self._on_agent_request(message)
            case MessageKind.NOTIFICATION:
                self._on_agent_notification(message)
            case MessageKind.ANSWER:
                self._on_agent_answer(message)

    def _on_agent_request(self, message: RpcMessage) -> None:
        if self._requests.handles(message.method):
            paths = self._paths_of(message)
            if paths is None:
                why = f"No session is open, so {message.method} has no workspace"
                self._agent.outbox.put(messages.error(message.id, messages.INVALID_PARAMS, why))
                return
            self._requests.start(message, paths)
            return
        if message.method == REQUEST_PERMISSION:
            cwd = (
                self._workspace.root
                if (found := self._paths_of(message)) is None
                else (found.agent_cwd)
            )
            self._requests.run(message.id, self._permissions.decide(message, cwd))
            return
        if message.id in self._of_agent or len(self._of_agent) >= _MAX_PENDING:
            why = _why_refused(message, self._of_agent)
            self._agent.outbox.put(messages.error(message.id, messages.INVALID_MESSAGE, why))
            return
        self._of_agent.add(message.id)
        self._client.outbox.put(self._for_client(message).line)

    def _on_agent_notification(self, message: RpcMessage) -> None:
        if message.method == _CANCEL_REQUEST and self._requests.cancel(
            message.params.get("requestId")
        ):
            return
        if message.method == "session/update":
            params = message.params
            self._tool_calls.on_update(params.get("sessionId"), params.get("update"))
        self._client.outbox.put(self._for_client(message).line)

    async def _ask_client(self, message: RpcMessage) -> Mapping[str, Any]:
        """Ask the client under an id of the proxy. Raises `RemoteError` if it cannot answer."""
        self._questions += 1
        number = f"{self._asked_prefix}-{self._questions}"
        answer: asyncio.Future[RpcMessage] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._client.outbox.put(self._for_client(message).changed(id=number).line)
        try:
            found = await answer
        finally:
            if self._asked.pop(number, None) is not None:
                cancelled = messages.notification(_CANCEL_REQUEST, {"requestId": number})
                self._client.outbox.put(cancelled)
        if "error" in found.body:
            raise RemoteError(
                f"The client answered with {found.body['error']!r:.500}", remote_code=""
            )
        return found.result

    def _on_agent_answer(self, message: RpcMessage) -> None:
        request = self._of_client.pop(message.id, None)
        if request is None:
            logger.warning("the agent answers an unknown request %.200r", message.id)
            return
        info = message.result.get("agentInfo")
        if request.method == "initialize" and isinstance(info, Mapping):
            is_known = info.get("name") in READS_MISSING_AS_EMPTY
            self._requests.reads_missing_as_empty = is_known
        cwd, session_id = request.params.get("cwd"), message.result.get("sessionId")
        if request.method in OPENS_SESSION and isinstance(cwd, str) and isinstance(session_id, str):
            self._remember(session_id, SessionPaths(self._workspace, cwd))
        self._client.outbox.put(self._for_client(message, request).line)

    def _for_client(self, message: RpcMessage, request: RpcMessage | None = None) -> RpcMessage:
        """The message with the client's paths. `request`: the request that it answers."""
        paths = self._paths_of(request or message)
        return message if paths is None else _moved(message, paths.client.to_here)

    # ----------------------------------------------------------------------------------------

    def _paths_of(self, message: RpcMessage) -> SessionPaths | None:
        """The paths of the message's session; without one, those of its `cwd`, or the newest."""
        session_id, cwd = message.params.get("sessionId"), message.params.get("cwd")
        if isinstance(session_id, str) and session_id in self._paths:
            return self._paths[session_id]
        if isinstance(cwd, str) and cwd.startswith("/"):
            return SessionPaths(self._workspace, cwd)
        return next(reversed(self._paths.values()), None)

    def _remember(self, session_id: str, paths: SessionPaths) -> None:
        self._paths.pop(session_id, None)
        self._paths[session_id] = paths
        while len(self._paths) > _MAX_SESSIONS:
            del self._paths[next(iter(self._paths))]


def _why_refused(message: RpcMessage, pending: Collection[MessageId]) -> str:
    if message.id in pending:
        return f"The id {message.id!r:.200} is the id of a pending request"
    return f"{_MAX_PENDING} requests are pending, the maximum"


def _moved(message: RpcMessage, move: Any) -> RpcMessage:
    """The message with moved paths; the same object if nothing changes."""
    for name in ("params", "result"):
        value: Any = message.body.get(name)
        if isinstance(value, Mapping) and (changed := map_paths(value, move)) is not value:
            return message.changed(**{name: changed})
    return message
