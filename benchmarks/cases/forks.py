"""How soon forks of a session are ready, by the number of files in its workspace."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_FORKS, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import milliseconds, table
from benchmarks.workers import Worker

SIZES = (1_000, 50_000)
QUICK_SIZE = 100
COUNT, QUICK_COUNT = 10, 2
ROUNDS = 7
TIMEOUT = 1800.0
WHAT = {
    "snapshot": "snapshot taken",
    "first": "**first fork ready**",
    "all": f"all {COUNT} forks ready",
    "compared": "all compared with the session",
}


class ForkStart(Case):
    name = "forks"
    title = "Forks of sessions"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return min(ROUNDS, effort.rounds) if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        figures: dict[str, float | str] = {}
        count = QUICK_COUNT if effort.is_quick else COUNT
        for files in (QUICK_SIZE,) if effort.is_quick else SIZES:
            found = worker.ask("forks", files=files, count=count, timeout=TIMEOUT)
            figures |= {f"{name} {files}": value for name, value in found.items()}
        return figures

    def report(self, results: Results) -> str:
        how = (
            f"Milliseconds from one request for {COUNT} forks to a hub. The workspace is a git "
            "repository of files\nof 5 KB on average. Without reflinks every file is copied.\n"
        )
        rows = []
        for files in (QUICK_SIZE, *SIZES):
            values = [results.median(self.name, BASCULE_FORKS, f"{name} {files}") for name in WHAT]
            if any(value is not None for value in values):
                cells = ["" if value is None else milliseconds(value) for value in values]
                rows.append([f"{files:,}", *cells])
        return how + "\n" + table(["files", *WHAT.values()], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", ForkStart.name])
