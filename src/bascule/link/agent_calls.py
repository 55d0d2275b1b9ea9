"""The hub's REST calls for programs that run an agent of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from .hub_calls import HubCalls

Verdict = Literal["allow", "ask", "deny"]
_NO_TIMEOUT: Final = None
"""A person may need any time."""


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """The session or window in which an agent works: one of the two."""

    session_id: str = ""
    window_id: str = ""

    def body(self) -> dict[str, Any]:
        if self.session_id:
            return {"session_id": self.session_id}
        return {"window_id": self.window_id}


class AgentCalls(HubCalls):
    """Calls the hub at `url` with a token of scope agent or admin."""

    async def judge(self, place: AgentPlace, command: str, cwd: str) -> tuple[Verdict, str]:
        """What the rules say about a command that the agent runs itself, and the reason."""
        body = {**place.body(), "command": command, "cwd": cwd}
        answer = await self._request("POST", "/api/agent/verdicts", body)
        return cast(Verdict, answer["verdict"]), str(answer["reason"])

    async def ask(
        self, place: AgentPlace, *, cause: str, title: str, detail: str
    ) -> tuple[bool, str]:
        """Ask a person; returns whether it is allowed, and who answered. Cancelling withdraws the
        question."""
        body = {**place.body(), "cause": cause, "title": title, "detail": detail}
        answer = await self._request("POST", "/api/agent/questions", body, timeout=_NO_TIMEOUT)
        return answer["answer"] == "once", str(answer["by"])

    async def record(self, place: AgentPlace, tool_call: Mapping[str, Any]) -> None:
        """Add a tool call that begins or ends to the timeline."""
        await self._request("POST", "/api/agent/tool-calls", {**place.body(), **tool_call})
