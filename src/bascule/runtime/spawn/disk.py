"""Measures the disk usage of a directory with `du`.

`du` handles trees of any depth and size in bounded memory, even while a session changes them.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from bascule.core.errors import NoSuchPath, StorageFailed
from bascule.runtime.spawn.local.safe_open import open_beneath

_DU_COMMAND: Final = 'exec nice -n 19 du -s -x --block-size=1 -- "$0" </dev/null 2>/dev/null'


async def used_below(root: Path, directory: Path) -> int:
    """Bytes of a directory in `root`; 0 if it does not exist. Symlinks are not followed."""
    try:
        opened = await asyncio.to_thread(open_beneath, root, directory)
    except NoSuchPath:
        return 0
    try:
        return await used(opened)
    finally:
        os.close(opened)


async def used(directory: int) -> int:
    """Bytes of the open directory and everything below it. Hard-linked files count once.

    Symlinks are not followed, and other file systems are not entered. `du` runs with the lowest
    priority. Cancelling this function ends `du`.
    """
    path = f"/proc/self/fd/{directory}/."
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", _DU_COMMAND, path), stdout=asyncio.subprocess.PIPE, pass_fds=[directory]
    )
    try:
        # A non-zero exit status only means that a file vanished or could not be read.
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    number = output.split(b"\t")[0]
    if not number.isdigit():
        raise StorageFailed("`du` could not measure the disk usage of a session")
    return int(number)
