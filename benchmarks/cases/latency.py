"""How long `true` takes in a shell that is already there: all that is not the command itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import RAW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.spinning import spinning
from benchmarks.tables import figure, milliseconds, span, table, times
from benchmarks.workers import Worker

COUNT = {"fast": 300, "medium": 60, "slow": 12}
WARMUP = {"fast": 30, "medium": 3, "slow": 1}


class Latency(Case):
    name = "latency"
    title = "Latency of `true`"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if not effort.is_quick or not entrant.is_peer else 1

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        pace = worker.entrant.pace
        return worker.ask("latency", count=COUNT[pace], warmup=WARMUP[pace])

    def report(self, results: Results) -> str:
        return self._table(results) + (
            "\nThe raw pty has two speeds, several times apart, and changes between them from\n"
            "round to round, probably when the kernel moves processes between cores. So ratios\n"
            "to it vary; the next table excludes the other cores.\n"
        )

    def _table(self, results: Results) -> str:
        heading = ["", "median ms", "medians of the rounds ms", "p95 ms", "vs raw pty", "wrong"]
        return table(heading, [self._row(results, e) for e in results.entrants(self.name)])

    def _row(self, results: Results, entrant: Entrant) -> list[str]:
        return [
            entrant.name,
            milliseconds(results.median(self.name, entrant, "median")),
            span(results.values(self.name, entrant, "median"), 1000),
            milliseconds(results.median(self.name, entrant, "p95")),
            times(results.ratio(self.name, (entrant, RAW), "median")),
            figure(results.total(self.name, entrant, "wrong")),
        ]


class LatencyOneCore(Latency):
    """The same with all other cores busy, for those fast enough to notice.

    Left to itself the raw pty takes several times as long in some rounds as in others. With one
    core free it mostly keeps to the shorter time, so this is where the ratios are steadiest, and
    where they are worst for whoever does more work per command.
    """

    name = "latency-one-core"
    title = "Latency of `true`, other cores busy"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.pace == "fast" else 0

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        with spinning(spare=1):
            yield

    def report(self, results: Results) -> str:
        why = (
            "All cores but one run an endless loop, so a command and the processes that serve it\n"
            "mostly share one core. These ratios vary less, and show mainly CPU work.\n\n"
        )
        return why + self._table(results)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Latency.name, LatencyOneCore.name])
