"""How long a small cell takes in a kernel that is there, and the first in one that is not."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE, BASCULE_HTTP, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, span, table
from benchmarks.workers import Worker

COUNT = 200
WARMUP = 20


class Cells(Case):
    name = "cells"
    title = "IPython cells"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant in (BASCULE, BASCULE_HTTP) else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask("cells", count=COUNT, warmup=WARMUP)

    def report(self, results: Results) -> str:
        heading = ["", "median ms", "medians of the rounds ms", "p95 ms", "first cell ms", "wrong"]
        return table(heading, [self._row(results, e) for e in results.entrants(self.name)])

    def _row(self, results: Results, entrant: Entrant) -> list[str]:
        return [
            entrant.name,
            milliseconds(results.median(self.name, entrant, "median")),
            span(results.values(self.name, entrant, "median"), 1000),
            milliseconds(results.median(self.name, entrant, "p95")),
            milliseconds(results.median(self.name, entrant, "first")),
            figure(results.total(self.name, entrant, "wrong")),
        ]


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Cells.name])
