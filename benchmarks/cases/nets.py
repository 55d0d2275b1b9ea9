"""How fast Petri nets are fired and their state spaces found, beside two libraries for them."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_NETS, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table, times
from benchmarks.workers import Worker

PHILOSOPHERS = 6
"""729 states, 3,402 edges: what the slowest finds in a second or two."""
PLACES, TOKENS, FIRINGS = 20, 5, 500
SECONDS = 1.0
QUICK_SECONDS = 0.3


class Nets(Case):
    name = "nets"
    title = "Petri nets"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        seconds = QUICK_SECONDS if effort.is_quick else SECONDS
        found = worker.ask("explore", n=PHILOSOPHERS, seconds=seconds)
        game = {"places": PLACES, "tokens": TOKENS, "count": FIRINGS, "seconds": seconds}
        found |= worker.ask("fire", **game)
        if worker.entrant is BASCULE_NETS:
            found |= worker.ask("run", **game)
        return found

    def report(self, results: Results) -> str:
        how = (
            f"States: {PHILOSOPHERS} dining philosophers who may take either fork first. "
            f"Firings: {TOKENS} tokens in a\nring of {PLACES} places, with a random enabled "
            "transition each time. Tokens only, no code. With Bascule's\nrunner, which keeps the "
            "identity of tokens and reports every event, the same ring makes\n"
            f"{self._run(results)} firings/s.\n"
        )
        rows = []
        for entrant in results.entrants(self.name):
            cells = [
                figure(results.median(self.name, entrant, name)) for name in ("states", "edges")
            ]
            for name in ("states_per_second", "firings_per_second"):
                values = results.values(self.name, entrant, name)
                ahead = results.ratio(self.name, (BASCULE_NETS, entrant), name)
                cells += [figure(results.median(self.name, entrant, name)), span(values)]
                cells.append("" if entrant is BASCULE_NETS else times(ahead))
            rows.append([entrant.name, *cells])
        heading = ["", "states", "edges", "states/s", "rounds", "ours is"]
        return how + "\n" + table([*heading, "firings/s", "rounds", "ours is"], rows)

    def _run(self, results: Results) -> str:
        return figure(results.median(self.name, BASCULE_NETS, "run_per_second"))


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Nets.name])
