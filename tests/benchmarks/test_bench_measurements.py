"""Measurements report what a subject did, wrong answers above all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.peers.measurements import Measurements, percentile
from benchmarks.peers.raw_pty import RawPty, RawShell
from benchmarks.peers.subject import Answer, Cells, Files, Refused, Subject
from benchmarks.peers.trials import Trials


class Scripted(Subject[None], Files):
    """Answers from a table; files are kept as they are, cut to `cut` characters when read."""

    name = "scripted"

    def __init__(self, answers: Mapping[str, Answer], cut: int | None = None) -> None:
        self._answers = answers
        self._cut = cut

    async def open(self) -> None:
        return None

    async def run(self, shell: None, command: str, timeout: float) -> Answer:
        return self._answers.get(command, Answer("", 0))

    async def close(self, shell: None) -> None:
        return None

    async def read(self, path: str) -> str:
        return Path(path).read_text()[: self._cut]

    async def write(self, path: str, text: str) -> None:
        Path(path).write_text(text)

    async def edit(self, path: str, old: str, new: str) -> None:
        raise Refused("has no editor")


async def test_the_expected_answers_of_the_endurance_series_match_bash() -> None:
    shell = RawShell()
    shell.run("export PS2=")
    try:
        for trial in Trials(seed=1).take(150):
            output, status = shell.run(trial.command)

            assert (output.decode(), status) == (trial.output, trial.status)
    finally:
        shell.close()


async def test_every_wrong_answer_is_counted() -> None:
    seen = await Measurements(Scripted({"true": Answer("stray", 0)})).latency(count=5, warmup=0)

    assert seen["wrong"] == 5


async def test_a_wrong_status_in_the_endurance_series_is_counted() -> None:
    seen = await Measurements(Scripted({})).endure(count=50, seed=2)

    assert 0 < seen["wrong"] <= 50
    assert seen["examples"]


async def test_the_endurance_series_resumes_where_it_stopped() -> None:
    measurements = Measurements(RawPty())

    assert (await measurements.endure(count=20, seed=3))["wrong"] == 0
    assert (await measurements.endure(count=20, seed=3))["wrong"] == 0
    await measurements.endure_end()


@pytest.mark.parametrize(
    ("output", "complete", "exact"),
    [("ab\nab\n", True, True), ("ab\r\nab", True, False), ("ab\n", False, False)],
)
async def test_output_is_checked_to_the_byte(output: str, complete: bool, exact: bool) -> None:
    subject = Scripted({"print": Answer(output, 0)})

    seen = await Measurements(subject).output("print", piece="ab\n", repeat=2, limit=5)

    assert (seen["complete"], seen["exact"]) == (complete, exact)


async def test_a_partially_read_file_yields_a_reason_instead_of_a_time() -> None:
    seen = await Measurements(Scripted({}, cut=100)).files(size=1024, repeats=2)

    assert seen["read"] == "100 of 1024 characters"
    assert seen["write"] > 0
    assert seen["edit"] == "has no editor"


async def test_plain_files_are_read_written_and_edited() -> None:
    seen = await Measurements(RawPty()).files(size=5000, repeats=3)

    assert all(seconds > 0 for seconds in seen.values())


async def test_a_benchmark_of_a_missing_capability_is_refused() -> None:
    with pytest.raises(Refused, match="has no server"):
        await Measurements(RawPty()).server_start()


def test_a_percentile_is_one_of_the_measured_values() -> None:
    values = [float(n) for n in range(1, 101)]

    assert percentile(values, 95) == 95.0
    assert percentile([3.0], 95) == 3.0
    assert percentile([1.0, 2.0, 9.0], 95) == 9.0


class WithCells(Scripted, Cells):
    """Counts its cells, and forgets one in four."""

    def __init__(self) -> None:
        super().__init__({})
        self.count = -2

    async def run_cell(self, code: str) -> str:
        self.count += 1
        return "" if self.count % 4 == 0 else str(self.count)

    async def end_kernel(self) -> None:
        self.count = -1


async def test_every_wrong_cell_is_counted() -> None:
    seen = await Measurements(WithCells()).cells(count=8, warmup=0)

    assert seen["wrong"] == 2
    assert 0 < seen["median"] <= seen["p95"]


async def test_subjects_without_cells_are_skipped() -> None:
    with pytest.raises(Refused):
        await Measurements(Scripted({})).cells(count=1, warmup=0)
