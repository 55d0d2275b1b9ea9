"""How long the decision on a command by rules takes."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import milliseconds, table
from benchmarks.workers import Worker

COUNT, QUICK_COUNT = 300, 30
WHAT = {"median": "**median**", "95 %": "95 % are faster than"}


class CommandRulesCase(Case):
    name = "rules"
    title = "Rules for commands"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask("decisions", count=QUICK_COUNT if effort.is_quick else COUNT)

    def report(self, results: Results) -> str:
        how = (
            f"Milliseconds of a decision, of {COUNT} commands as agents send them. No text is "
            "asked about twice,\nso that no engine has it in its cache.\n"
        )
        rows = []
        for entrant in results.entrants(self.name):
            values = [results.median(self.name, entrant, name) for name in WHAT]
            rows.append([entrant.title, *(milliseconds(value) for value in values)])
        return how + "\n" + table(["", *WHAT.values()], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", CommandRulesCase.name])
