"""A page in the sandbox's browser: the first, which starts it, and the next."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, span, table
from benchmarks.workers import Worker

COUNT = 15
TIMEOUT = 120.0

WAYS = {
    "first": "**first `browse`**, including the start of all processes",
    "next": "**next `browse`**: page loaded, text read, screenshot taken",
    "interactive": "`browse_interactive` that does nothing: tree, screenshot, set-of-marks",
}


class Browsing(Case):
    name = "browsing"
    title = "The browser"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant is BASCULE else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask("browsing", count=COUNT, timeout=TIMEOUT)

    def report(self, results: Results) -> str:
        wrong = figure(results.total(self.name, BASCULE, "wrong"))
        rows = [
            [
                title,
                milliseconds(results.median(self.name, BASCULE, name)),
                span(results.values(self.name, BASCULE, name), 1000),
            ]
            for name, title in WAYS.items()
        ]
        how = f"Headless Chromium, a page of 3 KB on loopback. Answers without its text: {wrong}.\n"
        return how + "\n" + table(["", "median ms", "rounds ms"], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Browsing.name])
