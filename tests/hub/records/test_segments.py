"""A record's files: what is appended, read, dropped, and found again after a kill."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bascule.core.errors import StorageFailed
from bascule.hub.records.segments import RecordLine, Segments
from bascule.wire import to_json


def line(number: int, *, time: float = 0.0, padding: int = 0) -> RecordLine:
    value = {"n": number, "kind": "action", "time": time, "padding": "x" * padding}
    return RecordLine(number, to_json(value) + b"\n", time)


def opened(directory: Path, *, max_bytes: int = 1 << 20) -> Segments:
    segments = Segments(directory, max_bytes=max_bytes)
    segments.open()
    return segments


def numbers(segments: Segments, **keywords: int) -> list[int]:
    return [number for number, _ in segments.read(**keywords)]


def size_of(directory: Path) -> int:
    return sum(each.stat().st_size for each in directory.iterdir())


def test_segments_are_read_in_order_and_appended_to_after_reopening(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.append([line(1), line(2)])
    first.append([line(3)])
    again = Segments(tmp_path, max_bytes=1 << 20)
    newest = again.open()
    assert newest is not None
    assert newest["n"] == again.last == 3
    assert again.epoch == first.epoch
    again.append([line(4)])
    assert numbers(again) == [1, 2, 3, 4]
    assert numbers(again, after=2) == [3, 4]


def test_segment_files_are_readable_only_by_the_hub(tmp_path: Path) -> None:
    segments = opened(tmp_path / "made")
    segments.append([line(1)])
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    assert [each.stat().st_mode & 0o777 for each in (tmp_path / "made").iterdir()] == [0o600]


def test_a_partial_line_is_skipped_but_later_lines_are_read(tmp_path: Path) -> None:
    opened(tmp_path).append([line(1), line(2)])
    (file,) = tmp_path.iterdir()
    os.truncate(file, file.stat().st_size - 5)
    again = opened(tmp_path)
    assert again.last == 1
    again.append([line(2), line(3)])
    assert numbers(again) == [1, 2, 3]


def test_a_long_line_at_the_end_is_found(tmp_path: Path) -> None:
    segments = opened(tmp_path, max_bytes=64 << 20)
    segments.append([line(1), line(2, padding=3_000_000)])
    again = Segments(tmp_path, max_bytes=64 << 20)
    newest = again.open()
    assert newest is not None
    assert newest["n"] == 2


def test_segments_never_exceed_their_size_limit(tmp_path: Path) -> None:
    segments = opened(tmp_path, max_bytes=100_000)
    for number in range(1, 1001):
        segments.append([line(number, padding=1000)])
        assert size_of(tmp_path) <= 105_000
    kept = numbers(segments)
    assert kept == list(range(kept[0], 1001))
    assert len(kept) > 70


def test_expired_entries_are_removed_and_their_numbers_not_reused(tmp_path: Path) -> None:
    segments = opened(tmp_path)
    segments.append([line(1, time=0.0), line(2, time=90_000.0)])
    old, new = sorted(tmp_path.iterdir())
    os.utime(old, (0, 0))
    os.utime(new, (90_000, 90_000))
    segments.sweep(before=50_000.0)
    assert numbers(segments) == [2]
    segments.sweep(before=100_000.0)
    assert numbers(segments) == []
    assert segments.is_empty()
    again = opened(tmp_path)
    assert (again.last, again.epoch) == (2, segments.epoch)


def test_a_smaller_limit_applies_from_the_next_sweep(tmp_path: Path) -> None:
    opened(tmp_path, max_bytes=1 << 20).append([line(n, padding=2000) for n in range(1, 401)])
    small = opened(tmp_path, max_bytes=200_000)
    small.sweep(before=0.0)
    assert size_of(tmp_path) <= 200_000
    assert numbers(small)[-1] == 400


def test_the_newest_part_can_be_read_by_itself(tmp_path: Path) -> None:
    segments = opened(tmp_path, max_bytes=400_000)
    segments.append([line(n, padding=1000) for n in range(1, 301)])
    found = numbers(segments, max_bytes=100_000)
    assert found == list(range(found[0], 301))
    assert 90 <= len(found) <= 100


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As on a full disk, a write past it is cut short and the next fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_keeps_existing_entries(tmp_path: Path) -> None:
    segments = opened(tmp_path)
    segments.append([line(1)])
    (file,) = tmp_path.iterdir()
    before = file.read_bytes()
    with files_no_larger_than(len(before) + 10), pytest.raises(StorageFailed):
        segments.append([line(2)])
    assert file.read_bytes() == before
    segments.append([line(2)])
    assert numbers(segments) == [1, 2]
