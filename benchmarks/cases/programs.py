"""Programs with pipes: their start, and data through their stdin and stdout."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import PLAIN_PROGRAMS, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, table, times
from benchmarks.workers import Worker

COUNT, QUICK_COUNT = 100, 10
BLOCKS, QUICK_BLOCKS = 1024, 16


class Programs(Case):
    name = "programs"
    title = "Programs with pipes"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        started = worker.ask("short", count=QUICK_COUNT if effort.is_quick else COUNT)
        copied = worker.ask("copied", blocks=QUICK_BLOCKS if effort.is_quick else BLOCKS)
        return {**started, **copied}

    def report(self, results: Results) -> str:
        how = (
            f"One `true`, from its start to its exit code, and {BLOCKS} MiB from this process "
            "through `cat` and\nback. Memory is the growth of this process's peak meanwhile.\n"
        )
        rows = []
        for entrant in results.entrants(self.name):
            both = (entrant, PLAIN_PROGRAMS)
            start, copy, growth = (
                results.median(self.name, entrant, name) for name in ("start", "copy", "growth")
            )
            rows.append(
                [
                    entrant.title,
                    milliseconds(start),
                    times(results.ratio(self.name, both, "start")),
                    figure(copy),
                    times(results.ratio(self.name, both, "copy")),
                    figure(growth),
                ]
            )
        heading = ["", "`true` ms", "vs asyncio", "copy s", "vs asyncio", "memory MiB"]
        return how + "\n" + table(heading, rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Programs.name])
