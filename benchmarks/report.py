"""`RESULTS.md`: goals first, then a section per case, then how it was measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cases.case import Case
from benchmarks.compare import Comparison
from benchmarks.entrants import ENTRANTS
from benchmarks.goals import goals
from benchmarks.results import Results
from benchmarks.tables import table

METHOD = """\
- Every subject runs in its own process with an empty `HOME` and compiled bytecode.
- Subjects take turns in each round, in a rotating order, so other load on the machine affects all
  of them. Compare ratios within one run, not figures of different days.
- A figure is the median over all rounds; p95 is the median of the rounds' p95.
- `raw-pty` is the lower bound: bash on a pty, commands typed with a `printf` of a nonce after them,
  blocking reads, no server and no checks.
- Peers that need a tenth of a second per command run fewer commands, and one to three rounds if a
  round takes minutes.
- [results.json](results.json) has the figures of every round. `make bench` measures again.
"""


def render(results: Results, cases: Sequence[Case], comparisons: Sequence[Comparison] = ()) -> str:
    parts = ["# Benchmark results\n", _about(results), _goals(results)]
    parts.append("![Latency, output, shells and throughput, side by side](results.svg)\n")
    parts.append("## Subjects\n\n" + _who(results))
    parts += [
        f"## {case.title}\n\n{_run(results, case)}{case.report(results)}{_problems(results, case)}"
        for case in cases
        if case.name in results.rounds or case.name in results.problems
    ]
    if comparisons:
        parts.append("## Compared with an earlier commit\n")
    parts += [_compared(comparison, cases) for comparison in comparisons]
    parts.append("## How it was measured\n\n" + METHOD)
    return "\n".join(parts)


def goal_rows(results: Results) -> list[list[str]]:
    return [goal.row(results) for goal in goals(results.about.get("endurance", 20_000))]


def _compared(comparison: Comparison, cases: Sequence[Case]) -> str:
    tables = [case.compare(comparison) for case in cases if case.name in comparison.cases]
    return "\n".join([comparison.heading(), *tables])


def _about(results: Results) -> str:
    about = results.about
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [f"- {name}: {value}" for name, value in about["machine"].items()]
    lines.append(f"- versions: {versions}")
    lines.append(
        f"- load average at the start {about['load_start']}; at the end {about['load_end']}"
    )
    lines.append(f"- {about['rounds']} rounds, {about['minutes']:.1f} minutes")
    return f"Measured {about['date']}.\n\n" + "\n".join(lines) + "\n"


def _goals(results: Results) -> str:
    """A verdict is as good as the rounds agree, so their spread stands beside it."""
    heading = ["goal", "limit", "measured", "best and worst round", "holds"]
    return "## Goals\n\n" + table(heading, goal_rows(results))


def _who(results: Results) -> str:
    rows = []
    for entrant in ENTRANTS:
        skipped = results.skipped.get(entrant.name)
        rows.append([entrant.name, f"**skipped: {skipped}**" if skipped else entrant.title])
    return table(["subject", "what"], rows).replace("--:", "---")


def _run(results: Results, case: Case) -> str:
    """When it was measured, if that was not with the others."""
    run = results.about.get("runs", {}).get(case.name)
    if run is None:
        return ""
    loads = f"load average {run['load_start']} at the start, {run['load_end']} at the end"
    return f"A run of its own: {run['date']}, commit {run['commit']}, {loads}.\n\n"


def _problems(results: Results, case: Case) -> str:
    found = results.problems.get(case.name, {})
    lines = [f"- {name}: {reason}" for name, reason in found.items()]
    return "\nNo figure in at least one round:\n\n" + "\n".join(lines) + "\n" if lines else ""
