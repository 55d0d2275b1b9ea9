"""How soon the VS Code of a new session is drawn, and what it weighs."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_WORKBENCH, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table
from benchmarks.workers import Worker

TIMEOUT = 300.0
MIB = 1024 * 1024

WAYS = {
    "create_drawn": "**session requested from a hub until its files are drawn**",
    "open_drawn": "its address opened until they are drawn, including the start of VS Code",
}
WEIGHTS = {
    "idle_bytes": "idle, has run a command",
    "vscode_bytes": "with VS Code, nobody looks",
    "client_bytes": "with a person's tab (their browser not counted)",
    "window_bytes": "with its own window, headless browser included",
}


class Workbench(Case):
    name = "workbench"
    title = "The VS Code of a session"
    is_in_editor = True

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        found = worker.ask("drawn", timeout=TIMEOUT)
        if round == 0:  # it weighs the same every time
            found |= worker.ask("weigh", timeout=TIMEOUT)
        return found

    def report(self, results: Results) -> str:
        how = (
            "A session of the spawner `local`, opened in Chromium with an empty cache. Memory is\n"
            "the PSS of the session's processes.\n"
        )
        return "\n".join([how, self._ways(results), self._weights(results)])

    def _ways(self, results: Results) -> str:
        rows = []
        for name, title in WAYS.items():
            values = results.values(self.name, BASCULE_WORKBENCH, name)
            median = results.median(self.name, BASCULE_WORKBENCH, name)
            rows.append([title, figure(median), span(values)])
        return table(["", "median s", "rounds s"], rows)

    def _weights(self, results: Results) -> str:
        rows = []
        for name, title in WEIGHTS.items():
            value = results.median(self.name, BASCULE_WORKBENCH, name)
            rows.append([title, figure(None if value is None else value / MIB)])
        return table(["a session", "MiB"], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Workbench.name])
