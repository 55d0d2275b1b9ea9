"""Reading, writing and editing a small and a large file. The limit is plain system calls."""

from __future__ import annotations

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import (
    BASCULE,
    BASCULE_HTTP,
    OPENHANDS_TMUX,
    RAW,
    SWE_REX,
    Entrant,
)
from benchmarks.results import Figures, Results
from benchmarks.tables import milliseconds, table
from benchmarks.workers import Worker

SIZES = {"1 KB": (1024, 30), "10 MB": (10 * 1024 * 1024, 3)}
"""By title: bytes, and how often in a round."""
VERBS = ("read", "write", "edit")


class FileWork(Case):
    name = "files"
    title = "Files"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        if entrant in (RAW, BASCULE, BASCULE_HTTP):
            return effort.rounds
        return 3 if entrant in (OPENHANDS_TMUX, SWE_REX) and not effort.is_quick else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        figures: dict[str, float | str] = {}
        for title, (size, repeats) in SIZES.items():
            seen = worker.ask("files", size=size, repeats=repeats)
            figures |= {f"{verb} {title}": seen[verb] for verb in VERBS}
        return figures

    def report(self, results: Results) -> str:
        columns = [f"{verb} {title}" for title in SIZES for verb in VERBS]
        rows = []
        for entrant in results.entrants(self.name):
            name = "plain open/read/write + rename" if entrant is RAW else entrant.name
            rows.append([name, *(self._cell(results, entrant, column) for column in columns)])
        return table(["", *(f"{column} ms" for column in columns)], rows)

    def _cell(self, results: Results, entrant: Entrant, column: str) -> str:
        value = results.median(self.name, entrant, column)
        return results.reason(self.name, entrant, column) if value is None else milliseconds(value)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", FileWork.name])
