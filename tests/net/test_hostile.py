"""Files that are meant to hang or fill the machine: each is answered, in time and in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.net import load

from .hostile import Hostile, hostile

CASES = hostile()
SECONDS = 5
MEGABYTES = 300
MEASURE = Path(__file__).with_name("measure.py")

pytestmark = pytest.mark.slow


def named(case: Hostile) -> str:
    return case.name


def test_there_are_at_least_sixty_hostile_files() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_hostile_file_is_handled_within_time_and_memory_limits(
    case: Hostile, tmp_path: Path
) -> None:
    file = tmp_path / case.file
    file.write_bytes(case.make())

    status, output, seconds, megabytes = _bascule(
        tmp_path / "usage", "net", "check", "--json", str(file)
    )

    found = json.loads(output)
    errors = [each["code"] for each in found if each["severity"] == "error"]
    assert status == (2 if case.code else 0), found[:3]
    assert case.code in errors if case.code else not errors
    assert all(each["message"] and each["line"] >= 1 for each in found)
    assert len(output) < 100_000
    assert seconds < SECONDS
    assert megabytes < MEGABYTES


@pytest.mark.parametrize("case", [case for case in CASES if not case.code], ids=named)
def test_hostile_files_that_are_valid_nets_load_correctly(case: Hostile, tmp_path: Path) -> None:
    file = tmp_path / case.file
    file.write_bytes(case.make())

    net = load(file).unwrap()

    assert len(net.places) == case.places
    assert sum(len(place.initial) for place in net.places.values()) == case.tokens


def _bascule(usage: Path, *arguments: str) -> tuple[int, str, float, float]:
    """Exit status, stdout, seconds of CPU and megabytes of a command; `usage` is a file to use.

    CPU, since that is what a busy machine does not change. The kernel ends it at three times that.
    """
    bascule = [sys.executable, "-m", "bascule", *arguments]
    ended = subprocess.run(
        [sys.executable, str(MEASURE), str(usage), str(3 * SECONDS), *bascule],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, 2, 5), ended.stderr
    used = json.loads(usage.read_text())
    return ended.returncode, ended.stdout, used["seconds"], used["kib"] / 1024


def test_the_memory_measurement_excludes_the_test_process(tmp_path: Path) -> None:
    held = b"x" * (MEGABYTES << 20)

    _, _, _, megabytes = _bascule(tmp_path / "usage", "--version")

    assert 5 < megabytes < len(held) >> 21
