"""What became of the tests in reports of pytest (JUnit XML): how many passed, and which did not.

Ends with status 1 when one did not pass or none was run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, parse


def outcomes(reports: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Each test's name, and what it did not pass for; empty when it did."""
    for report in reports:
        for case in parse(report).iter("testcase"):  # our own pytest wrote it
            yield case.get("name", ""), _lack(case)


def _lack(case: Element) -> str:
    for kind in ("failure", "error", "skipped"):
        if (found := case.find(kind)) is not None:
            return f"{kind}: {found.get('message', '').splitlines()[0]}"
    return ""


def main(reports: Sequence[Path]) -> int:
    found = list(outcomes(reports))
    missed = [(name, lack) for name, lack in found if lack]
    for name, lack in missed:
        sys.stdout.write(f"missed  {name}  {lack}\n")
    sys.stdout.write(f"{len(found) - len(missed)} of {len(found)} passed\n")
    return 1 if missed or not found else 0


if __name__ == "__main__":
    sys.exit(main([Path(each) for each in sys.argv[1:]]))
