"""A real conversation of OpenHands' agent with a model that says what the test wrote down."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openhands.sdk import Agent, Conversation, Tool
from openhands.sdk.event import AgentErrorEvent, ObservationEvent
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Observation

_numbers = itertools.count(1)


def call(tool: str, /, **arguments: Any) -> Message:
    """The model calls a tool."""
    wanted = MessageToolCall(
        id=f"call-{next(_numbers)}",
        name=tool,
        arguments=json.dumps(arguments),
        origin="completion",
    )
    return Message(role="assistant", content=[TextContent(text="")], tool_calls=[wanted])


def finish() -> Message:
    return call("finish", message="Done.")


def converse(
    workspace: Path, tools: Sequence[Tool], *script: Message, secrets: dict[str, str] | None = None
) -> list[Observation]:
    """What the agent was told after each call of the script, the last `finish` left out."""
    with conversation(workspace, tools, *script, secrets=secrets) as talk:
        talk.send_message("Please.")
        talk.run()
        return observations(talk)


@contextmanager
def conversation(
    workspace: Path, tools: Sequence[Tool], *script: Message, secrets: dict[str, str] | None = None
) -> Iterator[Any]:
    agent = Agent(llm=TestLLM.from_messages([*script, finish()]), tools=list(tools))
    talk = Conversation(
        agent=agent, workspace=str(workspace), visualizer=None, secrets=secrets or None
    )
    try:
        yield talk
    finally:
        talk.close()


def observations(talk: Any) -> list[Observation]:
    errors = [event.error for event in talk.state.events if isinstance(event, AgentErrorEvent)]
    assert errors == []
    seen = [event for event in talk.state.events if isinstance(event, ObservationEvent)]
    return [event.observation for event in seen if event.tool_name != "finish"]


def text_of(observation: Observation) -> str:
    """What the model reads."""
    return "".join(
        part.text for part in observation.to_llm_content if isinstance(part, TextContent)
    )
