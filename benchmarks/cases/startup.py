"""How long a new shell takes: until it is ready, and until its first command is done."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import OPENHANDS_SERVER, RAW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import milliseconds, table, times
from benchmarks.workers import Worker

COUNT = {"fast": 20, "medium": 1, "slow": 1}


class Startup(Case):
    name = "startup"
    title = "Start of a shell"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if entrant is OPENHANDS_SERVER:
            return 0  # It has no shells to start.
        return effort.rounds if not effort.is_quick or not entrant.is_peer else 1

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask("startup", count=COUNT[worker.entrant.pace])

    def report(self, results: Results) -> str:
        rows = []
        for entrant in results.entrants(self.name):
            ready, first, worst, cold = (
                milliseconds(results.median(self.name, entrant, figure))
                for figure in ("ready", "first_command", "first_command_p95", "cold")
            )
            ratio = times(results.ratio(self.name, (entrant, RAW), "first_command"))
            rows.append([entrant.name, ready, first, worst, ratio, cold])
        heading = ["", "ready ms", "first command done ms", "p95 ms", "vs raw pty"]
        return table([*heading, "first command of a new sandbox ms"], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Startup.name])
