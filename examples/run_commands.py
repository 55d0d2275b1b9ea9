"""A shell that keeps its state, a command that times out, and a program that reads input."""

import asyncio
import tempfile

from bascule.runtime import LocalRuntime


async def main() -> None:
    with tempfile.TemporaryDirectory() as workspace:
        async with LocalRuntime(workspace) as sandbox:
            await sandbox.run("greet() { echo hello, $1; }; NAME=world")
            seen = await sandbox.run("greet $NAME")
            print(seen.content, end="")

            slow = await sandbox.run("echo begun; read answer; echo got $answer", timeout=0.2)
            print("status while it runs:", slow.exit_code)
            done = await sandbox.run("forty-two", is_input=True)
            print(done.content, end="")


asyncio.run(main())

# > hello, world
# > status while it runs: -1
# > got forty-two
