"""How much of the disk a directory takes, by `du`: that walks trees of any depth and any number of
files in bounded memory while a session changes them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from bascule.core.errors import NoSuchPath, StorageFailed
from bascule.runtime.spawn.local.safe_open import open_beneath

_MEASURE: Final = 'exec nice -n 19 du -s -x --block-size=1 -- "$0" </dev/null 2>/dev/null'


async def used_below(root: Path, directory: Path) -> int:
    """Of a directory in `root`, or of none; no link on the way there is followed."""
    try:
        opened = await asyncio.to_thread(open_beneath, root, directory)
    except NoSuchPath:
        return 0
    try:
        return await used(opened)
    finally:
        os.close(opened)


async def used(directory: int) -> int:
    """Bytes that the open directory and all below it take, files of several names once.

    Links are not followed, and other file systems not entered. Nobody waits for the answer, so it
    gives way to whatever else the machine has to do. Cancelling ends it.
    """
    where = f"/proc/self/fd/{directory}/."
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", _MEASURE, where), stdout=asyncio.subprocess.PIPE, pass_fds=[directory]
    )
    try:
        # A status that is not 0 says no more than that something vanished or was closed to us.
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    number = said.split(b"\t")[0]
    if not number.isdigit():
        raise StorageFailed("What a session has on the disk could not be measured by `du`")
    return int(number)
