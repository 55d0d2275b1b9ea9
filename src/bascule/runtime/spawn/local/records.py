"""Records of running sandboxes: one file each, locked for as long as the sandbox's server lives.

The lock says whether a sandbox runs; the file only describes the sandbox. One descriptor holds two
locks: a `flock`, which passes from the warden to the server without a gap, and a record lock of the
server itself, through which the kernel reports the server's PID. A PID in a file could belong to
another process by now; this PID cannot.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Self

from bascule.core.sessions import Egress, SessionId

_FLOCK: Final = "hhlli4x"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """The facts that a warden needs about a sandbox that another warden started."""

    session_id: SessionId
    uid: int
    run_dir: str
    is_isolated: bool
    egress: Egress
    namespace: int = 0
    """The inode number of its PID namespace; 0: it has none, or the number is not known yet."""
    root: int | None = None
    """The UID of its second user, root, if it has one."""
    network: int | None = None
    """The UID of the process that connects its network, if this process has its own UID."""

    @property
    def uids(self) -> Sequence[int]:
        """All UIDs leased to the sandbox."""
        return [self.uid, *(n for n in (self.root, self.network) if n is not None)]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        record = cls(**json.loads(text))
        return replace(record, egress=Egress(**record.egress))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class LockedRecord:
    """A record whose lock is held by a running server."""

    record: SandboxRecord
    pid: int | None
    """The server's PID; None while it starts."""


class SandboxRecords:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def ids(self) -> Sequence[SessionId]:
        return [SessionId(each.name) for each in os.scandir(self._directory)]

    def take(self, record: SandboxRecord) -> int | None:
        """Create and lock a record.

        Returns the descriptor, which the server inherits; None if the sandbox runs.
        """
        descriptor = _lock_file(self._directory / record.session_id, os.O_CREAT)
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            self.write(record, descriptor)
        return descriptor

    def write(self, record: SandboxRecord, descriptor: int) -> None:
        """Update a record. The file never gets shorter, so its content is valid at every moment."""
        os.pwrite(descriptor, record.to_json(), 0)

    def held(self, session_id: SessionId) -> LockedRecord | None:
        """The record of a running sandbox; None if it does not run, even if a record exists."""
        try:
            descriptor = os.open(self._directory / session_id, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if _try_lock(descriptor):
                return None
            text = os.pread(descriptor, 1 << 16, 0)
            return (
                LockedRecord(SandboxRecord.from_json(text), _lock_holder(descriptor))
                if text
                else None
            )
        finally:
            os.close(descriptor)

    def stale(self, session_id: SessionId) -> tuple[int, SandboxRecord | None] | None:
        """The record of an ended sandbox, with its lock, to be held during the cleanup."""
        descriptor = _lock_file(self._directory / session_id, 0)
        if descriptor is None:
            return None
        text = os.pread(descriptor, 1 << 16, 0)
        return descriptor, SandboxRecord.from_json(text) if text else None

    def forget(self, session_id: SessionId, descriptor: int) -> None:
        """Delete the record and release its lock."""
        (self._directory / session_id).unlink(missing_ok=True)
        os.close(descriptor)


class UidLeases:
    """Leases UIDs of a range, each to one holder at a time on the whole machine."""

    def __init__(self, directory: Path, first: int, count: int) -> None:
        self._directory = directory
        self._range = range(first, first + count)

    def __contains__(self, number: int) -> bool:
        return number in self._range

    def take(self, wanted: Sequence[int]) -> tuple[int, int] | None:
        """Lease the first free UID of `wanted`, or any other free UID. Returns the UID and the
        descriptor that holds the lease."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        start = next(iter(wanted), self._range.start) - self._range.start
        others = (self._range[(start + n) % len(self._range)] for n in range(len(self._range)))
        for number in (*(n for n in wanted if n in self._range), *others):
            descriptor = _lock_file(self._directory / str(number), os.O_CREAT)
            if descriptor is not None:
                return number, descriptor
        return None

    def tidy(self, number: int) -> None:
        """Remove the file of a free UID, and the directory if it is empty."""
        path = self._directory / str(number)
        if number in self and (descriptor := _lock_file(path, 0)) is not None:
            path.unlink()
            os.close(descriptor)
            with contextlib.suppress(OSError):
                self._directory.rmdir()


def claim(descriptor: int) -> None:
    """Called by the server itself: makes the kernel report its PID as the holder of the lock."""
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_file(path: Path, flags: int) -> int | None:
    """A locked descriptor.

    None if another process has the lock, or if the file is missing and `flags` lack `O_CREAT`.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        except FileNotFoundError:
            if flags and not path.parent.exists():  # `tidy` of another process just removed it
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                continue
            return None
        if not _try_lock(descriptor):
            os.close(descriptor)
            return None
        if _is_same_file(path, descriptor):
            return descriptor
        os.close(descriptor)  # the file was removed between open and lock: try again


def _lock_holder(descriptor: int) -> int | None:
    query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    return None if kind == fcntl.F_UNLCK or pid <= 0 else pid


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            return False
        raise
    return True


def _is_same_file(path: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
