"""The hub's page with many actions: how smoothly it scrolls, and whether it keeps up with more."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_PAGE, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table
from benchmarks.workers import Worker

TIMEOUT = 300.0
ACTIONS = 20_000
FRAMES = 240
PACE = 1000
SECONDS = 5.0

FIGURES = {
    "sign_in_drawn": ("token sent until the page is drawn", 1000, "ms"),
    "first_paint": ("address opened until the first paint", 1000, "ms"),
    "frame_p95": (f"**p95 of frames while {ACTIONS:,} actions are scrolled**", 1000, "ms"),
    "frame_worst": ("the worst of those frames", 1000, "ms"),
    "rows": ("rows in the document at most", 1, ""),
    "shown_per_second": (f"actions shown per second, {PACE:,} arriving", 1, ""),
    "lag": ("last action done until it is shown", 1000, "ms"),
    "longest_task": ("longest task that blocked the page", 1000, "ms"),
}


class Dashboard(Case):
    name = "dashboard"
    title = "The hub's page"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask(
            "page", timeout=TIMEOUT, actions=ACTIONS, frames=FRAMES, pace=PACE, seconds=SECONDS
        )

    def report(self, results: Results) -> str:
        how = (
            "In headless Chromium without a graphics card, with an empty cache. Each action is\n"
            "two events: its start and its observation. Chromium reports only tasks longer than\n"
            "50 ms.\n"
        )
        rows = []
        for name, (title, scale, unit) in FIGURES.items():
            values = results.values(self.name, BASCULE_PAGE, name)
            median = results.median(self.name, BASCULE_PAGE, name)
            shown = None if median is None else median * scale
            rows.append([title, figure(shown), span(values, scale), unit])
        return "\n".join([how, table(["", "median", "rounds", ""], rows)])


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Dashboard.name])
