"""The newest output of a program, in the order of its arrival, and its readers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from bascule.core.broadcaster import Inbox
from bascule.core.programs import ProgramOutput, ProgramStream, missed_at_end

_JOINED_BYTES: Final = 16 << 10
"""Pieces are joined up to this size: many small objects would take much memory."""
_OVERHEAD: Final = 512
"""Bytes of memory counted for each piece besides its data."""


class _Piece:
    __slots__ = ("before", "data", "offset", "stream")

    def __init__(self, stream: ProgramStream, offset: int, data: bytes, before: int) -> None:
        self.stream: ProgramStream = stream
        self.offset = offset
        self.data: bytes | bytearray = data
        self.before = before
        """Size of everything that was added to the log before this piece."""

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class ProgramLog:
    """Keeps the newest output of a program, `limit` bytes of memory, and serves its readers.

    `has_room` says whether more can be added without dropping output that a reader has not taken.
    """

    def __init__(
        self, limit: int, *, on_read: Callable[[], None], waits_for_reader: bool = False
    ) -> None:
        """`on_read` is called whenever a reader has taken output. `waits_for_reader`: drop nothing
        before the first reader."""
        self._waits_for_reader = waits_for_reader
        self._limit = limit
        self._pieces: deque[_Piece] = deque()
        self._first = 0
        """Number of the oldest piece that is kept."""
        self._added = 0
        """Size of everything added so far, dropped or not."""
        self._readers: set[OutputReader] = set()
        self._is_finished = False
        self.on_read = on_read
        self.ends: dict[ProgramStream, int] = {"stdout": 0, "stderr": 0}
        """Bytes of each stream so far."""

    def add(self, stream: ProgramStream, data: bytes) -> None:
        last = self._pieces[-1] if self._pieces else None
        if last and last.stream == stream and len(last.data) + len(data) <= _JOINED_BYTES:
            if isinstance(last.data, bytes):
                last.data = bytearray(last.data)
            last.data += data
            self._added += len(data)
        else:
            self._pieces.append(_Piece(stream, self.ends[stream], data, self._added))
            self._added += len(data) + _OVERHEAD
        self.ends[stream] += len(data)
        while len(self._pieces) > 1 and self._added - self._pieces[0].before > self._limit:
            self._pieces.popleft()
            self._first += 1
        for reader in self._readers:
            reader.notify()

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes drop nothing that a reader has not taken yet. A reader that is
        too slow (`stop_waiting`) does not count."""
        room = self._limit - size - _OVERHEAD
        if self._waits_for_reader and self._added > room:
            return False
        return all(reader.is_late or self._unread(reader) <= room for reader in self._readers)

    def begin_waiting(self) -> None:
        """From now on, the program waits until readers make room."""
        for reader in self._readers:
            reader.has_taken = False

    def stop_waiting(self) -> None:
        """No longer wait for a first reader, and for the readers that took nothing since
        `begin_waiting`."""
        self._waits_for_reader = False
        for reader in self._readers:
            reader.is_late = reader.is_late or not reader.has_taken

    def read(
        self, *, stdout: int, stderr: int, on_close: Callable[[], None] = lambda: None
    ) -> OutputReader:
        """A reader of the output from these positions on. The caller closes it."""
        reader = OutputReader(self, {"stdout": stdout, "stderr": stderr}, on_close)
        self._readers.add(reader)
        self._waits_for_reader = False
        if self._is_finished:
            reader.finish()
        return reader

    def finish(self) -> None:
        """The program has exited, and its output is complete: readers end once they have read it.

        More output, of children in the background, can still be added for later readers.
        """
        self._is_finished = True
        for reader in self._readers:
            reader.finish()

    def close_reader(self, reader: OutputReader) -> None:
        self._readers.discard(reader)
        self.on_read()

    def next_piece(self, number: int, seen: dict[ProgramStream, int]) -> tuple[int, _Piece | None]:
        """The first piece from `number` on that has bytes after those in `seen`, and its number."""
        number = max(number, self._first)
        while (at := number - self._first) < len(self._pieces):
            piece = self._pieces[at]
            if piece.end > seen[piece.stream]:
                return number, piece
            if at == len(self._pieces) - 1:
                break  # this piece may still grow
            number += 1
        return number, None

    def _unread(self, reader: OutputReader) -> int:
        reader.number, piece = self.next_piece(reader.number, reader.seen)
        return 0 if piece is None else self._added - piece.before


class OutputReader(Inbox[ProgramOutput]):
    """One reader of a program's output."""

    def __init__(
        self, log: ProgramLog, seen: dict[ProgramStream, int], on_close: Callable[[], None]
    ) -> None:
        super().__init__()
        self._on_close: Callable[[], None] | None = on_close
        self._log = log
        self.seen = seen
        """Bytes of each stream that this reader has taken, or did not ask for."""
        self.number = 0
        """Number of the piece to look at next."""
        self.has_taken = True
        self.is_late = False
        """The program does not wait for this reader, because it took nothing for too long."""

    def close(self) -> None:
        self._log.close_reader(self)
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    def missed_at_end(self) -> list[ProgramOutput]:
        """What was dropped at the end of a stream, when the reader has taken everything else."""
        return missed_at_end(self._log.ends, self.seen)

    def _is_empty(self) -> bool:
        self.number, piece = self._log.next_piece(self.number, self.seen)
        return piece is None

    def _take(self) -> ProgramOutput:
        self.number, piece = self._log.next_piece(self.number, self.seen)
        assert piece is not None
        before = self.seen[piece.stream]
        self.seen[piece.stream] = piece.end
        self.has_taken, self.is_late = True, False
        skipped = max(before - piece.offset, 0)
        data = piece.data if isinstance(piece.data, bytes) and not skipped else None
        taken = ProgramOutput(
            piece.stream,
            piece.offset + skipped,
            bytes(memoryview(piece.data)[skipped:]) if data is None else data,
            max(piece.offset - before, 0),
        )
        self._log.on_read()
        return taken
