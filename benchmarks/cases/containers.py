"""How soon a session in a container has done its first command, with the image there."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_CONTAINERS, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, span, table
from benchmarks.workers import Worker

COUNT, QUICK_COUNT = 10, 3
TIMEOUT = 300.0
MIB = 1024 * 1024

WAYS = {
    "started": "start request to the action server's first answer",
    "first_command": "**start request to first command done**",
    "end": "ending it, politely",
}


class Containers(Case):
    name = "containers"
    title = "Sessions in containers"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        return worker.ask(
            "single", count=QUICK_COUNT if effort.is_quick else COUNT, timeout=TIMEOUT
        )

    def report(self, results: Results) -> str:
        how = (
            "On a real Docker engine that has the image: create, start, send the launch settings,\n"
            "wait for the action server, and run a command.\n"
        )
        rows = []
        for name, title in WAYS.items():
            values = results.values(self.name, BASCULE_CONTAINERS, name)
            median = results.median(self.name, BASCULE_CONTAINERS, name)
            rows.append([title, milliseconds(median), span(values, 1000)])
        memory = results.median(self.name, BASCULE_CONTAINERS, "own_bytes")
        weight = figure(None if memory is None else memory / MIB)
        return "\n".join(
            [
                how,
                table(["", "median ms", "rounds ms"], rows),
                f"A session that has run a command takes {weight} MiB.\n",
            ]
        )


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Containers.name])
