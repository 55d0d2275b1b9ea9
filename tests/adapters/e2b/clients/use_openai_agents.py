"""An agent of OpenAI's Agents SDK in a sandbox, with the SDK's own scripted model."""

from __future__ import annotations

import asyncio
import json
import sys

from agents import RunConfig, Runner, set_tracing_disabled
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.run_config import SandboxRunConfig
from agents.sandbox import Manifest, SandboxAgent
from agents.sandbox.capabilities import Shell
from agents.sandbox.entries import File
from agents.testing import ScriptedModel, assistant_message, function_call


async def main() -> None:
    set_tracing_disabled(True)
    commands = (
        {"cmd": "cat given.txt; echo made > made.txt; echo err >&2; exit 3"},
        {"cmd": "read -r line; echo got $line", "tty": True, "yield_time_ms": 2000},
    )
    model = ScriptedModel(
        [
            *(
                [function_call("exec_command", json.dumps(each), call_id=f"call-{n}")]
                for n, each in enumerate(commands)
            ),
            [assistant_message("done")],
        ]
    )
    agent = SandboxAgent(name="tester", model=model, capabilities=[Shell()])
    client = E2BSandboxClient()
    options = E2BSandboxClientOptions(sandbox_type="e2b", timeout=600)
    manifest = Manifest(entries={"given.txt": File(content=b"given\n")})
    session = await client.create(manifest=manifest, options=options)
    async with session:
        config = RunConfig(sandbox=SandboxRunConfig(session=session))
        result = await Runner.run(agent, "go", run_config=config)
        assert result.final_output == "done"
        outputs = [each.output for each in result.new_items if each.type == "tool_call_output_item"]
        assert "given" in outputs[0], outputs
        assert "exited with code 3" in outputs[0], outputs
        assert "Process running with session ID" in outputs[1], outputs
        made = await session.read("made.txt")
        assert made.read() == b"made\n"
    await client.delete(session)
    sys.stdout.write("passed\n")


asyncio.run(main())
