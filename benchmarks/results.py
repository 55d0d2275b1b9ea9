"""What was measured: figures by case, entrant and round, and what can be said of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.entrants import ENTRANTS, Entrant

Figures = Mapping[str, Any]


@dataclass(slots=True)
class Results:
    """Filled while the benchmark runs; the report, the plot and the goals only read it."""

    about: dict[str, Any] = field(default_factory=dict)
    """Date, machine, versions, load."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Entrants that could not be measured at all, and why."""
    rounds: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    """By case, then by entrant: one set of figures per round that gave any."""
    problems: dict[str, dict[str, str]] = field(default_factory=dict)
    """By case, then by entrant: why a round gave no figures."""

    def add(self, case: str, entrant: Entrant, figures: Figures) -> None:
        self.rounds.setdefault(case, {}).setdefault(entrant.name, []).append(figures)

    def add_problem(self, case: str, entrant: Entrant, reason: str) -> None:
        self.problems.setdefault(case, {})[entrant.name] = reason

    def of(self, case: str, entrant: Entrant) -> list[Figures]:
        return self.rounds.get(case, {}).get(entrant.name, [])

    def entrants(self, case: str) -> Iterator[Entrant]:
        """Those that were asked, whether or not they answered, in the order of the tables."""
        known = {*self.rounds.get(case, {}), *self.problems.get(case, {})}
        return (entrant for entrant in ENTRANTS if entrant.name in known)

    def values(self, case: str, entrant: Entrant, figure: str) -> list[float]:
        """One value per round, without the rounds that could not give it."""
        found = [figures.get(figure) for figures in self.of(case, entrant)]
        return [value for value in found if isinstance(value, int | float)]

    def median(self, case: str, entrant: Entrant, figure: str) -> float | None:
        values = self.values(case, entrant, figure)
        return statistics.median(values) if values else None

    def total(self, case: str, entrant: Entrant, figure: str) -> float | None:
        values = self.values(case, entrant, figure)
        return sum(values) if values else None

    def reason(self, case: str, entrant: Entrant, figure: str) -> str:
        """Why a figure is missing, where a worker said so in its place."""
        for figures in self.of(case, entrant):
            if isinstance(figures.get(figure), str):
                return str(figures[figure])
        return self.problems.get(case, {}).get(entrant.name, "")

    def ratio(self, case: str, entrants: tuple[Entrant, Entrant], figure: str) -> float | None:
        """The first entrant's median over the second's."""
        above, below = (self.median(case, entrant, figure) for entrant in entrants)
        return above / below if above is not None and below else None

    def ratios(self, case: str, entrants: tuple[Entrant, Entrant], figure: str) -> list[float]:
        """The same round by round, for rounds in which both gave the figure."""
        above, below = (self._by_round(case, entrant, figure) for entrant in entrants)
        return [above[number] / below[number] for number in above if below.get(number)]

    def _by_round(self, case: str, entrant: Entrant, figure: str) -> dict[int, float]:
        found = enumerate(self.of(case, entrant))
        values = {figures.get("round", index): figures.get(figure) for index, figures in found}
        return {n: value for n, value in values.items() if isinstance(value, int | float)}

    def put(self, other: Results, cases: Iterable[str]) -> None:
        """Take over those cases of another run, which is told with them."""
        run = {name: other.about[name] for name in ("date", "load_start", "load_end", "rounds")}
        run["commit"] = other.about["versions"]["commit"]
        self.about["versions"] = {**other.about["versions"], **self.about["versions"]}
        for case in cases:
            self.about.setdefault("runs", {})[case] = run
            self.rounds[case] = other.rounds.get(case, {})
            self.problems[case] = other.problems.get(case, {})
        measured = {name for case in cases for name in self.rounds.get(case, {})}
        self.skipped = {
            name: why
            for name, why in {**self.skipped, **other.skipped}.items()
            if name not in measured
        }

    def save(self, path: Path) -> None:
        content = {
            "about": self.about,
            "skipped": self.skipped,
            "rounds": self.rounds,
            "problems": self.problems,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, sort_keys=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        return cls(**json.loads(path.read_text()))
