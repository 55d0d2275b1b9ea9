"""What an agent waits for its tools: an OpenHands V1 conversation, with its tools and with ours."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import AGENT_BASCULE, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table, times
from benchmarks.workers import Worker

CALLS = 50
QUICK_CALLS = 10


class AgentLoop(Case):
    name = "agent"
    title = "An OpenHands V1 agent"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if entrant.only != self.name:
            return 0
        return effort.rounds if entrant is AGENT_BASCULE else min(3, effort.rounds)

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask("converse", calls=QUICK_CALLS if effort.is_quick else CALLS)

    def report(self, results: Results) -> str:
        how = (
            f"OpenHands' own agent loop with a scripted model: {CALLS} calls, a fifth of them "
            "edits and the rest\nshort commands. In tools: from an action to its observation. The "
            "rest is OpenHands itself, the same\nfor both.\n"
        )
        rows = []
        for entrant in results.entrants(self.name):
            cells = []
            for name in ("tools", "seconds"):
                values = results.values(self.name, entrant, name)
                less = results.ratio(self.name, (entrant, AGENT_BASCULE), name)
                cells += [figure(results.median(self.name, entrant, name)), span(values)]
                cells.append("" if entrant is AGENT_BASCULE else times(less))
            rows.append([entrant.name, *cells])
        heading = ["", "in tools s", "rounds", "of ours", "conversation s", "rounds", "of ours"]
        return how + "\n" + table(heading, rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", AgentLoop.name])
