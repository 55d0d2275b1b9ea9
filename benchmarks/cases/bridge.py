"""From a script to the window it was started from and back, beside a bare WebSocket echo."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_BRIDGE, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, span, table
from benchmarks.workers import Worker

PIECES = 20
EACH = 100
"""How often in each piece: the ways take turns, so that a slow moment meets both."""
WAYS = {
    "echo": "bare WebSocket echo",
    "bridge": "**request of a script**, answered by the extension's run bridge",
}


class Bridge(Case):
    name = "bridge"
    title = "A script and its window"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant is BASCULE_BRIDGE else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask("round_trips", pieces=PIECES, each=EACH)

    def report(self, results: Results) -> str:
        wrong = figure(results.total(self.name, BASCULE_BRIDGE, "wrong"))
        how = (
            "The server is the extension's own code in plain Node, without VS Code. The echo uses\n"
            "the same library in the same process, with messages of the same size. Both are\n"
            f"called by blocking calls of one thread. Wrong answers: {wrong}.\n"
        )
        rows = []
        for name, title in WAYS.items():
            median = results.median(self.name, BASCULE_BRIDGE, name)
            rounds = results.values(self.name, BASCULE_BRIDGE, name)
            late = results.median(self.name, BASCULE_BRIDGE, f"{name}_p95")
            rows.append([title, milliseconds(median), span(rounds, 1000), milliseconds(late)])
        return f"{how}\n{table(['', 'median ms', 'medians of the rounds ms', 'p95 ms'], rows)}"


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Bridge.name, "--subjects", BASCULE_BRIDGE.name])
