"""Fix a failing test: in a sandbox or, with BASCULE_HUB set, in your VS Code window."""

import asyncio
import os
import tempfile

from bascule.runtime import LocalRuntime, VSCodeRuntime

SOURCE = "def add(a, b):\n    return a\n"
TEST = "from sums import add\n\nassert add(2, 2) == 4, 'it fails'\nprint('it passes')\n"


async def main(runtime: LocalRuntime | VSCodeRuntime) -> None:
    async with runtime:
        await runtime.write("sums.py", SOURCE)
        await runtime.write("test_sums.py", TEST)
        before = await runtime.run("python3 test_sums.py")
        print("exit status", before.exit_code, before.content.splitlines()[-1])

        found = await runtime.grep("return", include="sums.py")
        print(f"line {found.matches[0].line}: {found.matches[0].text.strip()}")
        await runtime.edit("sums.py", "str_replace", old_str="return a", new_str="return a + b")

        after = await runtime.run("python3 test_sums.py")
        print("exit status", after.exit_code, after.content.splitlines()[-1])


with tempfile.TemporaryDirectory() as workspace:
    in_vscode = "BASCULE_HUB" in os.environ  # and BASCULE_TOKEN, and BASCULE_WINDOW if need be
    asyncio.run(main(VSCodeRuntime() if in_vscode else LocalRuntime(workspace)))

# > exit status 1 AssertionError: it fails
# > line 2: return a
# > exit status 0 it passes
