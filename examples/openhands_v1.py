"""An OpenHands agent fixes a failing test: in a sandbox or, with BASCULE_HUB set, in VS Code."""

import json
import tempfile
from typing import Any

from openhands.sdk import Agent, Conversation
from openhands.sdk.llm import Message, MessageToolCall
from openhands.sdk.testing import TestLLM

from bascule.adapters.openhands_v1 import use_bascule

SOURCE = "def add(a, b):\n    return a\n"
TEST = "from sums import add\n\nassert add(2, 2) == 4\n"


def call(tool: str, **given: Any) -> Message:
    """What a model would say; the scripted one below needs no network."""
    wanted = {"id": tool, "name": tool, "arguments": json.dumps(given), "origin": "completion"}
    return Message(role="assistant", tool_calls=[MessageToolCall(**wanted)])


SCRIPT = [
    call("file_editor", command="create", path="sums.py", file_text=SOURCE),
    call("file_editor", command="create", path="test_sums.py", file_text=TEST),
    call("terminal", command="python3 test_sums.py"),
    call("file_editor", command="str_replace", path="sums.py", old_str="a\n", new_str="a + b\n"),
    call("terminal", command="python3 test_sums.py"),
    call("finish", message="The test passes."),
]
with tempfile.TemporaryDirectory() as workspace:
    agent = Agent(llm=TestLLM.from_messages(SCRIPT), tools=use_bascule())
    conversation = Conversation(agent=agent, workspace=workspace, visualizer=None)
    conversation.send_message("Make the test pass.")
    conversation.run()
    seen = [each.observation for each in conversation.state.events if hasattr(each, "observation")]
    print([it.text if it.is_error else it.exit_code for it in seen if hasattr(it, "exit_code")])
    conversation.close()
# > [1, 0]
