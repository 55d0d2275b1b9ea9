"""A test that passes only when it is repeated fails the run, unless the list allows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

from scripts.second_try import LIST, AllowedTest, read_allowed

UNLUCKY = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("file", ["first", "second"])
def test_unlucky(file):
    known = Path(__file__).with_name(file)
    if not known.exists():
        known.touch()
        raise AssertionError
"""
ENTRY = """
[[test]]
id = "{}"
since = 2026-11-17
reason = "it is unlucky"
"""


@pytest.fixture
def copy(project: Path, tmp_path: Path) -> Path:
    """A project with one test file, run by our scripts."""
    (tmp_path / "scripts").mkdir()
    for name in ("twice", "second_try.py"):
        shutil.copy(project / "scripts" / name, tmp_path / "scripts")
    (tmp_path / ".venv").symlink_to(project / ".venv")
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / LIST.name).touch()
    (tmp_path / "tests" / "test_luck.py").write_text(UNLUCKY)
    return tmp_path


def twice(project: Path) -> tuple[int, list[str]]:
    """The exit code, and what is said about tests that passed at the second try."""
    ours = ("STAGE", "TEST_RESULTS", "PYTEST_")
    outside = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [project / "scripts" / "twice"]
    outside["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # it starts in half the time
    done = subprocess.run(command, env=outside, stdout=subprocess.PIPE, text=True)
    said = [line for line in done.stdout.splitlines() if line.startswith("second try: ")]
    return done.returncode, said


@pytest.mark.slow
def test_a_test_that_passes_only_at_the_second_try_fails_the_run_unless_it_is_listed(
    copy: Path,
) -> None:
    entry = ENTRY.format("tests/test_luck.py::test_unlucky[first]")
    (copy / "tests" / LIST.name).write_text(entry)
    status, said = twice(copy)
    assert status == 1
    test = "second try: tests/test_luck.py::test_unlucky"
    assert [line.partition(";")[0] for line in said] == [
        f"{test}[first]: allowed since 2026-11-17: it is unlucky",
        f"{test}[second]: fails the run",
    ]


@pytest.mark.slow
def test_tests_in_the_list_may_need_a_second_try_but_not_a_third(copy: Path) -> None:
    (copy / "tests" / LIST.name).write_text(ENTRY.format("tests/test_luck.py"))
    assert twice(copy)[0] == 0
    (copy / "tests" / "test_luck.py").write_text("def test_wrong(): raise AssertionError")
    assert twice(copy) == (1, [])


@pytest.mark.parametrize(
    ("id", "covers"),
    [
        ("tests/a/test_b.py::TestC::test_d[x/y]", True),
        ("tests/a/test_b.py::TestC::test_d", True),
        ("tests/a/test_b.py::TestC", True),
        ("tests/a/test_b.py", True),
        ("tests/a", True),
        ("tests/a/test_b.py::TestC::test_", False),
        ("tests/a/test", False),
        ("tests/a/test_b.py::TestC::test_d[x]", False),
    ],
)
def test_an_entry_is_a_test_or_everything_below_a_path(id: str, covers: bool) -> None:
    entry = AllowedTest(id, date(2026, 11, 17), "why")
    assert entry.covers("tests/a/test_b.py::TestC::test_d[x/y]") is covers


def test_every_entry_of_the_list_names_something_that_exists(project: Path) -> None:
    suites = (project / "tests" / "contracts").glob("*.py")  # classes inherit tests from them
    inherited = "".join(suite.read_text() for suite in suites)
    for entry in read_allowed():
        file, *names = entry.id.partition("[")[0].split("::")
        assert (project / file).exists(), entry
        source = (project / file).read_text() + inherited if names else ""
        for name in names:
            assert re.search(rf"\b(def|class) {name}\b", source), entry
        assert entry.reason, entry
