"""Thousands of commands while every core is busy: is any answer wrong?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE, BASCULE_HTTP, Entrant
from benchmarks.results import Figures, Results
from benchmarks.spinning import spinning
from benchmarks.tables import figure, table
from benchmarks.workers import Worker

PIECE = 1000
SEED = 20_000


class Endurance(Case):
    """Each answer is compared with what it must be: a random token, a status, a directory left
    by an earlier command, several lines. One shell does them all."""

    name = "endurance"
    title = "Endurance with every core loaded"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return -(-effort.endurance // PIECE) if entrant in (BASCULE, BASCULE_HTTP) else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
        count = min(PIECE, effort.endurance - round * PIECE)
        return worker.ask("endure", count=count, seed=SEED, timeout=300)

    def finish(self, worker: Worker) -> None:
        worker.ask("endure_end")

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        with spinning():
            yield

    def report(self, results: Results) -> str:
        rows = []
        for entrant in results.entrants(self.name):
            commands = results.total(self.name, entrant, "commands") or 0
            seconds = results.total(self.name, entrant, "seconds")
            wrong = figure(results.total(self.name, entrant, "wrong"))
            rate = figure(commands / seconds if seconds else None)
            rows.append([entrant.name, f"{commands:,.0f}", wrong, rate])
        examples = [
            f"- {entrant.name}: `{example}`"
            for entrant in results.entrants(self.name)
            for figures in results.of(self.name, entrant)
            for example in figures["examples"]
        ]
        rendered = table(["", "commands", "wrong", "commands/s"], rows)
        return "\n".join([rendered, *examples[:10], ""]) if examples else rendered


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Endurance.name])
