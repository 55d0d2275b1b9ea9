"""What runs all tests: each stage is counted, and none is lost or left running."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts.stages import Counts, Run

FIRST = """<testsuites><testsuite>
<testcase classname="a" name="good" /><testcase classname="a" name="unlucky"><failure /></testcase>
<testcase classname="a" name="bad"><failure /></testcase>
<testcase classname="b" name="good"><skipped /></testcase>
<testcase classname="b" name="ends badly" />
<testcase classname="b" name="ends badly"><error /></testcase>
</testsuite></testsuites>"""
SECOND = """<testsuites><testsuite>
<testcase classname="a" name="unlucky" /><testcase classname="a" name="bad"><failure /></testcase>
<testcase classname="b" name="ends badly" />
</testsuite></testsuites>"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_tests_that_pass_on_the_second_try_count_as_passed_and_are_listed(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first").write_text(FIRST)
    (tmp_path / "second").write_text(SECOND)
    leave = 'cd "$TEST_RESULTS"; cp first $STAGE-1.xml; cp second $STAGE-2.xml; exit 1'

    assert run.stage("quick", "true")
    assert not run.stage("tests", "sh", "-c", leave)
    run.show()

    assert run.ended[1].counts == Counts(
        passed=3, again=("a::unlucky", "b::ends badly"), failed=("a::bad",), skipped=1
    )
    said = capfd.readouterr().out.splitlines()
    table = next(at for at, line in enumerate(said) if line.startswith("stage "))
    assert [line.split()[:2] for line in said[table : table + 3]] == [
        ["stage", "time"],
        ["quick", "0:00"],
        ["tests", "(exit"],
    ]
    assert sum(line.startswith("allowed to pass at the second try") for line in said) == 1
    assert any(line.startswith("  a::unlucky: fails the run") for line in said)
    assert said[said.index("failed:") + 1] == "  a::bad"
    assert said[-1] == (
        "1 failed, 3 passed, 1 skipped, 2 at the second try (a::unlucky, b::ends badly), "
        "failed stages: tests"
    )


def test_the_output_of_a_background_stage_is_printed_when_it_ends(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "gate")
    run.begin("beside", "sh", "-c", 'echo early; read word < "$TEST_RESULTS/gate"; echo late')
    run.stage("before", "sh", "-c", 'echo meanwhile; echo go > "$TEST_RESULTS/gate"')
    run.join()

    said = capfd.readouterr().out.split()
    assert said == ["==", "before", "meanwhile", "==", "beside", "early", "late"]
    assert {stage.name: stage.status for stage in run.ended} == {"before": 0, "beside": 0}


def test_a_queued_stage_starts_after_the_background_stage(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    run.begin("beside", "sh", "-c", 'read word < "$TEST_RESULTS/gate"')
    run.queue("queued", "sh", "-c", 'echo up > "$TEST_RESULTS/gate"; exit 3')
    run.stage("before", "sh", "-c", 'echo go > "$TEST_RESULTS/gate"; read w < "$TEST_RESULTS/gate"')
    run.begin_queued()

    assert not run.join()

    assert {each.name: each.status for each in run.ended} == {"beside": 0, "before": 0, "queued": 3}


def test_a_queued_stage_starts_earlier_if_the_background_stage_takes_longer(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "gate")
    run.begin("beside", "sh", "-c", 'read word < "$TEST_RESULTS/gate"')
    run.queue("queued", "sh", "-c", 'echo go > "$TEST_RESULTS/gate"; echo late')
    run.stage("before", "true")
    run.begin_queued()

    assert run.join()

    assert len(run.ended) == 3
    assert capfd.readouterr().out.split() == [
        "==",
        "before",
        "==",
        "beside",
        "==",
        "queued",
        "late",
    ]


def test_an_interrupt_starts_no_stage_from_the_queue(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    run.begin("beside", "sh", "-c", 'echo > "$TEST_RESULTS/up"; exec sleep 600')
    run.queue("queued", "true")
    (tmp_path / "up").read_text()

    run.interrupt()

    assert [stage.name for stage in run.ended] == ["beside"]


def test_an_interrupt_ends_the_background_stage_and_its_processes(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    program = """exec bash -c 'echo $$ > "$TEST_RESULTS/up"; exec sleep 600'"""
    run.begin("beside", "bash", "-c", f"trap 'exit 3' INT; ({program}); true")
    child = int((tmp_path / "up").read_text())

    run.interrupt()

    assert run.ended[0].status == 3
    assert subprocess.run(["ps", "-p", str(child)], stdout=subprocess.DEVNULL).returncode == 1
