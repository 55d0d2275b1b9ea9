"""Kinds of actions for the tests of an editor window.

`editor_actions` lists them with the other kinds that only windows can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from .actions import Action
from .event_class import event_class

Outcome = Literal["passed", "failed", "error", "skipped"]


@event_class()
class ListTests(Action):
    """List the tests of the workspace. This runs a test command, which imports the tests."""

    kind: ClassVar[str] = "list_tests"

    path: str | None = None
    """List only the tests of this file or directory."""
    name: str = ""
    """The test command. Empty: the only one, or the one that fits `path`."""
    offset: int = 0
    """How many tests to skip, to read the next part of a long list."""
    limit: int = 200
    thought: str = ""


@event_class()
class RunTests(Action):
    """Run tests with a test command, and return the result of each test."""

    kind: ClassVar[str] = "run_tests"

    path: str | None = None
    """Run only the tests of this file or directory."""
    tests: Sequence[str] = ()
    """Run only these tests, by their `id` in a list or result."""
    failed: bool = False
    """Run only the tests that failed in the agent's last run."""
    name: str = ""
    """The test command. Empty: the only one, or the one that fits the other arguments."""
    limit: int = 100
    """Maximum number of results in the answer. `test_results` returns the others."""
    thought: str = ""


@event_class()
class GetTestResults(Action):
    """Return results of the agent's last run of tests, without running tests."""

    kind: ClassVar[str] = "test_results"

    outcome: Outcome | None = None
    """Only the results with this outcome."""
    query: str = ""
    """Only the results of tests whose id contains this text."""
    offset: int = 0
    limit: int = 100
    thought: str = ""


AGENT_TEST_ACTIONS: Sequence[type[Action]] = (ListTests, RunTests, GetTestResults)
"""Every action class of this module."""
