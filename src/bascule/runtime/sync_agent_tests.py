"""The tests of a VS Code window for synchronous code."""

from __future__ import annotations

from collections.abc import Sequence

from bascule.core.agent_test_actions import Outcome
from bascule.core.agent_test_observations import FinishedTests, FoundTests

from .agent_test_verbs import AgentTestVerbs
from .sync import SyncRuntime


class SyncAgentTests(SyncRuntime):
    """`SyncRuntime` with the methods of `AgentTestVerbs`."""

    _window: AgentTestVerbs

    def list_tests(
        self,
        path: str | None = None,
        *,
        name: str = "",
        offset: int = 0,
        limit: int = 200,
        timeout: float | None = None,
    ) -> FoundTests:
        return self._wait(
            self._window.list_tests(path, name=name, offset=offset, limit=limit, timeout=timeout)
        )

    def run_tests(
        self,
        path: str | None = None,
        *,
        tests: Sequence[str] = (),
        failed: bool = False,
        name: str = "",
        limit: int = 100,
        timeout: float | None = None,
    ) -> FinishedTests:
        return self._wait(
            self._window.run_tests(
                path, tests=tests, failed=failed, name=name, limit=limit, timeout=timeout
            )
        )

    def test_results(
        self,
        *,
        outcome: Outcome | None = None,
        query: str = "",
        offset: int = 0,
        limit: int = 100,
    ) -> FinishedTests:
        return self._wait(
            self._window.test_results(outcome=outcome, query=query, offset=offset, limit=limit)
        )
