"""How long much output takes, and whether all of it arrives."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import OPENHANDS_SERVER, RAW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table, times
from benchmarks.workers import Worker


@dataclass(frozen=True, slots=True)
class Volume:
    title: str
    command: str
    piece: str
    repeat: int
    timeout: float
    peer_rounds: int


MEDIUM: Volume = Volume("1.3 MB, `seq 1 200000`", "seq 1 200000", "", 200_000, 60, 3)
LARGE: Volume = Volume("50 MB, `yes`", "yes | head -c 52428800", "y\n", 26_214_400, 45, 1)


class Output(Case):
    """Ours get more rounds, since where the kernel puts reader and writer makes a factor of three
    from one to the next; peers get fewer, since some take the better part of a minute."""

    def __init__(self, name: str, volume: Volume) -> None:
        self.name = name
        self.title = f"Output: {volume.title}"
        self._volume = volume

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if not entrant.is_peer:
            return effort.rounds if effort.is_quick else 3 * effort.rounds
        if effort.is_quick:
            return 0
        return max(self._volume.peer_rounds, 3 if entrant is OPENHANDS_SERVER else 1)

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        volume = self._volume
        return worker.ask(
            "output",
            command=volume.command,
            piece=volume.piece,
            repeat=volume.repeat,
            limit=volume.timeout,
        )

    def report(self, results: Results) -> str:
        heading = ["", "median s", "rounds s", "vs raw pty", "complete", "rounds"]
        return table(heading, [self._row(results, e) for e in results.entrants(self.name)])

    def _row(self, results: Results, entrant: Entrant) -> list[str]:
        rounds = results.of(self.name, entrant)
        seconds = results.values(self.name, entrant, "seconds")
        return [
            entrant.name,
            figure(results.median(self.name, entrant, "seconds")),
            span(seconds),
            times(results.ratio(self.name, (entrant, RAW), "seconds")),
            completeness(rounds) or results.reason(self.name, entrant, "seconds"),
            str(len(rounds)),
        ]


def completeness(rounds: list[Figures]) -> str:
    """`yes`, or the worst of what came instead."""
    if not rounds:
        return ""
    worst = min(rounds, key=lambda seen: (seen["complete"], seen["got"]))
    if worst["complete"]:
        return "yes, every byte" if all(seen.get("exact") for seen in rounds) else "yes"
    return worst["note"] or f"no: {worst['got']:,} of {worst['expected']:,} characters"


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", "output-1mb", "output-50mb"])
