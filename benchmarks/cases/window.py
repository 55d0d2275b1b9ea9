"""Through the hub into a real VS Code window: each kind of action, and coming back after a
reload."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from benchmarks.cases.case import Case, Effort
from benchmarks.compare import Comparison, Round
from benchmarks.entrants import BASCULE_WINDOW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, milliseconds, span, table, times
from benchmarks.workers import Worker

PIECES = 10
EACH = 10
CHANGES = 4
INTEGRATED = 2
"""How often in each piece: the kinds take turns, so that a slow moment meets all of them."""
PATH_TIMEOUT = 900.0
SETTLE_SECONDS = 3.0
"""A window that has just been loaded has things to do, and tells nobody when they are done."""
OPEN_TIMEOUT = 300.0

WAYS = {
    "echo": "plain Socket.IO echo over the same path",
    "read_file": "`workspace.fs.readFile` of 1 KB, in the extension host",
    "read": "**read 1 KB**, through hub and window",
    "list": "**list** of a directory",
    "glob": "**glob**",
    "grep": "**grep**",
    "true": "**run** of `true`",
    "cell": "**IPython cell**, `6 * 7`",
    "command": "**command of VS Code** that returns a number",
    "diagnostics": "**diagnostics** of a file",
    "open": "**open** of a file in an editor",
    "create": "**write** of 1 KB to a new file",
    "remove": "**remove** of a file",
    "write": "**write over** 1 KB of an open file",
    "edit": "**edit** of an open file (`str_replace`)",
    "undo": "**undo_edit** of an open file",
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
        seen = worker.ask(
            "window_path",
            timeout=PATH_TIMEOUT,
            pieces=PIECES,
            each=EACH,
            changes=CHANGES,
            integrated=INTEGRATED,
        )
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

    def compare(self, comparison: Comparison) -> str:
        """Each kind of action as a multiple of a bare echo in the same round, old beside new."""
        rows = []
        for name, title in WAYS.items():
            old, new = (self._of_echo(side, name) for side in (comparison.old, comparison.new))
            pairs = [after / before for before, after in zip(old, new, strict=False)]
            middles = [statistics.median(values) if values else None for values in (old, new)]
            seconds = [
                comparison.median(side, (self.name, BASCULE_WINDOW.name, name))
                for side in (comparison.old, comparison.new)
            ]
            rows.append(
                [
                    title,
                    *(milliseconds(each) for each in seconds),
                    *(times(each) for each in middles),
                    span(new),
                    span(pairs),
                ]
            )
        heading = ["kind of action", "old ms", "new ms", "old, of an echo", "new, of an echo"]
        heading += ["rounds of new", "new / old, round by round"]
        return table(heading, rows)

    def _of_echo(self, rounds: Sequence[Round], name: str) -> list[float]:
        found = []
        for figures in rounds:
            value, echo = (
                figures.get((self.name, BASCULE_WINDOW.name, each)) for each in (name, "echo")
            )
            if value is not None and echo:
                found.append(value / echo)
        return found

    def _ways(self, results: Results) -> str:
        rows = []
        echo = results.median(self.name, BASCULE_WINDOW, "echo")
        for name, title in WAYS.items():
            median = results.median(self.name, BASCULE_WINDOW, name)
            if median is None:
                continue
            rounds = results.values(self.name, BASCULE_WINDOW, name)
            late = results.median(self.name, BASCULE_WINDOW, f"{name}_p95")
            of_echo = times(median / echo if echo else None)
            rows.append(
                [title, milliseconds(median), span(rounds, 1000), milliseconds(late), of_echo]
            )
        return table(["", "median ms", "medians of the rounds ms", "p95 ms", "of an echo"], rows)

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
