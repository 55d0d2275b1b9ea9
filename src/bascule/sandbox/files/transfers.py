"""Uploads to and downloads from the sandbox, with zips of whole directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import PurePosixPath
from types import TracebackType
from typing import IO, Self

from bascule.core.errors import InvalidPath, NotADirectory

from .contents import UnpackLimits, open_archive
from .paths import ensure_regular, failure, real_path
from .storage import Storage
from .zipping import read_blocks, zip_directory, zip_file

_BLOCK_BYTES = 1 << 20


class FileDownload:
    """The bytes of a download and its file name. Iterate over the object once.

    The end of the iteration closes the download. A caller that stops earlier must close it. The
    download reads the file that was opened, even if the path is renamed or replaced meanwhile.
    """

    def __init__(
        self,
        name: str,
        *,
        size: int | None,
        pieces: Iterator[bytes],
        shown_path: str,
        held: ExitStack,
    ) -> None:
        self.name = name
        """Suggested file name for the client."""
        self.size = size
        """In bytes; None for a zip, whose size is known only at the end."""
        self._pieces = pieces
        self._shown = shown_path
        self._held = held

    @property
    def is_zip(self) -> bool:
        return self.size is None

    def __iter__(self) -> Iterator[bytes]:
        with self:
            try:
                yield from filter(None, self._pieces)
            except OSError as error:
                raise failure(error, self._shown) from error

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class FileTransfers:
    def __init__(self, storage: Storage, *, limits: UnpackLimits | None = None) -> None:
        self._storage = storage
        self._paths = storage.paths
        self._limits = limits or UnpackLimits()

    def download(self, path: str, cwd: str) -> FileDownload:
        """Download a file unchanged, or a directory as a zip."""
        return self._directory(path, cwd) or self._file(path, cwd, as_zip=False)

    def download_zip(self, path: str, cwd: str) -> FileDownload:
        """Download a zip of a directory's content, or of a single file."""
        return self._directory(path, cwd) or self._file(path, cwd, as_zip=True)

    def unpack(
        self,
        stream: IO[bytes],
        destination: str,
        cwd: str,
        on_entry: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> str:
        """Unpack a zip or tar into directory `destination`, created if missing; return its path.

        Unpacks everything or nothing. Raises `InvalidArchive` if the data is no archive, is too
        large, or would write outside. Calls `on_entry` with the entries unpacked and their total.
        """
        with (
            open_archive(stream, self._limits) as archive,
            self._paths.directory(destination, cwd, make=True) as directory,
        ):
            archive.unpack(directory, self._paths.owner, on_entry)
        return self._paths.absolute(destination, cwd)

    def unpacked_paths(self, stream: IO[bytes], destination: str, cwd: str) -> list[str]:
        """The absolute paths that `unpack` would write. Raises `InvalidArchive`."""
        directory = self._paths.absolute(destination, cwd)
        with open_archive(stream, self._limits) as archive:
            return [f"{directory}/{path}" for path in archive.paths()]

    def store(self, stream: IO[bytes], destination: str, filename: str, cwd: str) -> str:
        """Store an upload in the directory `destination`, created if missing; return its path.

        The file appears when it is complete, and replaces an existing one.
        """
        if "/" in filename or filename in ("", ".", ".."):
            raise InvalidPath(f"{filename!r} is not a valid file name")
        path = f"{self._paths.absolute(destination, cwd)}/{filename}"
        with (
            self._paths.pin(path, cwd, make_parents=True) as pinned,
            self._storage.exclusive(pinned),
        ):
            self._storage.replace(pinned, iter(lambda: stream.read(_BLOCK_BYTES), b""))
            return pinned.shown_path

    def _directory(self, path: str, cwd: str) -> FileDownload | None:
        with ExitStack() as held:
            try:
                directory = held.enter_context(self._paths.directory(path, cwd))
            except NotADirectory:
                return None
            shown_path = self._paths.absolute(path, cwd)
            name = PurePosixPath(shown_path).name
            if name in ("", ".."):
                name = PurePosixPath(real_path(directory)).name or "root"
            return FileDownload(
                f"{name}.zip",
                size=None,
                pieces=zip_directory(directory),
                shown_path=shown_path,
                held=held.pop_all(),
            )

    def _file(self, path: str, cwd: str, *, as_zip: bool) -> FileDownload:
        with ExitStack() as held:
            pinned = held.enter_context(self._paths.pin(path, cwd))
            file = pinned.open(os.O_RDONLY)
            held.callback(os.close, file)
            file_stat = os.fstat(file)
            ensure_regular(file_stat, pinned.shown_path)
            name = PurePosixPath(pinned.shown_path).name
            if as_zip:
                name, pieces, size = f"{name}.zip", zip_file(file, name), None
            else:
                pieces, size = read_blocks(file, file_stat.st_size), file_stat.st_size
            return FileDownload(
                name, size=size, pieces=pieces, shown_path=pinned.shown_path, held=held.pop_all()
            )
