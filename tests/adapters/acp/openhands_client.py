"""OpenHands V1 as an ACP client; runs in the environment of scripts/openhands.

Prints all events. Arguments: its directory, the prompt, and the agent's command line.
"""

import os
import sys

# Without it OpenHands asks the network for prices while it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["OPENHANDS_SUPPRESS_BANNER"] = "1"

from openhands.sdk import Conversation
from openhands.sdk.agent import ACPAgent

directory, prompt, *command = sys.argv[1:]
agent = ACPAgent(acp_command=command)
conversation = Conversation(agent=agent, workspace=directory)
try:
    conversation.send_message(prompt)
    conversation.run()
    for event in conversation.state.events:
        print(event.model_dump_json())  # noqa: T201
finally:
    conversation.close()
