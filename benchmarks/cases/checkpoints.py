"""CPU time of checkpoints around a command, beside a shadow git repository."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_CHECKPOINTS, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import milliseconds, table
from benchmarks.workers import Worker

SIZES = (5_000, 50_000)
QUICK_SIZE = 500
PEER_ROUNDS = 3
WHAT = {
    "first": "first checkpoint",
    "nothing": "a command that changes nothing",
    "changed": "a command that changes 10 files",
}


class Checkpoints(Case):
    name = "checkpoints"
    title = "Checkpoints"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if entrant is BASCULE_CHECKPOINTS:
            return effort.rounds
        return min(PEER_ROUNDS, effort.rounds) if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        figures: dict[str, float | str] = {}
        for files in (QUICK_SIZE,) if effort.is_quick else SIZES:
            found = worker.ask("checkpoints", files=files)
            figures |= {f"{name} {files}": value for name, value in found.items()}
        return figures

    def report(self, results: Results) -> str:
        how = (
            "CPU milliseconds, child processes included. Each command has a checkpoint before it "
            "and one\nafter it. The tree is a git repository without changes. The shadow "
            "repository is `git add -A`\nand `git write-tree` with a git directory of its own.\n"
        )
        rows = []
        for entrant in results.entrants(self.name):
            for files in (QUICK_SIZE, *SIZES):
                values = [results.median(self.name, entrant, f"{name} {files}") for name in WHAT]
                if any(value is not None for value in values):
                    cells = ["" if value is None else milliseconds(value) for value in values]
                    rows.append([entrant.title, f"{files:,}", *cells])
        return how + "\n" + table(["", "files", *WHAT.values()], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Checkpoints.name])
