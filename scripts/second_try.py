"""Tests that failed and then passed when they were repeated: which ones, and whether they may.

`python -m scripts.second_try FIRST.xml SECOND.xml` compares two results of pytest (JUnit XML), the
first run and the repetition of what failed in it. It names the tests that passed only then, and
exits with 1 unless `tests/allowed_second_try.toml` allows each of them.
"""

from __future__ import annotations

import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

PROJECT = Path(__file__).parent.parent
LIST = PROJECT / "tests" / "allowed_second_try.toml"


def main(first: Path, second: Path) -> int:
    again = passed_again(outcomes(first), outcomes(second))
    allowed = read_allowed()
    for test in again:
        print(f"second try: {test}: {verdict(test, allowed)}")
    return 1 if refused(again, allowed) else 0


@dataclass(frozen=True, slots=True)
class AllowedTest:
    """An entry of the list: a test, or all tests below a class, a file or a directory."""

    id: str
    since: date
    reason: str

    def covers(self, test: str) -> bool:
        """A test's id may go on with its parameters, as pytest's arguments do."""
        return test == self.id or test.startswith(
            tuple(f"{self.id}{mark}" for mark in ("::", "[", "/"))
        )


def read_allowed(file: Path = LIST) -> Sequence[AllowedTest]:
    entries = tomllib.loads(file.read_text()).get("test", [])
    return [AllowedTest(entry["id"], entry["since"], entry["reason"]) for entry in entries]


def outcomes(file: Path) -> Mapping[str, str]:
    """The result of each test by its id; empty if there is no such file."""
    found: dict[str, str] = {}
    if not file.exists():
        return found
    for case in ET.parse(file).iter("testcase"):
        test = _test_id(case.get("classname", ""), case.get("name", ""))
        tags = {child.tag for child in case}
        if tags & {"failure", "error"}:
            found[test] = "failed"
        else:  # a test that passed but failed in teardown is listed twice
            found.setdefault(test, "skipped" if "skipped" in tags else "passed")
    return found


def passed_again(first: Mapping[str, str], second: Mapping[str, str]) -> Sequence[str]:
    return [
        test
        for test, outcome in second.items()
        if outcome == "passed" and first.get(test) == "failed"
    ]


def refused(again: Iterable[str], allowed: Sequence[AllowedTest]) -> Sequence[str]:
    return [test for test in again if not any(entry.covers(test) for entry in allowed)]


def verdict(test: str, allowed: Sequence[AllowedTest]) -> str:
    for entry in allowed:
        if entry.covers(test):
            return f"allowed since {entry.since}: {entry.reason}"
    return f"fails the run; a test that needs a second try is a bug ({LIST.relative_to(PROJECT)})"


def _test_id(classname: str, name: str) -> str:
    """As pytest's arguments write it. pytest joins directories, file and classes with dots."""
    parts = classname.split(".")
    for end in range(len(parts), 0, -1):
        file = "/".join(parts[:end]) + ".py"
        if (PROJECT / file).is_file():
            return "::".join((file, *parts[end:], name))
    return f"{classname}::{name}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
