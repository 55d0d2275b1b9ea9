"""Language actions beside what they cost at least: in a window VS Code's own commands and a bare
echo, in a sandbox the same requests by a bare client."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import BARE_LANGUAGE, BASCULE_LANGUAGE, BASCULE_WINDOW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import milliseconds, span, table, times
from benchmarks.workers import Worker

COUNT, QUICK_COUNT = 20, 5
TIMEOUT = 600.0
LOOKUPS = {
    "definition": "definition",
    "type_definition": "type_definition",
    "implementations": "implementations",
    "references": "references",
    "hover": "hover",
    "workspace_symbols": "workspace_symbols",
    "call_hierarchy": "call_hierarchy",
    "code_actions": "code_actions",
}
CHANGES = {
    "format": "format of a file that is formatted already",
    "rename": "rename_symbol in two files (the command only computes the changes)",
}
IN_SANDBOX = ("definition", "references", "hover", "workspace_symbols", "call_hierarchy")
_SERVERS = Path(__file__).parents[2] / "scripts" / "language-servers"


class WindowLanguage(Case):
    name = "window-language"
    title = "Language actions in a VS Code window, through the hub"
    is_in_editor = True

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant is BASCULE_WINDOW else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        worker.ask("window_open", timeout=TIMEOUT)
        count = QUICK_COUNT if effort.is_quick else COUNT
        return worker.ask("window_language", timeout=TIMEOUT, count=count)

    def finish(self, worker: Worker) -> None:
        worker.ask("window_close")

    def report(self, results: Results) -> str:
        echo = results.median(self.name, BASCULE_WINDOW, "echo")
        how = (
            "TypeScript, which VS Code has built in. The command runs in the extension host; the\n"
            f"echo takes {milliseconds(echo)} ms. The last column is the time beyond both.\n"
        )
        rows = []
        for name, title in {**LOOKUPS, **CHANGES}.items():
            ours, bare = (
                results.median(self.name, BASCULE_WINDOW, each) for each in (name, f"{name}_bare")
            )
            known = None not in (ours, bare, echo)
            beyond = (ours or 0) - (bare or 0) - (echo or 0) if known else None
            rounds = results.values(self.name, BASCULE_WINDOW, name)
            rows.append(
                [title, *map(milliseconds, (ours, bare)), span(rounds, 1000), milliseconds(beyond)]
            )
        heading = ["", "action ms", "command ms", "actions of the rounds ms", "beyond ms"]
        return how + "\n" + table(heading, rows)


class SandboxLanguage(Case):
    name = "language"
    title = "Language actions in a sandbox"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        found = subprocess.run([_SERVERS], check=True, stdout=subprocess.PIPE, text=True)
        count = QUICK_COUNT if effort.is_quick else COUNT
        servers = found.stdout.strip().splitlines()[-1]
        return worker.ask("language", timeout=TIMEOUT, servers=servers, count=count)

    def report(self, results: Results) -> str:
        both = (BASCULE_LANGUAGE, BARE_LANGUAGE)
        how = (
            "Python with basedpyright. The bare client sends the same requests on a pipe, and\n"
            "neither reads files nor formats answers.\n"
        )
        rows = [
            [
                name,
                *(milliseconds(results.median(self.name, each, name)) for each in both),
                times(results.ratio(self.name, both, name)),
            ]
            for name in IN_SANDBOX
        ]
        return how + "\n" + table(["", "action ms", "bare client ms", "vs bare client"], rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", WindowLanguage.name, SandboxLanguage.name])
