"""Copies files between this machine and a sandbox, local or remote."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from bascule.sandbox.files.paths import Paths, failure
from bascule.sandbox.files.storage import Storage
from bascule.sandbox.files.transfers import FileDownload, FileTransfers

if TYPE_CHECKING:
    from bascule.sandbox.executor import Sandbox

_IN_MEMORY: Final = 1 << 20
"""Bytes of a copy that are kept in memory before they go to a temporary file."""


def pack(source: Path) -> FileDownload:
    """The data to send for `source`: a file as it is, a directory as a zip. Raises `NoSuchPath`."""
    return FileTransfers(Storage(Paths())).download(str(source.absolute()), "/")


def destination_of(packed: FileDownload, source: Path, destination: str) -> str:
    """The target path: `destination` for a file; for a directory, a subdirectory with its name."""
    if not packed.is_zip:
        return destination
    name = source.name if source.name not in ("", "..") else source.resolve().name
    return f"{destination}/{name}"


async def copy_in(sandbox: Sandbox, source: Path, destination: str) -> None:
    """Raises `ConsentDenied` if a protected file would change."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:

        def copy() -> tuple[str, str, bool]:
            with pack(source) as packed:
                spool.writelines(packed)
                return destination_of(packed, source, destination), packed.name, packed.is_zip

        target, name, is_zip = await sandbox.in_thread(copy)
        await sandbox.store_upload(spool, target, name, sandbox.shells.cwd, unpacks=is_zip)


def copy_out(sandbox: Sandbox, path: str, destination: Path) -> Path:
    with sandbox.files.transfers.download(path, sandbox.shells.cwd) as download:
        final = _target_file(download.name, destination)
        with _renamed_when_complete(final) as file:
            file.writelines(download)
        return final


async def save(chunks: AsyncIterator[bytes], name: str, destination: Path) -> Path:
    """Write `chunks` to the file `destination`, or to `name` in it if `destination` is a directory.

    The file appears only when it is complete; a failure leaves no file.
    """
    final = await asyncio.to_thread(_target_file, name, destination)
    pending = _renamed_when_complete(final)
    file = await asyncio.to_thread(pending.__enter__)
    try:
        async for chunk in chunks:
            await asyncio.to_thread(file.write, chunk)
    except BaseException as error:
        await asyncio.to_thread(pending.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(pending.__exit__, None, None, None)
    return final


def _target_file(name: str, destination: Path) -> Path:
    return destination / name if destination.is_dir() else destination


@contextmanager
def _renamed_when_complete(final: Path) -> Iterator[IO[bytes]]:
    """A temporary file that is renamed to `final` if the context ends without an error."""
    temporary = final.with_name(f".bascule-{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(final)
    except OSError as error:
        raise failure(error, str(final)) from error
    finally:
        temporary.unlink(missing_ok=True)
