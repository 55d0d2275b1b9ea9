"""Summarize pytest reports (JUnit XML): how many tests passed, and which did not.

Exits with status 1 if a test did not pass or no test ran.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, parse


def outcomes(reports: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Each test's name and why it did not pass; empty if it passed."""
    for report in reports:
        for case in parse(report).iter("testcase"):  # trusted: our own pytest wrote it
            yield case.get("name", ""), _problem(case)


def _problem(case: Element) -> str:
    for kind in ("failure", "error", "skipped"):
        if (found := case.find(kind)) is not None:
            return f"{kind}: {found.get('message', '').splitlines()[0]}"
    return ""


def main(reports: Sequence[Path]) -> int:
    found = list(outcomes(reports))
    missed = [(name, problem) for name, problem in found if problem]
    for name, problem in missed:
        sys.stdout.write(f"missed  {name}  {problem}\n")
    sys.stdout.write(f"{len(found) - len(missed)} of {len(found)} passed\n")
    return 1 if missed or not found else 0


if __name__ == "__main__":
    sys.exit(main([Path(each) for each in sys.argv[1:]]))
