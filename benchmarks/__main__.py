"""`python -m benchmarks`: measure, then write the report, the figures and the plot.

A whole run writes beside this file. A run of some cases, or a quick one, writes to `.bench/`, so
that it never takes the place of a whole one.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table

from benchmarks import machine, plot, report
from benchmarks.cases.agent import AgentLoop
from benchmarks.cases.bridge import Bridge
from benchmarks.cases.browsing import Browsing
from benchmarks.cases.case import Case, Effort
from benchmarks.cases.cells import Cells
from benchmarks.cases.checkpoints import Checkpoints
from benchmarks.cases.command_rules import CommandRulesCase
from benchmarks.cases.containers import Containers
from benchmarks.cases.dashboard import Dashboard
from benchmarks.cases.endurance import Endurance
from benchmarks.cases.files import FileWork
from benchmarks.cases.fleet import Fleet
from benchmarks.cases.forks import ForkStart
from benchmarks.cases.language import SandboxLanguage, WindowLanguage
from benchmarks.cases.latency import Latency, LatencyOneCore
from benchmarks.cases.nets import Nets
from benchmarks.cases.openhands_v0 import OpenHandsV0
from benchmarks.cases.output import LARGE, MEDIUM, Output
from benchmarks.cases.programs import Programs
from benchmarks.cases.proxy import Proxy
from benchmarks.cases.server import ServerStart
from benchmarks.cases.sessions import Sessions
from benchmarks.cases.startup import Startup
from benchmarks.cases.window import Window
from benchmarks.cases.workbench import Workbench
from benchmarks.compare import SAVED, saved
from benchmarks.entrants import ENTRANTS, NOT_IN_A_HURRY, Entrant
from benchmarks.results import Results
from benchmarks.run import Run

ROOT = Path(__file__).parent.parent
CASES: tuple[Case, ...] = (
    *(Startup(), Latency(), LatencyOneCore()),
    *(Output("output-1mb", MEDIUM), Output("output-50mb", LARGE)),
    *(Fleet(), FileWork(), ServerStart(), Endurance()),
    *(Cells(), Bridge(), Nets(), Browsing(), Window(), Proxy(), Sessions(), Workbench()),
    *(Dashboard(), Containers(), AgentLoop(), OpenHandsV0(), Checkpoints(), ForkStart()),
    *(CommandRulesCase(), Programs(), WindowLanguage(), SandboxLanguage()),
)


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _parse(arguments)
    console = Console()
    if asked.render:
        directory = ROOT / "benchmarks"
        _write(Results.load(directory / "results.json"), CASES, directory)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    cases = [case for case in CASES if not asked.only or case.name in asked.only]
    entrants = _entrants(asked)
    effort = Effort(rounds=asked.rounds, endurance=asked.endurance, is_quick=asked.quick)
    with Run(ROOT, effort, console) as run:
        run.bring_up(entrants)
        start, began = machine.load(), perf_counter()
        run.all(cases)
        _describe(run.results, effort, start, perf_counter() - began)
    is_whole = len(cases) == len(CASES) and len(entrants) == len(ENTRANTS) and not asked.quick
    if asked.update:
        kept = Results.load(ROOT / "benchmarks" / "results.json")
        kept.put(run.results, [case.name for case in cases])
        written = _write(kept, CASES, ROOT / "benchmarks")
    else:
        written = _write(run.results, cases, ROOT / ("benchmarks" if is_whole else ".bench"))
    _show(run.results, console)
    console.print(f"written: {written}", highlight=False, soft_wrap=True)


def _entrants(asked: argparse.Namespace) -> list[Entrant]:
    if asked.subjects:
        return [entrant for entrant in ENTRANTS if entrant.name in asked.subjects]
    return [entrant for entrant in ENTRANTS if not asked.quick or entrant not in NOT_IN_A_HURRY]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--quick", action="store_true", help="3 rounds, peers hardly, 3 minutes")
    parser.add_argument("--only", nargs="+", choices=names, metavar="CASE", help=", ".join(names))
    subjects = [entrant.name for entrant in ENTRANTS]
    parser.add_argument(
        "--subjects", nargs="+", choices=subjects, metavar="SUBJECT", help=", ".join(subjects)
    )
    parser.add_argument("--rounds", type=int, help="rounds of each case (7; 3 when quick)")
    parser.add_argument("--endurance", type=int, help="commands to endure (20000; 2000 when quick)")
    parser.add_argument(
        "--update",
        action="store_true",
        help="write the cases of --only into benchmarks/RESULTS.md, and say so there",
    )
    parser.add_argument("--render", action="store_true", help="measure nothing, write it up anew")
    asked = parser.parse_args(arguments)
    if asked.update and (not asked.only or asked.quick or asked.subjects):
        parser.error("--update is for whole cases: it needs --only, without --quick or --subjects")
    asked.rounds = asked.rounds or (3 if asked.quick else 7)
    asked.endurance = asked.endurance or (2000 if asked.quick else 20_000)
    return asked


def _describe(results: Results, effort: Effort, load_start: str, seconds: float) -> None:
    results.about |= {
        "date": machine.now(),
        "machine": machine.facts(),
        "versions": results.about.get("versions", {}) | {"commit": machine.commit(ROOT)},
        "load_start": load_start,
        "load_end": machine.load(),
        "rounds": effort.rounds,
        "endurance": effort.endurance,
        "minutes": seconds / 60,
    }


def _write(results: Results, cases: Sequence[Case], directory: Path) -> Path:
    results.save(directory / "results.json")
    plot.draw(results, directory / "results.svg")
    path = directory / "RESULTS.md"
    comparisons = saved(SAVED) if directory == SAVED else []
    path.write_text(report.render(results, cases, comparisons))
    return path


def _show(results: Results, console: Console) -> None:
    goals = Table("goal", "limit", "measured", "rounds", "holds", title="Goals")
    for row in report.goal_rows(results):
        goals.add_row(*(cell.replace("*", "") for cell in row))
    console.print(goals)


if __name__ == "__main__":
    main()
