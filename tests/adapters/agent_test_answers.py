"""Answers of the fake window to actions for tests."""

from __future__ import annotations

from bascule.core.actions import Action
from bascule.core.agent_test_actions import GetTestResults, ListTests, RunTests
from bascule.core.agent_test_observations import FinishedTests, FoundTests
from bascule.core.observations import Observation


def agent_test_answer(action: Action) -> Observation | None:
    """None for other kinds of actions."""
    match action:
        case ListTests():
            text = f"test_sums.py::test_add in {action.path}"
            return FoundTests(content=text, name="pytest", command="pytest", cause=action.id)
        case RunTests() | GetTestResults():
            items = [{"id": "test_sums.py::test_add", "outcome": "failed"}]
            return FinishedTests(
                content="1 failed",
                name="pytest",
                command="pytest",
                exit_code=1,
                counts={"failed": 1},
                items=items,
                total=1,
                cause=action.id,
            )
    return None
