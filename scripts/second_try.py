"""Fail for tests that passed only when run once more: `second_try.py FIRST SECOND [LIST]`.

FIRST and SECOND are what pytest remembers of the tests that failed, in two runs. LIST,
`tests/second_try.txt` by default, names tests that are known to need it. A line is a date, the
test as pytest names it, and a reason, with spaces between. The list is printed; it should shrink.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

LIST = Path(__file__).parent.parent / "tests/second_try.txt"


@dataclass(frozen=True, slots=True)
class Known:
    """A test that is known to fail now and then."""

    since: date
    test: str
    """With the parameters in brackets, or without, for all of them."""
    reason: str

    def is_about(self, test: str) -> bool:
        return self.test in (test, test.partition("[")[0])


def read(text: str) -> list[Known]:
    """Raises `ValueError` for a line that is no date, test and reason."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        since, test, reason = (*line.split(maxsplit=2), "", "")[:3]
        if "::" not in test or not reason:
            raise ValueError(f"line {number} is not a date, a test and a reason: {line}")
        found.append(Known(date.fromisoformat(since), test, reason))
    return found


def unexcused(first: Path, second: Path, known: Sequence[Known]) -> list[str]:
    """Tests that failed at first, passed then, and are not known to do so."""
    passed = set(_failed(first)) - set(_failed(second))
    return sorted(test for test in passed if not any(each.is_about(test) for each in known))


def _failed(file: Path) -> list[str]:
    """Pytest leaves no file where nothing failed."""
    return list(json.loads(file.read_text())) if file.exists() else []


def main(arguments: Sequence[str]) -> int:
    first, second, *rest = map(Path, arguments)
    known = read((rest[0] if rest else LIST).read_text())
    if known:
        print(f"\n{len(known)} tests are allowed a second try:")
        for each in known:
            print(f"  {each.since} {each.test}: {each.reason}")
    found = unexcused(first, second, known)
    for test in found:
        print(f"passed only at the second try, which fails this run: {test}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
