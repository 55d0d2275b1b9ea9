"""OpenHands V0's unmodified client, with its own server on this machine and with our sessions."""

from __future__ import annotations

from statistics import median

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import V0_BASCULE, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table, times
from benchmarks.workers import Worker

COMMANDS = 100
QUICK_COMMANDS = 20


class OpenHandsV0(Case):
    name = "openhands-v0"
    title = "OpenHands V0's own client"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if entrant.only != self.name:
            return 0
        return effort.rounds if entrant is V0_BASCULE else min(3, effort.rounds)

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        commands = QUICK_COMMANDS if effort.is_quick else COMMANDS
        seen = worker.ask("work", timeout=300, commands=commands)
        trip = median(seen["trips"]) * 1000
        return {"first": seen["first"], "trip": trip, "wrong": seen["wrong"]}

    def report(self, results: Results) -> str:
        how = (
            "First: from the request for a runtime until it answered `echo`, including OpenHands' "
            "own work.\nTrip: an `echo`, the median of a round. Its own server runs without "
            "isolation, our session is\nisolated.\n"
        )
        rows = []
        for entrant in results.entrants(self.name):
            cells = []
            for name in ("first", "trip"):
                values = results.values(self.name, entrant, name)
                less = results.ratio(self.name, (entrant, V0_BASCULE), name)
                cells += [figure(results.median(self.name, entrant, name)), span(values)]
                cells.append("" if entrant is V0_BASCULE else times(less))
            wrong = sum(results.values(self.name, entrant, "wrong"))
            rows.append([entrant.name, *cells, f"{wrong:.0f}"])
        figures = ("first command s", "rounds", "of ours", "trip ms", "rounds", "of ours")
        heading = ["", *figures, "wrong answers"]
        return how + "\n" + table(heading, rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", OpenHandsV0.name])
