"""An MCP client fixes a failing test, with the official client library and `bascule mcp`."""

import asyncio
import sys
import tempfile
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SOURCE = "def add(a, b):\n    return a\n"
TEST = "from sums import add\n\nassert add(2, 2) == 4\n"


async def main(workspace: str) -> None:
    arguments = ["-m", "bascule", "mcp", "--working-dir", workspace]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()

        async def call(tool: str, **given: Any) -> dict[str, Any]:
            result = await session.call_tool(tool, given)
            return result.structuredContent or {}

        await call("write_file", path="sums.py", content=SOURCE)
        await call("write_file", path="test_sums.py", content=TEST)
        before = await call("run_command", command="python3 test_sums.py")
        await call("edit_file", path="sums.py", old="return a", new="return a + b")
        after = await call("run_command", command="python3 test_sums.py")
        print("exit status", before["exit_code"], "and then", after["exit_code"])


with tempfile.TemporaryDirectory() as directory:
    asyncio.run(main(directory))
# > exit status 1 and then 0
