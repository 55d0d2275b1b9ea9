"""Files that are meant to hang or fill the machine: each is answered, in time and in memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.net import load

from .hostile import Hostile, hostile

CASES = hostile()
SECONDS = 5
MEGABYTES = 300

pytestmark = pytest.mark.slow


def named(case: Hostile) -> str:
    return case.name


def test_there_are_sixty_of_them_and_more() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_hostile_file_is_answered_in_time_and_memory(case: Hostile, tmp_path: Path) -> None:
    file = tmp_path / case.file
    file.write_bytes(case.make())

    status, output, seconds, megabytes = _bascule("net", "check", "--json", str(file))

    found = json.loads(output)
    errors = [each["code"] for each in found if each["severity"] == "error"]
    assert status == (2 if case.code else 0), found[:3]
    assert case.code in errors if case.code else not errors
    assert all(each["message"] and each["line"] >= 1 for each in found)
    assert len(output) < 100_000
    assert seconds < SECONDS
    assert megabytes < MEGABYTES


@pytest.mark.parametrize("case", [case for case in CASES if not case.code], ids=named)
def test_what_is_a_net_all_the_same_is_read_right(case: Hostile, tmp_path: Path) -> None:
    file = tmp_path / case.file
    file.write_bytes(case.make())

    net = load(file).unwrap()

    assert len(net.places) == case.places
    assert sum(len(place.initial) for place in net.places.values()) == case.tokens


def _bascule(*arguments: str) -> tuple[int, str, float, float]:
    """Exit status, stdout, seconds of CPU and megabytes of a command.

    CPU, since that is what a busy machine does not change. The kernel ends it at three times that.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "bascule", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_limit,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        output = process.stdout.read()
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 2, 5), said
    return process.returncode, output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (3 * SECONDS, 3 * SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
