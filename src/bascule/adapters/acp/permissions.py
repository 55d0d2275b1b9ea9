"""Decides on `session/request_permission`: rules first, then the client or the hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bascule.core.errors import BasculeError, InvalidRequest, RemoteError

from .messages import RpcMessage
from .oversight import HubOversight
from .tool_calls import ToolCall, ToolCalls

logger = logging.getLogger(__name__)

METHOD: Final = "session/request_permission"
_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
_KINDS: Final = {True: ("allow_once", "allow_always"), False: ("reject_once", "reject_always")}

AskClient = Callable[[RpcMessage], Awaitable[Mapping[str, Any]]]
"""Passes a question to the client and returns its result. Raises `RemoteError` for an error."""


class PermissionDecisions:
    """Without `oversight` only the client decides; without `ask_client` only rules and the hub."""

    def __init__(
        self,
        tool_calls: ToolCalls,
        *,
        oversight: HubOversight | None,
        ask_client: AskClient | None,
    ) -> None:
        self._tool_calls = tool_calls
        self._oversight = oversight
        self._ask_client = ask_client

    async def decide(self, message: RpcMessage, cwd: str) -> Mapping[str, Any]:
        """The result for the agent. Cancelling withdraws the question everywhere."""
        params = message.params
        options, given = params.get("options"), params.get("toolCall")
        if not isinstance(options, list) or not isinstance(given, Mapping):
            raise InvalidRequest(f"`{METHOD}` needs `toolCall` and a list of `options`")
        call = self._tool_calls.merge(params.get("sessionId"), given)
        self._tool_calls.begin(call)
        if self._oversight is not None:
            verdict = await self._verdict(self._oversight, call, cwd)
            if verdict != "ask":
                return chosen(options, is_allowed=verdict == "allow")
        asking: list[Awaitable[Mapping[str, Any]]] = []
        if self._ask_client is not None:
            asking.append(self._ask_client(message))
        if self._oversight is not None and self._oversight.asks_people:
            asking.append(self._ask_hub(self._oversight, call, options))
        return await first_answer(asking)

    async def _verdict(self, oversight: HubOversight, call: ToolCall, cwd: str) -> str:
        """The verdict of the rules. If they cannot be applied, a person decides."""
        try:
            return await oversight.judge(call, cwd)
        except BasculeError as error:
            logger.warning("the rules cannot be applied: %s", error.message)
            return "ask"

    async def _ask_hub(
        self, oversight: HubOversight, call: ToolCall, options: Sequence[Any]
    ) -> Mapping[str, Any]:
        return chosen(options, is_allowed=await oversight.ask(call))


async def first_answer(asking: Sequence[Awaitable[Mapping[str, Any]]]) -> Mapping[str, Any]:
    """The first answer. Cancels the other questions, and waits until they have ended.

    A failed question is ignored while another is pending. If all fail, raises the first error.
    """
    tasks = [asyncio.ensure_future(each) for each in asking]
    pending = set(tasks)
    failures: list[BasculeError] = []
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                try:
                    return task.result()
                except BasculeError as error:
                    failures.append(error)
        raise failures[0] if failures else RemoteError("There is nobody to ask", remote_code="")
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def chosen(options: Sequence[Any], *, is_allowed: bool) -> Mapping[str, Any]:
    """The outcome for a yes or no: the option for this once, if the agent offers one.

    If the agent offers no such option, the outcome is that the question is cancelled.
    """
    for kind in _KINDS[is_allowed]:
        for option in options:
            if isinstance(option, Mapping) and option.get("kind") == kind:
                return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return _CANCELLED
