"""An OpenHands agent mends a program: in a sandbox or, with BASCULE_HUB set, in VS Code."""

import json
import tempfile
from typing import Any

from openhands.sdk import Agent, Conversation
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM

from bascule.adapters.openhands_v1 import use_bascule


def call(tool: str, **arguments: Any) -> Message:
    """What a model would say; the scripted one below needs no network."""
    text = json.dumps(arguments)
    wanted = MessageToolCall(id=tool, name=tool, arguments=text, origin="completion")
    return Message(role="assistant", content=[TextContent(text="")], tool_calls=[wanted])


SCRIPT = [
    call("file_editor", command="create", path="sums.py", file_text="print(2 - 2 == 4)\n"),
    call("terminal", command="python3 sums.py"),
    call("file_editor", command="str_replace", path="sums.py", old_str="2 - 2", new_str="2 + 2"),
    call("terminal", command="python3 sums.py"),
    call("finish", message="It is mended."),
]

with tempfile.TemporaryDirectory() as workspace:
    agent = Agent(llm=TestLLM.from_messages(SCRIPT), tools=use_bascule())
    conversation = Conversation(agent=agent, workspace=workspace, visualizer=None)
    conversation.send_message("Make sums.py print True.")
    conversation.run()
    seen = [each.observation for each in conversation.state.events if hasattr(each, "observation")]
    print([each.text.strip() for each in seen if each.kind == "TerminalObservation"])
    conversation.close()
# > ['False', 'True']
