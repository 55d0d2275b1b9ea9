"""The log on disk: addressed by position, searched by line, bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.core.errors import InvalidPattern, InvalidRange, LogRangeGone
from bascule.sandbox.shell import log as module
from bascule.sandbox.shell.log import DiskLog


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.binary(max_size=3000), max_size=60))
def test_retained_log_data_reads_as_it_was_written(tmp_path: Path, pieces: list[bytes]) -> None:
    log = DiskLog(tmp_path / "log", limit=20_000)
    for piece in pieces:
        log.append(piece)
    whole = b"".join(pieces)
    assert log.end == len(whole)
    assert log.read(log.start) == whole[log.start :]
    assert log.end - log.start <= 20_000 * 9 // 8 + 4096
    log.close()


@pytest.mark.parametrize("holes", [True, False])
def test_positions_stay_when_the_oldest_part_is_dropped(
    tmp_path: Path, holes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not holes:
        monkeypatch.setattr(module, "_punch_hole", lambda *_: False)
    log = DiskLog(tmp_path / "log", limit=100_000)
    for number in range(100_000):
        log.append(b"%09d\n" % number)
    assert log.start > 0
    assert log.read(999_990, 1_000_000) == b"000099999\n"
    assert (tmp_path / "log").stat().st_blocks * 512 < 200_000
    with pytest.raises(LogRangeGone, match=f"starts at {log.start}"):
        log.read(0, 10)
    (match,) = log.search("099999$")
    assert (match.offset, match.text) == (999_990, "000099999")
    log.close()


def test_bad_ranges_and_patterns_are_named(tmp_path: Path) -> None:
    log = DiskLog(tmp_path / "log", limit=1000)
    log.append(b"abc\n")
    with pytest.raises(InvalidRange, match="it holds 0 to 4"):
        log.read(3, 1)
    with pytest.raises(InvalidRange):
        log.read(-1)
    with pytest.raises(InvalidPattern, match="unterminated"):
        log.search("[")
    log.close()


def test_a_log_search_covers_the_given_range(tmp_path: Path) -> None:
    log = DiskLog(tmp_path / "log", limit=1 << 20)
    log.append(b"".join(b"line %d\n" % n for n in range(1000)) + b"no newline")
    assert [m.text for m in log.search("line 99", limit=3)] == ["line 99", "line 990", "line 991"]
    assert [m.text for m in log.search("newline")] == ["no newline"]
    assert [m.text for m in log.search("line", start=log.end - 19, limit=9)] == [
        "line 999",
        "no newline",
    ][:2]
    log.close()


def test_a_full_disk_stops_the_log_but_not_the_shell(tmp_path: Path) -> None:
    log = DiskLog(tmp_path / "log", limit=1000)
    log.append(b"before")
    good, log._fd = log._fd, os.open("/dev/full", os.O_RDWR)
    log.append(b"lost")
    os.close(log._fd)
    log._fd = good
    log.append(b"after")
    assert (log.lost, log.end) == (4, 15)
    with pytest.raises(LogRangeGone):
        log.read(6, 10)
    assert log.read(10) == b"after"
    log.close()


@pytest.mark.slow
def test_an_endless_log_search_pattern_is_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SEARCH_TIMEOUT", 0.5)
    log = DiskLog(tmp_path / "log", limit=100_000)
    log.append(b"a" * 60 + b"b\n")
    with pytest.raises(InvalidPattern, match="was not done after"):
        log.search("(a+)+$")
    log.close()
