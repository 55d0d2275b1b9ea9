"""Files that are meant to hang or fill the machine: each is answered, in time and in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from bascule.net import load

from .hostile import Hostile, hostile

CASES = hostile()
SECONDS = 5
MEGABYTES = 300
MEASURE = Path(__file__).with_name("measure.py")
EXAMPLE = Path(__file__).parents[2] / "examples/approval.evolve.yaml"

pytestmark = pytest.mark.slow


def named(case: Hostile) -> str:
    return case.name


def test_there_are_at_least_sixty_hostile_files() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


class Commands:
    """Runs commands of Bascule one after the other in forks of one process, which is faster than
    starting Python for each."""

    def __init__(self) -> None:
        program = [sys.executable, str(MEASURE), str(3 * SECONDS), "net", "check", str(EXAMPLE)]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()

    def run(self, *arguments: str) -> tuple[int, str, float, float]:
        """Exit status, stdout, seconds of CPU and megabytes of a command.

        CPU, because a busy machine does not change it. The kernel ends the command after three
        times the limit.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(arguments)}\n")
        self._process.stdin.flush()
        used = json.loads(self._process.stdout.readline())
        assert used["status"] in (0, 2, 5), used
        return used["status"], used["output"], used["seconds"], used["kib"] / 1024


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands() as commands:
        yield commands


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_hostile_file_is_handled_within_time_and_memory_limits(
    case: Hostile, commands: Commands, tmp_path: Path
) -> None:
    file = tmp_path / case.file
    file.write_bytes(case.make())

    status, output, seconds, megabytes = commands.run("net", "check", "--json", str(file))

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


def test_the_memory_measurement_excludes_the_test_process() -> None:
    held = b"x" * (MEGABYTES << 20)

    with Commands() as commands:
        _, _, _, megabytes = commands.run("--version")

    assert 5 < megabytes < len(held) >> 21
