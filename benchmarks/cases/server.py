"""How long a server takes from its start until `/alive` answers, and what it weighs idle."""

from __future__ import annotations

import time

from benchmarks import processes
from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_HTTP, OPENHANDS_SERVER, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table
from benchmarks.workers import Worker

SETTLE_SECONDS = 0.5
MIB = 1024 * 1024


class ServerStart(Case):
    name = "server"
    title = "Start and weight of the server"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if entrant is BASCULE_HTTP:
            return effort.rounds
        return 2 if entrant is OPENHANDS_SERVER and not effort.is_quick else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        others = worker.family()
        started = worker.ask("server_start")
        time.sleep(SETTLE_SECONDS)
        alone = processes.memory([started["pid"]])
        everything = processes.memory(worker.family() - others)
        worker.ask("server_stop")
        return {"seconds": started["seconds"], "rss": alone.rss, "pss_all": everything.pss}

    def report(self, results: Results) -> str:
        rows = []
        for entrant in results.entrants(self.name):
            rss, pss = (results.median(self.name, entrant, name) for name in ("rss", "pss_all"))
            seconds = results.values(self.name, entrant, "seconds")
            cells = [figure(results.median(self.name, entrant, "seconds")), span(seconds)]
            cells += [figure(None if size is None else size / MIB) for size in (rss, pss)]
            rows.append([entrant.name, *cells])
        heading = ["", "start to /alive s", "rounds s", "idle RSS MiB", "PSS MiB, with helpers"]
        return table(heading, rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", ServerStart.name])
