"""An agent's connection to the hub: rules for its commands, questions to people, the timeline."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError
from bascule.link.agent_calls import AgentCalls, AgentPlace, Verdict

from .tool_calls import ToolCall

logger = logging.getLogger(__name__)

_MAX_ENTRIES: Final = 1000
"""Maximum number of timeline entries that wait for the hub; older ones are dropped."""
_FLUSH_TIMEOUT: Final = 5.0
"""Seconds to send the last entries."""


class HubOversight(Closable):
    """Judges and records what an agent does in one session or window. Closing closes `calls`."""

    def __init__(self, calls: AgentCalls, place: AgentPlace, *, asks_people: bool = True) -> None:
        """`asks_people`: whether people at the hub are asked if no rule decides."""
        self.asks_people = asks_people
        self._calls = calls
        self._place = place
        self._entries: deque[Mapping[str, Any]] = deque()
        self._has_entries = asyncio.Event()
        self._dropped = 0
        self._sending = asyncio.create_task(self._send_entries())

    async def judge(self, call: ToolCall, cwd: str) -> Verdict:
        """What the rules say about a tool call; `ask` if it is no command or no rule decides."""
        if not call.command:
            return "ask"
        verdict, reason = await self._calls.judge(self._place, call.command, call.directory(cwd))
        if verdict == "deny":
            logger.warning("a rule denies %.200r: %s", call.command, reason)
        return verdict

    async def ask(self, call: ToolCall) -> bool:
        """Ask the people of the hub. Cancelling withdraws the question."""
        allowed, _by = await self._calls.ask(
            self._place, cause=call.id, title=call.title, detail=call.detail
        )
        return allowed

    def record(self, entry: Mapping[str, Any]) -> None:
        """Add an entry to the timeline, without waiting."""
        self._entries.append(entry)
        if len(self._entries) > _MAX_ENTRIES:
            self._entries.popleft()
            self._dropped += 1
        self._has_entries.set()

    async def aclose(self) -> None:
        self._entries.append({})  # the end
        self._has_entries.set()
        await asyncio.wait({self._sending}, timeout=_FLUSH_TIMEOUT)
        self._sending.cancel()
        await asyncio.wait({self._sending})
        await self._calls.aclose()

    async def _send_entries(self) -> None:
        while True:
            await self._has_entries.wait()
            self._has_entries.clear()
            while self._entries:
                entry = self._entries.popleft()
                if not entry:
                    return
                try:
                    await self._calls.record(self._place, entry)
                except BasculeError as error:
                    logger.warning("a tool call is not in the timeline: %s", error.message)
                if self._dropped:
                    logger.warning("%d tool calls are not in the timeline", self._dropped)
                    self._dropped = 0
