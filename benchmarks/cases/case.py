"""What a case is: whom it asks how often, what it asks, and how it shows the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.compare import Comparison
from benchmarks.entrants import Entrant
from benchmarks.results import Figures, Results
from benchmarks.workers import Worker


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure."""

    rounds: int = 7
    endurance: int = 20_000
    """Commands of the endurance case, for each entrant."""
    is_quick: bool = False


class Case(ABC):
    name: str
    title: str
    is_in_editor: bool = False
    """Asks those who live in an editor and nobody else; any other case asks only the rest."""

    @abstractmethod
    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        """In how many of the rounds this entrant takes part; 0 leaves it out."""

    @abstractmethod
    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
        """Ask one worker, once. Raises `WorkerError` when there is nothing to report."""

    @abstractmethod
    def report(self, results: Results) -> str:
        """The case's section of the report, without its heading."""

    def compare(self, comparison: Comparison) -> str:
        """The case's table in the section that compares two commits."""
        return comparison.table_of(self.name)

    def finish(self, worker: Worker) -> None:  # noqa: B027
        """Undo what `measure` left in the worker from round to round."""

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """What holds around all rounds of this case."""
        yield
