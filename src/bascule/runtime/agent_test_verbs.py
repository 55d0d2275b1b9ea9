"""Convenience methods for the tests of a VS Code window."""

from __future__ import annotations

from collections.abc import Sequence

from bascule.core.agent_test_actions import GetTestResults, ListTests, Outcome, RunTests
from bascule.core.agent_test_observations import FinishedTests, FoundTests

from .verbs import Verbs


class AgentTestVerbs(Verbs):
    """`Verbs`, and methods that run tests by the test commands of the window."""

    async def list_tests(
        self,
        path: str | None = None,
        *,
        name: str = "",
        offset: int = 0,
        limit: int = 200,
        timeout: float | None = None,
    ) -> FoundTests:
        """The tests of a file, a directory or the workspace. Runs a command that collects them."""
        action = ListTests(path, name, offset, limit, timeout=timeout)
        return await self._do(action, FoundTests)

    async def run_tests(
        self,
        path: str | None = None,
        *,
        tests: Sequence[str] = (),
        failed: bool = False,
        name: str = "",
        limit: int = 100,
        timeout: float | None = None,
    ) -> FinishedTests:
        """Run all tests, those of a file or directory, the tests with these ids, or those that
        failed in the last run. Failed tests are results, not errors."""
        action = RunTests(path, tests, failed, name, limit, timeout=timeout)
        return await self._do(action, FinishedTests)

    async def test_results(
        self,
        *,
        outcome: Outcome | None = None,
        query: str = "",
        offset: int = 0,
        limit: int = 100,
    ) -> FinishedTests:
        """Results of the last run of tests, without running tests again."""
        return await self._do(GetTestResults(outcome, query, offset, limit), FinishedTests)
