"""Observations for the actions in `agent_test_actions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .event_class import event_class
from .observations import Observation


@event_class(kw_only=True)
class FoundTests(Observation):
    """The tests of a test command. `content` has one line for each, with `path:line`."""

    kind: ClassVar[str] = "list_tests"

    name: str
    """The test command."""
    command: str
    """The command line that listed the tests."""
    items: Sequence[Mapping[str, Any]] = ()
    """Each: id, path, line (null if unknown)."""
    names: Sequence[str] = ()
    """All test commands of the workspace."""
    total: int = 0
    """All tests, also those left out by `offset` and `limit`."""
    truncated: bool = False


@event_class(kw_only=True)
class FinishedTests(Observation):
    """The results of a run of tests. `content` has the numbers, and the tests that did not pass."""

    kind: ClassVar[str] = "test_results"

    name: str
    """The test command."""
    command: str
    """The command line that ran."""
    exit_code: int
    counts: Mapping[str, int]
    """Number of tests by outcome: passed, failed, error, skipped."""
    duration: float = 0.0
    """Seconds that the command ran."""
    items: Sequence[Mapping[str, Any]] = ()
    """Each: id, outcome, message, duration (seconds), path, line. The tests that failed come first;
    their line is where they failed. `error` is a failure outside the test, as in its setup."""
    total: int = 0
    """All results that fit, also those left out by `offset` and `limit`."""
    truncated: bool = False


AGENT_TEST_OBSERVATIONS: Sequence[type[Observation]] = (FoundTests, FinishedTests)
"""Every observation class of this module."""
