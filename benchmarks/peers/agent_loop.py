"""An OpenHands V1 agent with a scripted model: `stock` with its own tools, `bascule` with ours."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused

_SOURCE = Path(__file__).parents[2] / "src"
"""We are not installed in an environment that has OpenHands; what we need is."""


class AgentLoop:
    """Holds one conversation per question, all calls of it written down beforehand."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def start(self) -> None:
        from openhands.tools.file_editor import FileEditorTool
        from openhands.tools.terminal import TerminalTool

        if self._kind == "bascule":
            sys.path.append(str(_SOURCE))
            from bascule.adapters.openhands_v1 import use_bascule

            use_bascule("sandbox")
        self._tools = (TerminalTool.name, FileEditorTool.name)

    async def stop(self) -> None:
        """Every conversation was closed when it ended."""

    async def hello(self) -> dict[str, Any]:
        versions = {name: version(name) for name in ("openhands-sdk", "openhands-tools")}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def converse(self, calls: int) -> dict[str, Any]:
        """Seconds of the whole conversation, and of them those spent in tools."""
        return await asyncio.to_thread(self._converse, calls)

    def _converse(self, calls: int) -> dict[str, Any]:
        from openhands.sdk import Agent, Conversation, Tool
        from openhands.sdk.event import ObservationEvent
        from openhands.sdk.testing import TestLLM

        tools = [Tool(name=name) for name in self._tools]
        agent = Agent(llm=TestLLM.from_messages(_script(calls)), tools=tools)
        talk = Conversation(agent=agent, workspace=os.getcwd(), visualizer=None)
        try:
            talk.send_message("Please.")
            with _Watch() as watch:
                began = time.perf_counter()
                talk.run()
                whole = time.perf_counter() - began
            seen = [event for event in talk.state.events if isinstance(event, ObservationEvent)]
        finally:
            talk.close()
        if len(seen) != calls + 1:
            raise Refused(f"{len(seen)} answers to {calls} calls")
        return {"seconds": whole, "tools": watch.seconds, "calls": calls}


class _Watch:
    """While open, adds up the time between giving an action to a tool and its observation."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> _Watch:
        from openhands.sdk.tool import ToolDefinition

        self._definition: Any = ToolDefinition
        self._plain = plain = ToolDefinition.__call__

        def timed(tool: Any, *arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return plain(tool, *arguments)
            finally:
                self.seconds += time.perf_counter() - began

        self._definition.__call__ = timed
        return self

    def __exit__(self, *_: object) -> None:
        self._definition.__call__ = self._plain


def _script(calls: int) -> list[Any]:
    """Four commands, then one edit, over and over; at last the agent says that it is done."""
    wanted: list[tuple[str, dict[str, str]]] = []
    for number in range(calls):
        path = os.path.join(os.getcwd(), f"file-{number}-{time.time_ns()}")
        edit = {"command": "create", "path": path, "file_text": f"{number}\n"}
        is_edit = number % 5 == 4
        wanted.append(("file_editor", edit) if is_edit else ("terminal", _command(number)))
    wanted.append(("finish", {"message": "Done."}))
    return [_said(number, *each) for number, each in enumerate(wanted)]


def _command(number: int) -> dict[str, str]:
    return {"command": ("true", "ls", f"echo {number}", "git --version")[number % 4]}


def _said(number: int, tool: str, arguments: dict[str, str]) -> Any:
    from openhands.sdk.llm import Message, MessageToolCall, TextContent

    text = json.dumps(arguments)
    call = MessageToolCall(id=f"call-{number}", name=tool, arguments=text, origin="completion")
    return Message(role="assistant", content=[TextContent(text="")], tool_calls=[call])


if __name__ == "__main__":
    respond(AgentLoop(sys.argv[1]))
