"""What somebody did, step by step, and how long each step took."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Step:
    what: str
    seen: str
    seconds: float


@dataclass(slots=True)
class Diary:
    """Tells each step on stderr while it is done, and keeps it."""

    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, what: str, seen: str = "") -> Iterator[None]:
        """`seen`: what there is to see at its end."""
        say(f"{what} …")
        began = time.monotonic()
        yield
        self.steps.append(Step(what, seen, time.monotonic() - began))
        say(f"    {self.steps[-1].seconds:.1f} s{f': {seen}' if seen else ''}")

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.steps)

    def table(self) -> str:
        rows = [
            f"| {number} | {each.what} | {each.seen} | {each.seconds:.1f} |"
            for number, each in enumerate(self.steps, 1)
        ]
        head = ["| | What is done | What is seen | Seconds |", "|--:|---|---|--:|"]
        return "\n".join([*head, *rows, f"| | | **together** | **{self.seconds:.0f}** |"])


def say(line: str) -> None:
    sys.stderr.write(f"test-fresh: {line}\n")
    sys.stderr.flush()


def machine_words() -> str:
    """What it was measured on, in a phrase."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, {pages / 2**30:.0f} GiB of memory, "
        f"a load of {load:.1f} at the end, {date.today().isoformat()}"
    )


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    say(f"wrote {file.name}")
