"""`python -m benchmarks.compare REVISION`: the same cases on an earlier commit and on this one.

Both trees are measured by turns in one run, so other work on the machine affects both. The earlier
commit is checked out under `.bench/`, with a virtual environment of its own, and measured by its
own benchmark code, or with `--same-benchmarks` by the code of this commit. Each figure is shown
with the ratio of the two medians and the range of the ratios round by round: a ratio whose range
includes 1 is within the noise of the machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.tables import figure, span, table, times

ROOT = Path(__file__).parent.parent
SAVED = ROOT / "benchmarks"
"""Directory of the saved comparisons, `comparison*.json`."""

Key = tuple[str, str, str]
"""Case, subject and figure."""
Round = Mapping[Key, float]


class CommandFailed(Exception):
    """A command of the comparison failed; the message holds the end of its output."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of two commits, one `Round` each per round, and where they were measured."""

    old: Sequence[Round]
    new: Sequence[Round]
    about: Mapping[str, Any]

    @property
    def cases(self) -> set[str]:
        return {key[0] for taken in (*self.old, *self.new) for key in taken}

    @staticmethod
    def median(side: Sequence[Round], key: Key) -> float | None:
        values = [taken[key] for taken in side if key in taken]
        return statistics.median(values) if values else None

    def rows(self, case: str = "") -> Iterator[list[str]]:
        """A row per figure, of all cases or of one."""
        for key in sorted({key for taken in (*self.old, *self.new) for key in taken}):
            if case not in ("", key[0]):
                continue
            pairs = [
                after[key] / before[key]
                for before, after in zip(self.old, self.new, strict=True)
                if key in after and before.get(key)
            ]
            medians = [self.median(side, key) for side in self._sides]
            ratio = medians[1] / medians[0] if medians[0] and medians[1] is not None else None
            yield [
                " · ".join(key),
                figure(medians[0]),
                figure(medians[1]),
                times(ratio),
                span(pairs),
            ]

    @property
    def _sides(self) -> tuple[Sequence[Round], Sequence[Round]]:
        return self.old, self.new

    def heading(self) -> str:
        about = self.about
        return (
            f"Commit {about['old']} beside {about['new']}, {about['date']}, "
            f"{about['rounds']} rounds, load average {about['load_start']} at the start, "
            f"{about['load_end']} at the end. "
            "Times are in seconds and sizes in bytes, unless a name says otherwise.\n"
        )

    def table_of(self, case: str = "") -> str:
        """All figures, or those of one case."""
        columns = ["case · subject · figure", "old", "new", "new / old", "rounds"]
        return table(columns, list(self.rows(case)))

    def save(self, path: Path) -> None:
        """Write the comparison as JSON; `load` reads it back."""
        old, new = ([_nested(taken) for taken in side] for side in self._sides)
        path.write_text(json.dumps({"about": self.about, "old": old, "new": new}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Comparison:
        saved = json.loads(path.read_text())
        old, new = ([_flat(taken) for taken in saved[side]] for side in ("old", "new"))
        return cls(old=old, new=new, about=saved["about"])


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _parse(arguments)
    old_tree = _checkout(asked.revision, has_our_benchmarks=asked.same_benchmarks)
    load_start = machine.load()
    sides: dict[Path, list[Round]] = {old_tree: [], ROOT: []}
    for number in range(asked.rounds):
        turns = [old_tree, ROOT] if number % 2 == 0 else [ROOT, old_tree]
        for tree in turns:
            print(f"round {number + 1} of {asked.rounds}: {machine.commit(tree)}", flush=True)
            sides[tree].append(_measure(tree, asked))
    comparison = Comparison(
        old=sides[old_tree],
        new=sides[ROOT],
        about={
            "old": machine.commit(old_tree),
            "new": machine.commit(ROOT),
            "date": machine.now(),
            "rounds": asked.rounds,
            "load_start": load_start,
            "load_end": machine.load(),
        },
    )
    print(f"{comparison.heading()}\n{comparison.table_of()}")
    if asked.save:
        path = SAVED / f"comparison-{'-'.join(sorted(asked.only))}.json"
        comparison.save(path)
        print(f"written: {path}; `python -m benchmarks --render` adds it to RESULTS.md")


def saved(directory: Path) -> list[Comparison]:
    """The comparisons that were saved in a directory, by name."""
    return [Comparison.load(path) for path in sorted(directory.glob("comparison*.json"))]


def flatten(rounds: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> dict[Key, float]:
    """The figures of `results.json`: by case, subject and figure, the median of its rounds."""
    found: dict[Key, list[float]] = {}
    for case, subjects in rounds.items():
        for subject, taken in subjects.items():
            for figures in taken:
                for name, value in figures.items():
                    if name != "round" and type(value) in (int, float):
                        found.setdefault((case, subject, name), []).append(float(value))
    return {key: statistics.median(values) for key, values in found.items()}


def _measure(tree: Path, asked: argparse.Namespace) -> Round:
    command = [".venv/bin/python", "-m", "benchmarks", "--rounds", "1", "--only", *asked.only]
    if asked.subjects:
        command += ["--subjects", *asked.subjects]
    _call(command, tree)
    return flatten(json.loads((tree / ".bench" / "results.json").read_text())["rounds"])


def _checkout(revision: str, *, has_our_benchmarks: bool) -> Path:
    commit = _call(["git", "rev-parse", "--verify", f"{revision}^{{commit}}"], ROOT).strip()
    tree = ROOT / ".bench" / f"compare-{commit[:12]}"
    if not (tree / ".git").exists():
        _call(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(tree)], ROOT)
        _call(["git", "checkout", "--quiet", "--detach", commit], tree)
    _call(["git", "checkout", "--quiet", commit, "--", "benchmarks"], tree)
    if has_our_benchmarks:
        shutil.copytree(ROOT / "benchmarks", tree / "benchmarks", dirs_exist_ok=True)
    for each in (tree, ROOT):
        for extra in ("dev", "bench"):
            _call(["scripts/setup", extra], each)
        _call(["scripts/web"], each)
    return tree


def _call(command: Sequence[str], directory: Path) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        end = (done.stdout + done.stderr)[-2000:]
        raise CommandFailed(f"`{' '.join(command)}` exited with {done.returncode}:\n{end}")
    return done.stdout


def _nested(taken: Round) -> dict[str, dict[str, dict[str, float]]]:
    nested: dict[str, dict[str, dict[str, float]]] = {}
    for (case, subject, name), value in taken.items():
        nested.setdefault(case, {}).setdefault(subject, {})[name] = value
    return nested


def _flat(nested: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Round:
    return {
        (case, subject, name): value
        for case, subjects in nested.items()
        for subject, figures in subjects.items()
        for name, value in figures.items()
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("revision", help="earlier commit, tag or branch")
    parser.add_argument("--only", nargs="+", required=True, metavar="CASE", help="cases to measure")
    parser.add_argument("--subjects", nargs="+", metavar="SUBJECT", help="subjects to measure")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each commit (default: 4)")
    parser.add_argument(
        "--same-benchmarks",
        action="store_true",
        help="measure the earlier commit with the benchmark code of this one",
    )
    parser.add_argument(
        "--save", action="store_true", help="write benchmarks/comparison-CASES.json for RESULTS.md"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as failed:
        sys.exit(str(failed))
