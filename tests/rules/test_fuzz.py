"""No command that bash runs is missing from a text that rules understand.

FUZZ_SEED=N tries other texts; `python -m tests.rules.fuzz` tries more of them.
"""

from __future__ import annotations

import os

import pytest

from tests.rules.fuzz import fuzz

_SEED = int(os.environ.get("FUZZ_SEED", "20261117"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rules_see_every_command_that_bash_runs() -> None:
    report = fuzz(_SEED, 5000)

    assert report.hidden == [], f"FUZZ_SEED={_SEED}"
    # The generator has to reach deep enough for the comparison to mean something.
    assert report.counts["understood and ran a command"] > 1000, report.counts
