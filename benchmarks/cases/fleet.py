"""Fifty shells at once: starting them, keeping all busy, what they cost, and what idling costs."""

from __future__ import annotations

import time

from benchmarks import processes
from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_HTTP_BARE, OPENHANDS_SERVER, RAW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, table, times
from benchmarks.workers import Worker

SHELLS = 50
EACH = {"fast": 100, "medium": 10, "slow": 2}
IDLE_SECONDS = 5.0
SETTLE_SECONDS = 0.5
IDLE_ROUNDS = 3
MIB = 1024 * 1024


class Fleet(Case):
    """Memory and CPU count every process: worker or server, shells, and helpers of either.

    For a server, CPU per command leaves out the client that asks.
    """

    name = "fleet"
    title = f"{SHELLS} shells at once"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if entrant.is_peer:
            return 0 if effort.is_quick else 1
        return effort.rounds

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
        alone = worker.family()
        before = processes.memory(alone).pss
        opened = worker.ask("fleet_open", count=SHELLS)
        try:
            return {
                "start": opened["seconds"],
                "pss_per_shell": self._added(worker, alone, before) / SHELLS,
                "processes_per_shell": len(worker.family() - alone) / SHELLS,
                **self._busy(worker),
                **(self._idle(worker) if self._may_idle(worker.entrant, round, effort) else {}),
            }
        finally:
            worker.ask("fleet_close")

    def report(self, results: Results) -> str:
        heading = ["", "all started s", "vs raw pty", "commands/s", "wrong", "CPU ms/command"]
        heading += ["PSS MiB/shell", f"idle CPU of {SHELLS}, % of a core"]
        return table(heading, [self._row(results, e) for e in results.entrants(self.name)])

    def _added(self, worker: Worker, alone: frozenset[int], before: int) -> int:
        """PSS of the processes that came, and of what grew in those that were there; one that
        gave memory back meanwhile does not make up for others."""
        came = processes.memory(worker.family() - alone).pss
        return came + max(0, processes.memory(alone).pss - before)

    def _busy(self, worker: Worker) -> Figures:
        each = EACH[worker.entrant.pace]
        working = worker.serving_family
        cpu = processes.cpu_seconds(working)
        ran = worker.ask("fleet_run", each=each)
        cpu = processes.cpu_seconds(working) - cpu
        commands = SHELLS * each
        return {
            "commands_per_second": commands / ran["seconds"],
            "cpu_per_command": cpu / commands,
            "wrong": ran["wrong"],
        }

    def _idle(self, worker: Worker) -> Figures:
        """CPU of all that is there while nobody asks anything."""
        time.sleep(SETTLE_SECONDS)
        everyone = worker.family()
        cpu, began = processes.cpu_seconds(everyone), time.perf_counter()
        time.sleep(IDLE_SECONDS)
        used = processes.cpu_seconds(everyone) - cpu
        return {"idle_cpu": used / (time.perf_counter() - began)}

    def _may_idle(self, entrant: Entrant, round: int, effort: Effort) -> bool:
        rounds = 1 if effort.is_quick else IDLE_ROUNDS
        return round < rounds and entrant is not BASCULE_HTTP_BARE

    def _row(self, results: Results, entrant: Entrant) -> list[str]:
        def median(name: str) -> float | None:
            return results.median(self.name, entrant, name)

        pss, idle = median("pss_per_shell"), median("idle_cpu")
        has_shells = entrant is not OPENHANDS_SERVER
        ratio = results.ratio(self.name, (entrant, RAW), "start")
        return [
            entrant.name,
            figure(median("start")) if has_shells else "no shells",
            times(ratio) if has_shells else "–",
            figure(median("commands_per_second")),
            figure(results.total(self.name, entrant, "wrong")),
            milliseconds(median("cpu_per_command")),
            figure(None if pss is None or not has_shells else pss / MIB),
            figure(None if idle is None else idle * 100),
        ]


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Fleet.name])
