"""How soon a session has done its first command, one at a time and many at once, and its weight."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_SESSIONS, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, span, table
from benchmarks.workers import Worker

SINGLE, BURST, HELD = 10, 50, 200
QUICK_SINGLE, QUICK_BURST, QUICK_HELD = 3, 5, 5
TIMEOUT = 300.0
MIB = 1024 * 1024

WAYS = {
    "cold": "start request to first command done, nothing loaded",
    "warm": "**start request to first command done**, forked from the zygote",
    "asked": "request to a hub with `CloudRuntime` to first command done",
    "burst_p50": f"the same, {BURST} requests at once, median",
    "burst_p95": f"the same, {BURST} requests at once, 95th percentile",
    "burst_seconds": f"all {BURST} of them",
    "end_seconds": f"ending all {BURST} of them",
}


class Sessions(Case):
    name = "sessions"
    title = "Sessions on this machine"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
        quick = effort.is_quick
        found = worker.ask("single", count=QUICK_SINGLE if quick else SINGLE, timeout=TIMEOUT)
        found |= worker.ask("asked", count=QUICK_SINGLE if quick else SINGLE, timeout=TIMEOUT)
        found |= worker.ask("burst", count=QUICK_BURST if quick else BURST, timeout=TIMEOUT)
        if round == 0:  # one holding is enough: it weighs, and takes a minute
            found |= worker.ask("hold", count=QUICK_HELD if quick else HELD, timeout=TIMEOUT)
        return found

    def report(self, results: Results) -> str:
        how = (
            "Each session has its own namespaces, limits and user. Time from the request to the\n"
            "spawner, or to a hub, until the output of a first command is back.\n"
        )
        rows = []
        for name, title in WAYS.items():
            values = results.values(self.name, BASCULE_SESSIONS, name)
            median = results.median(self.name, BASCULE_SESSIONS, name)
            rows.append([title, milliseconds(median), span(values, 1000)])
        return "\n".join([how, table(["", "median ms", "rounds ms"], rows), self._weight(results)])

    def _weight(self, results: Results) -> str:
        def of(name: str, scale: float = 1.0) -> str:
            value = results.median(self.name, BASCULE_SESSIONS, name)
            return figure(None if value is None else value * scale)

        return (
            f"An idle session that has run a command takes {of('own_bytes', 1 / MIB)} MiB of its "
            f"own ({of('pss_bytes', 1 / MIB)} MiB with its share\nof shared memory), in "
            f"{of('processes')} processes. {of('held')} of them at once took "
            f"{of('held_each', 1 / MIB)} MiB each of the\nmachine's memory, and "
            f"{of('held_cpu', 100)} % of a core each.\n"
        )


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Sessions.name])
