"""The report says what was seen: figures, ratios, goals, gaps and reasons."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from benchmarks import plot, report
from benchmarks.__main__ import CASES
from benchmarks.cases.case import Effort
from benchmarks.cases.latency import Latency
from benchmarks.cases.output import completeness
from benchmarks.entrants import (
    BASCULE,
    BASCULE_WINDOW,
    ENTRANTS,
    OPENHANDS_TMUX,
    RAW,
    SWE_REX,
)
from benchmarks.goals import goals
from benchmarks.results import Results
from benchmarks.run import Forecast, Step
from benchmarks.tables import figure, span


@pytest.fixture
def results() -> Results:
    results = Results(
        about={
            "date": "2030-01-01 12:00 UTC",
            "machine": {"kernel": "6.1"},
            "versions": {"swe-rex": "1.4.0"},
            "load_start": "0.1",
            "load_end": "0.2",
            "rounds": 3,
            "endurance": 10,
            "minutes": 1.0,
        },
        skipped={"swe-rex": "no Python 3.12 on this machine"},
    )
    for raw, ours in ((0.0001, 0.0004), (0.0002, 0.0003), (0.0003, 0.0002)):
        results.add("latency", RAW, {"median": raw, "p95": raw, "wrong": 0})
        results.add("latency", BASCULE, {"median": ours, "p95": ours, "wrong": 0})
    results.add("endurance", BASCULE, {"wrong": 1, "commands": 10, "seconds": 1.0, "examples": []})
    return results


def test_a_figure_is_the_median_of_the_rounds(results: Results) -> None:
    assert results.median("latency", BASCULE, "median") == 0.0003
    assert results.ratio("latency", (BASCULE, RAW), "median") == pytest.approx(1.5)
    assert results.total("latency", BASCULE, "wrong") == 0
    assert results.median("latency", SWE_REX, "median") is None


def test_a_reason_in_place_of_a_figure_is_not_counted(results: Results) -> None:
    results.add("files", BASCULE, {"edit 1 KB": "has no editor"})
    results.add_problem("startup", BASCULE, "the worker ended")

    assert results.median("files", BASCULE, "edit 1 KB") is None
    assert results.reason("files", BASCULE, "edit 1 KB") == "has no editor"
    assert results.reason("startup", BASCULE, "ready") == "the worker ended"


def test_goals_are_reported_as_met_missed_or_not_measured(results: Results) -> None:
    rows = {row[0]: row[1:] for row in report.goal_rows(results)}

    assert rows["`true` in process, of raw pty"] == ["≤ 3.50x", "1.50x", "0.667 – 4.00", "yes"]
    assert rows["wrong of 10 commands under load, in process"] == ["≤ 0", "1", "", "**no**"]
    assert rows["server start to `/alive`"][-1] == "not measured"


def test_ratios_are_taken_within_a_round(results: Results) -> None:
    results.rounds["latency"][RAW.name] = [{"round": 2, "median": 0.0001}]

    assert results.ratios("latency", (BASCULE, RAW), "median") == pytest.approx([2.0])


def test_an_aborted_endurance_series_misses_its_goal(results: Results) -> None:
    results.rounds["endurance"]["bascule"] = [{"wrong": 0, "commands": 5, "seconds": 1.0}]
    results.add_problem("endurance", BASCULE, "the worker ended")

    held = {goal.text: goal.holds(results) for goal in goals(10)}

    assert held["wrong of 10 commands under load, in process"] is None


def test_a_goal_with_a_minimum_is_met_at_that_minimum(results: Results) -> None:
    floor = next(goal for goal in goals(10) if "OpenHands" in goal.text)
    results.add("latency", OPENHANDS_TMUX, {"median": 0.09})
    assert floor.holds(results) is True

    results.rounds["latency"][OPENHANDS_TMUX.name] = [{"median": 0.08}]
    assert floor.holds(results) is False


def test_window_figures_are_compared_with_the_echo_of_the_same_round(results: Results) -> None:
    for echo, read, true in ((0.001, 0.003, 0.005), (0.002, 0.004, 0.004), (0.003, 0.009, 0.005)):
        seen = {"echo": echo, "read": read, "true": true}
        results.add(
            "window", BASCULE_WINDOW, {**seen, "read_file": 0.004, "shell_integration": 0.04}
        )

    rows = {row[0]: row[1:] for row in report.goal_rows(results)}

    assert rows["1 KB read in a window less a bare echo, of `workspace.fs.readFile` (aim)"] == [
        *("≤ 1.50x", "0.500x", "0.500 – 1.50", "yes")
    ]
    assert rows["`true` in a window less a bare echo (aim)"] == [
        *("≤ 3 ms", "3.00 ms", "2.00 – 4.00", "yes")
    ]
    assert rows["`true` in a window, faster than VS Code's shell integration"] == [
        *("≥ 10x", "8.00x", "8.00 – 10.0", "**no**")
    ]


def test_a_round_that_lacks_a_part_of_a_combined_figure_is_left_out(results: Results) -> None:
    results.add("window", BASCULE_WINDOW, {"true": 0.004})
    results.add("window", BASCULE_WINDOW, {"true": 0.004, "shell_integration": 0.06})
    floor = next(goal for goal in goals(10) if "shell integration" in goal.text)

    assert floor.measured.rounds(results) == pytest.approx([15.0])
    assert floor.holds(results) is True


def test_the_window_section_has_its_actions_and_the_reload_time(results: Results) -> None:
    seen = {"true": 0.004, "true_p95": 0.01, "wrong": 0, "reload": 6.0, "reload_editor": 5.0}
    results.add("window", BASCULE_WINDOW, seen)

    text = report.render(results, CASES)

    assert "| **run** of `true` | 4.00 | 4.00 – 4.00 | 10.0 |" in text
    assert "| **reload until the agent's next action is answered** | 6.00 | 6.00 – 6.00 |" in text
    assert "Wrong answers of the window: 0." in text


def test_the_report_names_what_was_skipped_and_why(results: Results) -> None:
    text = report.render(results, CASES)

    assert "| swe-rex | **skipped: no Python 3.12 on this machine** |" in text
    assert "## Latency of `true`" in text
    assert "| bascule | 0.300 | 0.200 – 0.400 |" in text
    assert "## Files" not in text


def test_a_round_without_a_figure_is_named_under_its_table(results: Results) -> None:
    results.add_problem("latency", SWE_REX, "no answer to 'latency' in 180 s")

    assert "- swe-rex: no answer to 'latency' in 180 s" in report.render(results, CASES)


def test_figures_survive_saving_and_loading(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path / "results.json")

    assert Results.load(tmp_path / "results.json") == results


@pytest.mark.slow
def test_cases_of_a_later_run_replace_earlier_ones_and_name_their_date_and_commit(
    results: Results,
) -> None:
    later = copy.deepcopy(results)
    later.about |= {"date": "another day", "versions": {"commit": "abc1234"}}
    later.rounds["latency"] = {BASCULE.name: [{"p50": 0.5}]}

    results.put(later, ["latency"])

    assert results.values("latency", BASCULE, "p50") == [0.5]
    assert report.render(results, CASES).count("another day, commit abc1234") == 1


def test_the_plot_can_be_drawn_from_partial_figures(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `bench` is not installed")
    plot.draw(results, tmp_path / "results.svg")

    assert "<svg" in (tmp_path / "results.svg").read_text()


def test_completeness_is_reported_for_the_worst_round() -> None:
    whole = {"complete": True, "exact": True, "got": 10, "expected": 10, "note": ""}
    part = {"complete": False, "exact": False, "got": 4, "expected": 1000, "note": ""}

    assert completeness([whole, whole]) == "yes, every byte"
    assert completeness([whole, {**whole, "exact": False}]) == "yes"
    assert completeness([whole, part]) == "no: 4 of 1,000 characters"
    assert completeness([{**part, "note": "no end after 45 s"}]) == "no end after 45 s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[
            (0, "0"),
            (4, "4"),
            (12345, "12,345"),
            (0.0042, "0.0042"),
            (0.123456, "0.123"),
            (4.5678, "4.57"),
        ],
        *[(45.678, "45.7"), (456.7, "457"), (45678.9, "45,679"), (None, "–")],
    ],
)
def test_figures_have_three_digits_that_matter(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_a_range_is_printed_from_minimum_to_maximum() -> None:
    assert span([0.2, 0.1, 0.3], 1000) == "100 – 300"
    assert span([]) == "–"


def test_a_full_run_measures_bascule_for_at_least_seven_rounds_per_case() -> None:
    ours = [entrant for entrant in ENTRANTS if "bascule" in entrant.name]
    counts = {case.name: max(case.rounds(entrant, Effort()) for entrant in ours) for case in CASES}

    assert all(count >= 7 for count in counts.values()), counts


def test_names_are_unique() -> None:
    for names in ([case.name for case in CASES], [entrant.name for entrant in ENTRANTS]):
        assert len(set(names)) == len(names)


def test_the_time_forecast_uses_the_durations_of_completed_steps() -> None:
    forecast = Forecast()
    ahead = [Step(Latency(), RAW, 1), Step(Latency(), SWE_REX, 1)]
    before = forecast.remaining(ahead)

    forecast.note(Step(Latency(), SWE_REX, 0), 100.0)

    assert forecast.remaining(ahead) > before
