"""Write, edit, search and undo, as an agent does."""

import asyncio
import tempfile

from bascule.runtime import LocalRuntime

SOURCE = "def add(a, b):\n    return a - b\n"


async def main() -> None:
    with tempfile.TemporaryDirectory() as workspace:
        async with LocalRuntime(workspace) as sandbox:
            file = f"{workspace}/sums.py"
            await sandbox.write(file, SOURCE)
            await sandbox.edit(file, "str_replace", old_str="a - b", new_str="a + b")
            check = await sandbox.run("python3 -c 'import sums; print(sums.add(2, 2))'")
            print(check.content, end="")

            found = await sandbox.grep(r"return .*", include="*.py")
            print(found.matches[0].line, found.matches[0].text.strip())

            await sandbox.edit(file, "undo_edit")
            print((await sandbox.read(file)).content == SOURCE)


asyncio.run(main())

# > 4
# > 2 return a + b
# > True
