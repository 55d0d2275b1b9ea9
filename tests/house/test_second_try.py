"""A test that passes only at the second try fails the run, unless the list names it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).parents[2]
SCRIPT = PROJECT / "scripts/second_try.py"


@pytest.fixture(scope="module")
def second_try() -> ModuleType:
    spec = importlib.util.spec_from_file_location("second_try", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("first", "second", "known", "status"),
    [
        (["a.py::one"], ["a.py::one"], "", 0),  # failed twice: pytest's own status tells
        (["a.py::one"], [], "", 1),
        (["a.py::one"], [], "2026-11-16 a.py::one it waits for a clock", 0),
        (["a.py::one", "a.py::two"], [], "2026-11-16 a.py::one it waits for a clock", 1),
        (["a.py::one[x]"], [], "2026-11-16 a.py::one it waits for a clock", 0),
        (["a.py::one[x]"], [], "2026-11-16 a.py::one[y] it waits for a clock", 1),
    ],
)
def test_what_passes_only_then_fails_unless_it_is_named(
    tmp_path: Path, first: list[str], second: list[str], known: str, status: int
) -> None:
    files = [tmp_path / name for name in ("first", "second", "list")]
    files[0].write_text(json.dumps(dict.fromkeys(first, True)))
    if second:  # pytest leaves no file where nothing failed
        files[1].write_text(json.dumps(dict.fromkeys(second, True)))
    files[2].write_text(f"# A comment.\n\n{known}\n")

    done = subprocess.run(
        [sys.executable, SCRIPT, *files], capture_output=True, text=True, check=False
    )

    assert done.returncode == status, done.stderr
    assert ("it waits for a clock" in done.stdout) == bool(known)
    assert ("fails this run: a.py" in done.stdout) == bool(status)


@pytest.mark.parametrize("line", ["a.py::one", "2026-11-16 a.py::one", "soon a.py::one reason"])
def test_a_line_without_date_test_and_reason_is_refused(second_try: ModuleType, line: str) -> None:
    with pytest.raises(ValueError, match=r"line 1|isoformat"):
        second_try.read(line)


def test_the_list_names_tests_that_are_there_and_not_for_long(second_try: ModuleType) -> None:
    today = datetime.now(UTC).date()
    for each in second_try.read((PROJECT / "tests/second_try.txt").read_text()):
        file, _, name = each.test.partition("::")
        text = (PROJECT / file).read_text()
        assert f"def {name.rpartition('::')[2].partition('[')[0]}" in text, each.test
        assert date(2026, 1, 1) <= each.since <= today, each.test
