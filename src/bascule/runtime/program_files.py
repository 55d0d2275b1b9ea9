"""Reads and writes whole files by programs in a sandbox: as its user, with that user's errors.

Uploads replace a file by renaming, which needs no permission for the file itself. These functions
write to the file, as a person with an editor would, and need only `sh`, `cat` and `mkdir`.
"""

from __future__ import annotations

import errno
import os
from pathlib import PurePosixPath
from typing import Final

from bascule.core.errors import FileTooLarge
from bascule.core.programs import ProgramHost

from .program_run import ProgramRun, run_program

_WRITE: Final = 'mkdir -p -- "$2" && cat >"$1"'
_READ: Final = 'exec cat -- "$1"'
_MESSAGE_BYTES: Final = 4096
_ENGLISH: Final = {"LC_ALL": "C"}
"""The reason of a failure is recognized by the C library's text for it."""
_REASONS: Final = (
    *(errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR, errno.EPERM, errno.EROFS),
    *(errno.ENOSPC, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EIO),
)


async def read_file(host: ProgramHost, path: str, *, limit: int, user: str = "") -> bytes:
    """The contents of a file. Raises the `OSError` that the user gets, and `FileTooLarge` above
    `limit` bytes."""
    most = max(limit, _MESSAGE_BYTES)
    run = await run_program(host, _script(_READ, path), env=_ENGLISH, user=user, output_limit=most)
    if run.exit_code != 0:
        raise _failure(run, path)
    if run.left_out or len(run.stdout) > limit:
        raise FileTooLarge(
            f"{path} has more than {limit} bytes, the limit of this call", path=path, limit=limit
        )
    return run.stdout


async def write_file(host: ProgramHost, path: str, content: bytes, *, user: str = "") -> None:
    """Write a file, and make its missing directories. Raises the `OSError` that the user gets."""
    parent = str(PurePosixPath(path).parent)
    words = _script(_WRITE, path, parent)
    run = await run_program(host, words, stdin=content, env=_ENGLISH, user=user)
    if run.exit_code != 0:
        raise _failure(run, path)


def _script(script: str, path: str, *more: str) -> list[str]:
    # `cat -` would read stdin, and some shells take a name with a dash for an option.
    name = path if path.startswith("/") else f"./{path}"
    return ["sh", "-c", script, "sh", name, *more]


def _failure(run: ProgramRun, path: str) -> OSError:
    said = run.stderr.decode(errors="replace").strip()
    for number in _REASONS:
        if os.strerror(number) in said:
            return OSError(number, os.strerror(number), path)
    return OSError(errno.EIO, said or f"the program ended with status {run.status}", path)
