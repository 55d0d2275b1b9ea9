"""Through the hub into a real VS Code window: a read, a command, and coming back after a reload."""

from __future__ import annotations

import time

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BASCULE_WINDOW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, span, table
from benchmarks.workers import Worker

PIECES = 10
EACH = 10
INTEGRATED = 2
"""How often in each piece: the ways take turns, so that a slow moment meets all of them."""
SETTLE_SECONDS = 3.0
"""A window that has just been loaded has things to do, and tells nobody when they are done."""
OPEN_TIMEOUT = 300.0

WAYS = {
    "echo": "plain Socket.IO echo over the same path",
    "read_file": "`workspace.fs.readFile` of 1 KB, in the extension host",
    "read": "**read 1 KB**, through hub and window",
    "write": "**write over 1 KB** of an open file, through hub and window",
    "edit": "**edit** of an open file (`str_replace`), through hub and window",
    "list": "**list** of a directory, through hub and window",
    "true": "**`true`**, through hub and window",
    "shell_integration": "`true` with VS Code's shell integration, in the extension host",
}
RETURNS = {
    "reload_editor": "reload of a window until VS Code runs any extension",
    "reload": "**reload until the agent's next action is answered**",
}


class Window(Case):
    """Comes last and opens what it needs itself: a browser in the background would be in the way
    of every other case."""

    name = "window"
    title = "A VS Code window, through the hub"
    is_in_editor = True

    def rounds(self, entrant: Entrant, effort: Effort) -> int:  # noqa: ARG002
        return effort.rounds

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        worker.ask("window_open", timeout=OPEN_TIMEOUT)
        time.sleep(SETTLE_SECONDS)
        seen = worker.ask("window_path", pieces=PIECES, each=EACH, integrated=INTEGRATED)
        return seen | worker.ask("window_reload")

    def finish(self, worker: Worker) -> None:
        worker.ask("window_close")

    def report(self, results: Results) -> str:
        wrong = figure(results.total(self.name, BASCULE_WINDOW, "wrong"))
        how = (
            "Runtime, hub, extension host and browser are separate processes. The echo goes from\n"
            "the runtime's process through a plain relay to the extension host and back, with\n"
            f"messages of the size of a read. Wrong answers of the window: {wrong}.\n"
        )
        return "\n".join([how, self._ways(results), self._returns(results)])

    def _ways(self, results: Results) -> str:
        rows = []
        echo = results.median(self.name, BASCULE_WINDOW, "echo")
        for name, title in WAYS.items():
            median = results.median(self.name, BASCULE_WINDOW, name)
            rounds = results.values(self.name, BASCULE_WINDOW, name)
            late = results.median(self.name, BASCULE_WINDOW, f"{name}_p95")
            times = f"{median / echo:.1f}" if median and echo else "-"
            rows.append(
                [title, milliseconds(median), span(rounds, 1000), milliseconds(late), times]
            )
        return table(
            ["", "median ms", "medians of the rounds ms", "p95 ms", "times a bare echo"], rows
        )

    def _returns(self, results: Results) -> str:
        rows = []
        for name, title in RETURNS.items():
            median = results.median(self.name, BASCULE_WINDOW, name)
            rows.append(
                [title, figure(median), span(results.values(self.name, BASCULE_WINDOW, name))]
            )
        return table(["", "median s", "rounds s"], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Window.name, "--subjects", BASCULE_WINDOW.name])
