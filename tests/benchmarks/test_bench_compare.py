"""Two commits measured by turns: ratios by median and by round, kept for the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.cases.window import Window
from benchmarks.compare import Comparison, Key, flatten, saved

ABOUT = {
    "old": "0000001",
    "new": "0000002",
    "date": "2030-01-01 12:00 UTC",
    "rounds": 2,
    "load_start": "0.1",
    "load_end": "0.2",
}
COLD = ("sessions", "bascule-sessions", "cold")


def test_a_comparison_row_has_both_medians_their_ratio_and_the_ratio_range() -> None:
    comparison = Comparison(
        old=[{COLD: 0.5}, {COLD: 0.5}], new=[{COLD: 0.4}, {COLD: 0.6}], about=ABOUT
    )
    assert list(comparison.rows()) == [
        ["sessions · bascule-sessions · cold", "0.500", "0.500", "1.00x", "0.800 – 1.20"]
    ]


def test_a_figure_that_only_one_commit_has_is_shown_without_a_ratio() -> None:
    comparison = Comparison(old=[{}], new=[{COLD: 0.4}], about=ABOUT)
    assert list(comparison.rows()) == [
        ["sessions · bascule-sessions · cold", "–", "0.400", "–", "–"]
    ]


def test_a_saved_comparison_is_read_back(tmp_path: Path) -> None:
    comparison = Comparison(old=[{COLD: 0.5}], new=[{COLD: 0.25}], about=ABOUT)
    comparison.save(tmp_path / "comparison.json")
    again = Comparison.load(tmp_path / "comparison.json")
    assert again == comparison
    assert "0.500x" in again.table_of()
    assert [each.heading() for each in saved(tmp_path)] == [comparison.heading()]


def test_the_table_of_a_case_has_only_its_own_figures() -> None:
    small = ("proxy", "bascule-proxy", "small_cpu")
    comparison = Comparison(old=[{COLD: 0.5, small: 1.0}], new=[{COLD: 0.4}], about=ABOUT)
    assert comparison.cases == {"sessions", "proxy"}
    assert [row[0] for row in comparison.rows("proxy")] == ["proxy · bascule-proxy · small_cpu"]


def test_actions_in_a_window_are_compared_as_multiples_of_an_echo() -> None:
    def taken(echo: float, edit: float) -> dict[Key, float]:
        return {
            ("window", "bascule-window", "echo"): echo,
            ("window", "bascule-window", "edit"): edit,
        }

    comparison = Comparison(
        old=[taken(0.001, 0.1), taken(0.002, 0.3)],
        new=[taken(0.001, 0.01), taken(0.004, 0.02)],
        about=ABOUT,
    )
    rows = [line for line in Window().compare(comparison).splitlines() if "**edit**" in line]
    assert [cell.strip() for cell in rows[0].split("|")[2:-1]] == [
        *("200", "15.0"),
        *("125x", "7.50x", "5.00 – 10.0", "0.033 – 0.100"),
    ]


def test_only_numbers_are_compared_by_the_median_of_their_rounds() -> None:
    taken: list[dict[str, Any]] = [
        {"round": 0, "cold": 1.0, "exact": True, "note": "x"},
        {"round": 1, "cold": 3, "exact": True},
        {"round": 2, "cold": 2.0},
    ]
    assert flatten({"sessions": {"bascule-sessions": taken}}) == {COLD: 2.0}
